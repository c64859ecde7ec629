//! The snapshot: plain data that the engine makes, and that views, text and JSON read.
//!
//! Stacks are of addresses. Names lie apart from them, so that a name which becomes known changes no stack.

use std::time::Duration;

use export::printable;
use model::{Blocked, Loss, Name, Space, SpaceTable, ThreadState};
use profile::{Detail, HOST, Label, Profile, StackId, Thread, Weight};
use recorder::ProcessResources;
use recorder::unwind::{MAX_REMARKS, RefusedTables};

use super::names::Names;

/// The detail of a snapshot's profiles: they keep threads apart, with the containers that they ran in.
pub(crate) const KEPT_APART: Detail = Detail {
    threads: true,
    pools: false,
    processes: false,
    cpus: false,
    containers: true,
    cgroups: false,
    samples: None,
};

/// The counted samples of a span of time, with names.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// The samples of each of [`Status::events`]. All of them number stacks and threads alike.
    pub profiles: Vec<Profile>,
    /// The spaces of their addresses.
    pub spaces: SpaceTable,
    /// The names of their addresses.
    pub names: Names,
    /// True if threads that have slept since before the recording count as at rest, because nothing says where they sleep.
    pub sleepers_rest: bool,
    /// The services, programs and cgroups of processes with samples, where they are read.
    pub resources: ProcessResources,
    /// The status of the recording as a whole.
    pub status: Status,
}

impl Snapshot {
    /// Returns the state of a thread that a frame stands for; `None` if the frame is code.
    pub fn state_kind(&self, label: &Label) -> Option<StateKind> {
        let Label::State(state) = label else { return None };
        Some(self.kind_of(state))
    }

    /// Returns the state of a thread with this stack; `None` if the innermost entry is code.
    pub(crate) fn state_of(&self, profile: &Profile, stack: StackId) -> Option<StateKind> {
        let (place, _) = profile.stacks.split(stack)?;
        let entry = profile.stacks.places().get(place.index())?;
        let Space::State(state) = self.spaces.get(entry.space) else { return None };
        Some(self.kind_of(state))
    }

    fn kind_of(&self, state: &ThreadState) -> StateKind {
        match state {
            ThreadState::Blocked(Blocked::Events(_)) => StateKind::AtRest,
            ThreadState::Blocked(Blocked::SinceBefore) if self.sleepers_rest => StateKind::AtRest,
            ThreadState::Blocked(_) | ThreadState::WokenBy(_) => StateKind::Blocked,
            ThreadState::Running => StateKind::Running,
            ThreadState::Runnable(_) => StateKind::Runnable,
            ThreadState::Unknown => StateKind::Unknown,
        }
    }

    /// Takes over the names of a newer snapshot and keeps the samples. Returns true if names may have changed. Changes nothing, and
    /// returns false, if the newer one has forgotten some.
    pub fn update_names(&mut self, newer: &Self) -> bool {
        let is_newer = newer.names.continues(&self.names);
        if is_newer {
            self.names = newer.names.clone();
            let places = self.profiles.first().map_or(&[][..], |profile| profile.stacks.places());
            self.status.unnamed = places.iter().filter(|entry| self.names.is_pending(entry)).count() as u64;
        }
        is_newer
    }
}

/// Returns the process and the thread that samples were taken in.
pub fn ids_of(thread: &Thread) -> (i32, i32) {
    thread.ids.map_or((-1, -1), |(pid, tid)| (pid.0, tid.0))
}

/// Returns true if this is the idle task of a CPU: the kernel gives all of them the ids 0.
pub fn is_idle(thread: &Thread) -> bool {
    ids_of(thread) == (0, 0)
}

/// Returns the container, shortened (`docker:0123456789ab`); `None` on the host.
pub fn container_of(thread: &Thread) -> Option<&Name> {
    thread.container.as_ref().filter(|name| name.as_bytes() != HOST.as_bytes())
}

/// The kind of a thread's state, in a view of time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum StateKind {
    /// Runs, and no sample says what.
    Running,
    /// Ready to run, and waits for a CPU.
    Runnable,
    /// Blocked.
    Blocked,
    /// An event loop that waits for events, or a thread that has slept since before the recording and cannot be read.
    AtRest,
    /// Not known, because records of switches were lost.
    Unknown,
}

/// The span of samples that a snapshot is made of.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Span {
    /// The sliding window.
    #[default]
    Window,
    /// Since the start or the last reset, without the counts that were dropped to bound memory.
    Start,
}

/// Facts about a snapshot as a whole.
#[derive(Clone, Debug, Default)]
pub struct Status {
    /// The recorded target: `whole system`, `processes of user 1000`, `pid 17`.
    pub target: String,
    /// The quantities that were counted: the sampling events, or time.
    pub events: Vec<EventStatus>,
    /// Number of sampled CPUs.
    pub cpus: u32,
    /// The span of the samples.
    pub span: Span,
    /// The length of time in which the samples were taken.
    pub covered: Duration,
    /// The window's length.
    pub window: Duration,
    /// Number of samples, of all events.
    pub samples: u64,
    /// Number of samples with a complete stack; `None` where that is not known.
    pub complete: Option<u64>,
    /// The loss in the interval, or since the start (or the last reset).
    pub loss: Loss,
    /// Number of samples that were counted and then dropped, because there were too many different stacks.
    pub aged_out: u64,
    /// Number of addresses that have not been symbolized yet.
    pub unnamed: u64,
    /// Our own use of CPU time since the last snapshot, in per cent of one CPU.
    pub own_cpu: f64,
    /// Our own resident memory, in bytes.
    pub own_memory: u64,
    /// A sentence for each file that was found for names or stacks and not used, or in part only; the first few. Without control
    /// characters.
    pub remarks: Vec<String>,
    /// Number of remarks that were left out.
    pub remarks_omitted: u64,
    /// True if the target has ended: no other snapshot follows.
    pub ended: bool,
}

/// The unit of weights where samples are counted.
pub(crate) const SAMPLES: &str = "samples";

/// An event that takes samples.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct EventStatus {
    /// Its name.
    pub name: String,
    /// Samples per second and CPU as asked for; `None` for a fixed period.
    pub frequency: Option<u64>,
    /// The unit of weights: `samples`, or the event's own.
    pub unit: String,
    /// True if weights are the time of threads, in nanoseconds, and not samples.
    pub is_time: bool,
}

impl EventStatus {
    /// Returns how its samples are weighed.
    pub fn weight(&self) -> Weight {
        if self.unit == SAMPLES { Weight::Samples } else { Weight::Period }
    }
}

impl Status {
    /// Returns the samples per second in the time covered.
    pub fn rate(&self) -> f64 {
        let seconds = self.covered.as_secs_f64();
        if seconds > 0.0 { self.samples as f64 / seconds } else { 0.0 }
    }

    /// Returns the share of samples with a complete stack in per cent; `None` where it is not known.
    pub fn complete_share(&self) -> Option<f64> {
        self.complete.filter(|_| self.samples > 0).map(|complete| share(complete, self.samples))
    }
}

/// Returns `part` of `whole` in per cent; 0 if `whole` is 0.
pub fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 * 100.0 / whole as f64 }
}

/// Merges the remarks on symbol files, on unwind tables and on approximate numbers. Returns the first [`MAX_REMARKS`] of them in
/// alphabetical order, without control characters, and the number of those left out.
pub(crate) fn first_remarks(
    on_symbols: Vec<String>,
    on_tables: &RefusedTables,
    approximate: Option<&str>,
) -> (Vec<String>, u64) {
    let mut all = on_symbols;
    all.extend(on_tables.sentences());
    all.extend(approximate.map(str::to_owned));
    all.sort();
    // A file that was refused both for symbols and for unwinding has the same remark twice.
    all.dedup();
    let omitted = all.len().saturating_sub(MAX_REMARKS) as u64;
    all.truncate(MAX_REMARKS);
    (all.iter().map(|remark| printable(remark).into_owned()).collect(), omitted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_remarks_come_without_control_characters() {
        let said =
            (0..40).map(|number| format!("/tmp/\x1b[2J{number:02} is not used")).chain(["a".to_owned()]);
        let said: Vec<String> = said.collect();
        let (remarks, omitted) =
            first_remarks([said.clone(), said].concat(), &RefusedTables::default(), None);
        assert_eq!((remarks.len(), omitted), (MAX_REMARKS, 25));
        assert_eq!(remarks[0], "/tmp/\u{fffd}[2J00 is not used");
    }
}
