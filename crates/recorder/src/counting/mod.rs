//! Counting: events that are read rather than sampled (`prof stat`).
//!
//! ```text
//! Options ─ attr::counter ─▶ open (per thread, or per CPU) ─▶ run: enable, wait, read ─▶ Count per event and place
//! ```
//!
//! Events are chosen, negotiated with the kernel and refused with advice by what recording uses, too ([`crate::event`],
//! `crate::open`). Nothing has a ring here but the reports of single tasks ([`Split::Tasks`]).

mod attr;
mod default_events;
mod open;
mod probes;
mod reading;
mod run;
mod tasks;
mod uncounted;

use std::time::Duration;

use decoder::{Attr, ReadFormat};
use host::sys::clock::CpuTime;
use host::sys::perf_event::PerfEvent;
use model::{CpuId, Name, Pid, Tid};

use crate::event::Measure;
use crate::summary::Command;

pub use default_events::{DETAIL, default_events};
pub use reading::Reading;
pub use run::count;
pub use tasks::ReportStep;
pub(crate) use tasks::no_reports;
pub use uncounted::Uncounted;

/// Reads an event that is not read with its group: `None` where it is pinned and has no counter.
///
/// # Errors
/// `()` where it cannot be read, or has no times.
pub(crate) fn read_alone(event: &PerfEvent, format: ReadFormat) -> Result<Option<Reading>, ()> {
    if format.contains(ReadFormat::GROUP) || !format.contains(ReadFormat::TOTAL_TIME_RUNNING) {
        return Err(());
    }
    let mut words = [0; 5];
    match event.read(&mut words) {
        Ok(0) => Ok(None),
        Ok(count) => {
            let readings = reading::parse(format, words.get(..count).unwrap_or(&[])).ok_or(())?;
            Ok(readings.first().map(|(_, reading)| *reading))
        }
        Err(_) => Err(()),
    }
}

/// By what counts are told apart.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Split {
    /// Not at all: one count per event.
    #[default]
    None,
    /// By CPU.
    Cpus,
    /// By thread, also those that begin and end meanwhile.
    Tasks,
}

/// The plan of a count: targets, events, intervals.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Plan {
    /// By what counts are told apart.
    pub split: Split,
    /// Report what was counted since the report before, so often.
    pub interval: Option<Duration>,
}

/// An event, and what became of it.
#[derive(Clone, PartialEq, Debug)]
pub struct CountedEvent {
    /// As typed; with `:u` where only user space may be seen.
    pub name: String,
    /// As it was opened, or was to be.
    pub attr: Attr,
    /// The measure in which its count is read.
    pub measure: Measure,
    /// The place of its group's leader, for members of a group.
    pub leader: Option<usize>,
    /// The reason why it is not open; `None` where it is.
    pub absent: Option<Uncounted>,
}

/// A thread that was counted by itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CountedTask {
    /// Its process.
    pub pid: Pid,
    /// The thread.
    pub tid: Tid,
    /// Its name, the last one that is known.
    pub name: Name,
}

/// The count of one event in one place.
#[derive(Clone, PartialEq, Debug)]
pub struct Count {
    /// The event's place in the list of events.
    pub event: usize,
    /// On this CPU, where CPUs are told apart.
    pub cpu: Option<CpuId>,
    /// In this thread, where threads are told apart.
    pub task: Option<CountedTask>,
    /// The count.
    pub reading: Reading,
    /// True if the event could not be read: pinned, and without a counter (`read(2)` gives nothing).
    pub unreadable: bool,
}

/// The counts between two moments.
#[derive(Debug)]
pub struct Sheet<'a> {
    /// The events.
    pub events: &'a [CountedEvent],
    /// Their counts.
    pub counts: Vec<Count>,
    /// Since when, from the start of counting on.
    pub from: Duration,
    /// Until when.
    pub to: Duration,
}

/// Counts, times and losses of a finished `prof stat`.
#[derive(Debug)]
pub struct Counted {
    /// The events.
    pub events: Vec<CountedEvent>,
    /// Their counts from start to end.
    pub counts: Vec<Count>,
    /// From the start of counting to its end.
    pub elapsed: Duration,
    /// CPU time of the command and of its children that it waited for.
    pub cpu_time: Option<CpuTime>,
    /// The command.
    pub command: Option<Command>,
    /// Reports of single tasks that were lost: what these counted is in the counts of the threads that were there at the start.
    pub lost_reports: u64,
    /// True if a signal, or [`crate::Control::stop`], has ended it.
    pub interrupted: bool,
}
