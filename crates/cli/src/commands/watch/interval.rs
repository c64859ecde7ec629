//! Makes messages of the snapshots of a running recording.

use std::collections::HashMap;
use std::io;
use std::time::{Duration, SystemTime};

use analysis::resources::resource;
use analysis::runtimes::Runtime;
use export::exchange::{self, ExportedEvent, ExportedRecording, StatedValue};
use live::snapshot::{Snapshot, is_idle};
use live::views::Scope;
use model::{Name, Pid, Space};
use perfdata::sections::resources::ProcessResource;
use profile::{Count, Detail, Profile, Show, StackId, Thread};
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
        let covered = snapshot.status.covered;
        let start = self.start(covered, SystemTime::now());
        if snapshot.status.ended {
            // The next recording does not follow without a gap.
            self.end = None;
        }
        let nanoseconds = |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        let processes = self.processes(snapshot);
        let profile = self.profile(snapshot, &processes);
        let unfinished = samples_with_unfinished_names(snapshot, &profile);
        let scope = Scope::default();
        let view = scope.view(snapshot, &profile, Show { one_liners: true, ..scope.show() });
        let host = self.host.as_deref();
        let of_process = |(&pid, (process, name)): (&Pid, &(ProcessResource, Name))| {
            (pid.0, resource(process, pid, name, host))
        };
        let spaces = snapshot.spaces.iter();
        let recording = ExportedRecording {
            events: vec![ExportedEvent {
                name: "cpu-clock".to_owned(),
                view: &view,
                unit: None,
                is_clock: true,
                time: None,
                period: Some(nanoseconds(self.period)),
                frequency: None,
                stated: (unfinished > 0)
                    .then_some(("prof.samples_with_unfinished_names", StatedValue::Number(unfinished)))
                    .into_iter()
                    .collect(),
            }],
            spaces: &snapshot.spaces,
            title: "",
            caveats: Vec::new(),
            started_unix_ns: Some(nanoseconds(
                start.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default(),
            )),
            duration_ns: nanoseconds(covered),
            labels: &[],
            resources: processes.iter().map(of_process).collect(),
            generated_code_kinds: spaces
                .filter_map(|(id, space)| Some((id, generated_kind(space, &processes)?)))
                .collect(),
            object_ids: HashMap::new(),
            display_name: &|name| {
                symbolizer::display_name(name.as_bytes(), NameStyle::Demangled).into_owned()
            },
            gaps: &[],
            waits: &[],
        };
        let no_query = |body| Message { query: String::new(), body };
        let messages = match self.protocol {
            Protocol::Otlp => {
                exchange::requests(&recording, REQUEST_LIMITS)?.into_iter().map(no_query).collect()
            }
            Protocol::Pyroscope => {
                let profiles = exchange::ingested_profiles(&recording, REQUEST_LIMITS)?.into_iter();
                profiles.map(|profile| Message { query: profile.query, body: profile.body }).collect()
            }
        };
        snapshot.resources.forget_old();
        Ok(messages)
    }

    /// Returns when an interval of this length began, if it is known now.
    fn start(&mut self, length: Duration, now: SystemTime) -> SystemTime {
        let expected = self.end.map(|end| end + length);
        let distance = |end: SystemTime| now.duration_since(end).unwrap_or_else(|error| error.duration());
        let end = expected.filter(|&end| distance(end) <= MAX_DRIFT).unwrap_or(now);
        self.end = Some(end);
        end.checked_sub(length).unwrap_or(end)
    }

    /// Returns the processes that are sent: those with samples, each with its name, which is that of its first thread, or of the one with
    /// the smallest number that has samples.
    fn processes(&self, snapshot: &Snapshot) -> HashMap<Pid, (ProcessResource, Name)> {
        let known = &snapshot.resources;
        let mut first: HashMap<Pid, &Thread> = HashMap::new();
        for thread in counts(snapshot).map(|(thread, ..)| thread) {
            let Some((pid, tid)) = thread.ids else { continue };
            let known = first.entry(pid).or_insert(thread);
            if known.ids.is_some_and(|(_, known)| (tid.0 != pid.0, tid) < (known.0 != pid.0, known)) {
                *known = thread;
            }
        }
        let is_sent = |pid: &Pid| self.user.is_none() || self.user == known.user_of(*pid);
        let sent = first.into_iter().filter(|(pid, _)| is_sent(pid));
        sent.map(|(pid, thread)| (pid, (known.resource_of(pid).unwrap_or_default(), thread.comm.clone())))
            .collect()
    }

    /// Returns the samples of these processes. Threads of one name are one.
    fn profile(&self, snapshot: &Snapshot, processes: &HashMap<Pid, (ProcessResource, Name)>) -> Profile {
        let mut profile = Profile::new(Detail { processes: true, ..Detail::default() });
        if let Some(whole) = snapshot.profiles.first() {
            (profile.stacks, profile.loss) = (whole.stacks.clone(), whole.loss);
        }
        let period = u64::try_from(self.period.as_nanos()).unwrap_or(u64::MAX);
        for (thread, stack, Count { samples, .. }) in counts(snapshot) {
            let Some((pid, tid)) = thread.ids else { continue };
            let Some((_, name)) = processes.get(&pid) else { continue };
            let number = profile.thread(&thread.comm, pid, tid, || name.clone());
            let count = Count { samples, period: period.saturating_mul(samples) };
            profile.add_counts(number, stack, count);
        }
        profile
    }
}

/// Iterates over the counted samples, but for those of idle CPUs.
fn counts(snapshot: &Snapshot) -> impl Iterator<Item = (&Thread, StackId, Count)> {
    let counts = snapshot.profiles.iter().flat_map(|profile| {
        profile.counts().map(|(thread, stack, count)| (&profile.threads()[thread.index()], stack, count))
    });
    counts.filter(|(thread, _, count)| count.samples > 0 && !is_idle(thread))
}

/// Returns the number of samples with an address whose functions are not known, or whose inlined calls are not, because looking them up
/// would have taken more time than it may.
fn samples_with_unfinished_names(snapshot: &Snapshot, profile: &Profile) -> u64 {
    if snapshot.status.unnamed == 0 {
        return 0;
    }
    let places = profile.stacks.places();
    let is_unfinished = |stack| {
        let mut entries = profile.stacks.entries(stack).filter_map(|place| places.get(place.index()));
        entries.any(|entry| snapshot.names.is_pending(entry))
    };
    let counts = profile.counts().filter(|&(_, stack, _)| is_unfinished(stack));
    counts.map(|(.., count)| count.samples).sum()
}

/// Returns the kind of a process's generated code, by its program.
fn generated_kind(space: &Space, processes: &HashMap<Pid, (ProcessResource, Name)>) -> Option<&'static str> {
    let (Space::Jit { pid, .. } | Space::JitDump { pid, .. }) = space else { return None };
    let program = processes.get(pid)?.0.executable.as_ref()?;
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
