//! Makes messages of the snapshots of a running recording.

use std::collections::HashMap;
use std::io;
use std::time::{Duration, SystemTime};

use analysis::resources::resource;
use analysis::runtimes::Runtime;
use export::exchange::{LiveInterval, LivePlace, ProfileKind, StatedValue};
use live::snapshot::{CountedStack, Snapshot, Task};
use model::{Name, Pid, Space};
use perfdata::sections::resources::ProcessResource;
use profile::{Count, Weight};
use push::{Message, Protocol};
use symbolizer::NameStyle;

use crate::commands::push::REQUEST_LIMITS;

/// The largest difference between the times of intervals, which follow each other without gaps, and the wall clock: after a larger one, the
/// clock was set or the machine slept, and the next interval ends now.
const MAX_DRIFT: Duration = Duration::from_secs(30);

/// Follows the intervals of a recording.
pub(super) struct Intervals {
    protocol: Protocol,
    /// CPU time from sample to sample.
    period: Duration,
    host: Option<String>,
    /// The user whose processes are sent; `None` for all.
    user: Option<u32>,
    /// The end of the last interval.
    end: Option<SystemTime>,
}

impl Intervals {
    /// Follows a recording of the CPU clock with this period on this host.
    pub(super) fn new(protocol: Protocol, period: Duration, host: Option<String>) -> Self {
        Self { protocol, period, host, user: None, end: None }
    }

    /// Sends the processes of this user alone, if one is given. The recording must note users ([`recorder::Options::users`]).
    pub(super) fn of_user(self, user: Option<u32>) -> Self {
        Self { user, ..self }
    }

    /// Returns the messages for an interval.
    ///
    /// # Errors
    /// They cannot be compressed, for want of memory.
    pub(super) fn messages(&mut self, snapshot: &Snapshot) -> io::Result<Vec<Message>> {
        let interval = self.interval(snapshot);
        let no_query = |body| Message { query: String::new(), body };
        Ok(match self.protocol {
            Protocol::Otlp => interval.requests(REQUEST_LIMITS)?.into_iter().map(no_query).collect(),
            Protocol::Pyroscope => {
                let profiles = interval.ingested_profiles(REQUEST_LIMITS)?.into_iter();
                profiles.map(|profile| Message { query: profile.query, body: profile.body }).collect()
            }
        })
    }

    /// Returns when an interval of this length began, if it is known now.
    fn start(&mut self, length: Duration, now: SystemTime) -> SystemTime {
        let expected = self.end.map(|end| end + length);
        let distance = |end: SystemTime| now.duration_since(end).unwrap_or_else(|error| error.duration());
        let end = expected.filter(|&end| distance(end) <= MAX_DRIFT).unwrap_or(now);
        self.end = Some(end);
        end.checked_sub(length).unwrap_or(end)
    }

    fn interval(&mut self, snapshot: &Snapshot) -> LiveInterval {
        let covered = snapshot.status.covered;
        let start = self.start(covered, SystemTime::now());
        if snapshot.status.ended {
            // The next recording does not follow without a gap.
            self.end = None;
        }
        let start = start.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let lost = snapshot.status.loss.samples;
        let unfinished = samples_with_unfinished_names(snapshot);
        let nanoseconds = |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        let period = nanoseconds(self.period);
        let kind = ProfileKind {
            event: "cpu-clock".to_owned(),
            name: "cpu".to_owned(),
            unit: "nanoseconds".to_owned(),
            counts_samples: true,
            period,
            weight: Weight::Samples,
            stated: [("prof.lost_samples", lost), ("prof.samples_with_unfinished_names", unfinished)]
                .into_iter()
                .filter(|(_, count)| *count > 0)
                .map(|(name, count)| (name, StatedValue::Number(count)))
                .collect(),
        };
        let demangled =
            |name: &str| symbolizer::display_name(name.as_bytes(), NameStyle::Demangled).into_owned();
        let mut interval = LiveInterval::new(vec![kind], nanoseconds(start), nanoseconds(covered), demangled);
        let known = snapshot.recording.as_ref().map(|recording| &recording.resources);
        let mut processes: HashMap<i32, ProcessResource> = HashMap::new();
        for task in &snapshot.tasks {
            let user = || known.and_then(|known| known.user_of(Pid(task.pid)));
            if processes.contains_key(&task.pid) || self.user.is_some() && self.user != user() {
                continue;
            }
            let process = known.and_then(|known| known.resource_of(Pid(task.pid))).unwrap_or_default();
            let name =
                if task.pid == task.tid { Name::from(&*task.comm) } else { main_name(snapshot, task.pid) };
            interval.set_resource(task.pid, resource(&process, Pid(task.pid), &name, self.host.as_deref()));
            processes.insert(task.pid, process);
        }
        let mut locations: HashMap<u32, u32> = HashMap::new();
        let mut stacks: HashMap<u32, u32> = HashMap::new();
        for counted in snapshot.stacks.iter().filter(|counted| counted.samples > 0) {
            let task = snapshot.tasks.get(counted.task as usize);
            let is_sent = |task: &&Task| !task.is_idle() && processes.contains_key(&task.pid);
            let Some(task) = task.filter(is_sent) else { continue };
            let stack = *stacks.entry(counted.stack).or_insert_with(|| {
                let numbers = stack(snapshot, counted.stack, &processes, &mut interval, &mut locations);
                interval.stack(numbers)
            });
            let thread = interval.thread(task.pid, &task.comm);
            let count = Count { samples: counted.samples, period: period.saturating_mul(counted.samples) };
            interval.count(0, thread, stack, count);
        }
        if let Some(known) = known {
            known.forget_old();
        }
        interval
    }
}

/// Returns the number of samples with an address whose functions are not known, or whose inlined calls are not, because looking them up
/// would have taken more time than it may.
fn samples_with_unfinished_names(snapshot: &Snapshot) -> u64 {
    if snapshot.status.unnamed == 0 {
        return 0;
    }
    let is_unfinished =
        |number| snapshot.addresses.get(number as usize).is_some_and(|address| !address.is_resolved);
    let unfinished = |counted: &&CountedStack| snapshot.addresses_of(counted.stack).any(is_unfinished);
    snapshot.stacks.iter().filter(unfinished).map(|counted| counted.samples).sum()
}

/// Returns the name of a process's first thread, or of the one with the smallest number that has samples.
fn main_name(snapshot: &Snapshot, pid: i32) -> Name {
    let threads = snapshot.tasks.iter().filter(|task| task.pid == pid);
    threads.min_by_key(|task| task.tid).map_or_else(|| Name::from(""), |task| Name::from(&*task.comm))
}

/// Returns the numbers of a stack's locations, the innermost first.
fn stack(
    snapshot: &Snapshot,
    stack: u32,
    processes: &HashMap<i32, ProcessResource>,
    interval: &mut LiveInterval,
    locations: &mut HashMap<u32, u32>,
) -> Vec<u32> {
    // The frames of a stack are those of its addresses.
    let leaf = snapshot.leaf_nodes.get(stack as usize).copied().unwrap_or(0);
    let mut frames = snapshot.frames_of(leaf);
    let numbers = snapshot.addresses_of(stack).filter_map(|number| {
        let address = snapshot.addresses.get(number as usize)?;
        let of_address = frames.by_ref().take(address.frames.len());
        let functions: Vec<_> =
            of_address.filter_map(|frame| snapshot.functions.get(frame.function as usize)).collect();
        Some(*locations.entry(number).or_insert_with(|| {
            let place = LivePlace {
                id: address.entry.space,
                space: &address.space,
                offset: address.entry.offset,
                in_kernel: address.entry.in_kernel,
                generated_kind: generated_kind(&address.space, processes),
            };
            interval.location(place, functions.iter().map(|function| (&*function.name, &*function.module)))
        }))
    });
    numbers.collect()
}

/// Returns the kind of a process's generated code, by its program.
fn generated_kind(space: &Space, processes: &HashMap<i32, ProcessResource>) -> Option<&'static str> {
    let (Space::Jit { pid, .. } | Space::JitDump { pid, .. }) = space else { return None };
    let program = processes.get(&pid.0)?.executable.as_ref()?;
    match program.base_name() {
        b"java" => Some("jvm"),
        b"dotnet" => Some("dotnet"),
        name => Runtime::of_object(name)?.frame_type(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_follow_each_other_until_the_clock_is_set() {
        let mut intervals = Intervals::new(Protocol::Otlp, Duration::from_millis(50), None);
        let at = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        let length = Duration::from_secs(10);
        assert_eq!(intervals.start(length, at(1000)), at(990));
        // Names were waited for.
        assert_eq!(intervals.start(length, at(1014)), at(1000));
        assert_eq!(intervals.start(length, at(1020)), at(1010));
        assert_eq!(intervals.start(length, at(5000)), at(4990));
        assert_eq!(intervals.start(length, at(3000)), at(2990));
    }
}
