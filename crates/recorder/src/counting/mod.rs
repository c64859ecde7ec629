//! Counting: events that are read rather than sampled (`prof stat`).
//!
//! ```text
//! Options ─▶ plan ─▶ open (per thread, or per CPU) ─▶ run: enable, wait, read ─▶ Count per event and thread or CPU
//! ```
//!
//! Events are chosen by [`crate::event`], and planned and opened with `crate::plan` and `crate::open`, as for recordings. Rings are mapped only
//! for the reports of single tasks ([`Aggregation::PerTask`]).

mod beside;
mod default_events;
mod missing_ring;
mod open;
mod plan;
mod probes;
mod reading;
mod run;
mod tasks;
mod uncounted;

use std::sync::Arc;
use std::time::Duration;

use decoder::{Attr, ReadFormat};
use host::sys::clock::CpuTime;
use host::sys::perf_event::PerfEvent;
use model::{CpuId, Name, Pid, Tid};

use crate::event::Measure;
use crate::summary::Command;

pub(crate) use beside::CountsBeside;
pub use default_events::{DETAIL, default_events};
pub use missing_ring::MissingRing;
pub use reading::Reading;
pub use run::count;
pub use uncounted::Uncounted;
pub(crate) use uncounted::not_here;

/// The CPU or thread on which an event is open.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct CounterSite {
    tid: Option<Tid>,
    cpu: Option<CpuId>,
}

/// An event that is open on a thread, a CPU, or a thread while it is on a CPU.
struct Instance {
    /// The index of the event in the list; its length for the event of [`plan::presence`].
    event: usize,
    site: CounterSite,
    counter: Arc<PerfEvent>,
    id: u64,
    /// The index of the instance that leads its group: to enable it enables this one, and to read it reads this one where the format
    /// is that of groups.
    leader: Option<usize>,
    /// The index of the instance whose running time is the thread's CPU time, if that is counted.
    presence: Option<usize>,
}

/// Reads an event that is not read with its group. `None` where it is pinned and has no counter.
///
/// # Errors
/// `()` where it cannot be read, or `format` has no times.
pub(crate) fn read_alone(event: &PerfEvent, format: ReadFormat) -> Result<Option<Reading>, ()> {
    if format.contains(ReadFormat::GROUP) || !format.contains(ReadFormat::TOTAL_TIME_RUNNING) {
        return Err(());
    }
    let mut words = vec![0; format.read_words(1)];
    match event.read(&mut words) {
        Ok(0) => Ok(None),
        Ok(count) => {
            let readings = reading::parse(format, words.get(..count).unwrap_or(&[])).ok_or(())?;
            Ok(readings.first().map(|(_, reading)| *reading))
        }
        Err(_) => Err(()),
    }
}

/// The threads and CPUs over which a count is summed up.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Aggregation {
    /// All threads and CPUs: one count per event.
    #[default]
    Total,
    /// One count per event and CPU.
    PerCpu,
    /// One count per event and thread, also for threads that begin and end while counting.
    PerTask,
}

/// The aggregation of counts, and the interval of reports.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Plan {
    /// The threads and CPUs over which each count is summed up.
    pub aggregation: Aggregation,
    /// The interval at which to report what was counted since the last report.
    pub interval: Option<Duration>,
}

/// An event that was to be counted.
#[derive(Clone, PartialEq, Debug)]
pub struct CountedEvent {
    /// The name as typed; with `:u` where only user space is counted for want of rights.
    pub name: String,
    /// The attr with which it was opened, or was to be.
    pub attr: Attr,
    /// The measure in which its count is read.
    pub measure: Measure,
    /// The index of its group's leader in the list of events, for members of a group.
    pub leader: Option<usize>,
    /// The reason why it is not open; `None` where it is.
    pub absent: Option<Uncounted>,
}

/// A thread with a count of its own.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CountedTask {
    /// Its process.
    pub pid: Pid,
    /// The thread.
    pub tid: Tid,
    /// Its last known name.
    pub name: Name,
}

/// The count of one event, on one CPU or in one thread if these are counted apart.
#[derive(Clone, PartialEq, Debug)]
pub struct Count {
    /// The index of the event in the list of events.
    pub event: usize,
    /// The CPU, with [`Aggregation::PerCpu`].
    pub cpu: Option<CpuId>,
    /// The thread, with [`Aggregation::PerTask`].
    pub task: Option<CountedTask>,
    /// The count with its times.
    pub reading: Reading,
    /// True if the event could not be read: `read(2)` gives nothing for a pinned event without a counter.
    pub unreadable: bool,
}

/// The counts of one interval.
#[derive(Debug)]
pub struct IntervalCounts<'a> {
    /// The events.
    pub events: &'a [CountedEvent],
    /// Their counts.
    pub counts: Vec<Count>,
    /// The beginning of the interval, as the time since the start of counting.
    pub from: Duration,
    /// The end of the interval, as the time since the start of counting.
    pub to: Duration,
}

/// Counts, times and losses of a finished `prof stat`.
#[derive(Debug)]
pub struct Counted {
    /// The events.
    pub events: Vec<CountedEvent>,
    /// Their counts from start to end.
    pub counts: Vec<Count>,
    /// The time from the start of counting to its end.
    pub elapsed: Duration,
    /// CPU time of the command, and of those of its children for which it waited.
    pub cpu_time: Option<CpuTime>,
    /// The part of that CPU time during which no event was open on the task: the kernel removes all events at the exec of a program
    /// with more rights than its caller has. `None` if it is not known, or less than such a program takes to start.
    pub uncounted_cpu_time: Option<Duration>,
    /// The command.
    pub command: Option<Command>,
    /// The number of lost reports of single tasks. Their counts are in those of the threads that existed at the start.
    pub lost_reports: u64,
    /// True if a signal, or [`crate::Control::stop`], has ended it.
    pub interrupted: bool,
}
