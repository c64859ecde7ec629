//! Counting: events that are read rather than sampled (`prof stat`).
//!
//! ```text
//! Options ─▶ plan ─▶ open (per thread, or per CPU) ─▶ run: enable, wait, read ─▶ Count per event and thread or CPU
//! ```
//!
//! Events are chosen by [`crate::event`], and planned and opened with `crate::plan` and `crate::open`, as for recordings.

mod beside;
mod default_events;
mod open;
mod plan;
mod probes;
mod reading;
mod run;
pub(crate) mod uncounted;

use std::sync::Arc;
use std::time::Duration;

use decoder::{Attr, ReadFormat};
use host::machine;
use host::sys::clock::CpuTime;
use host::sys::perf_event::PerfEvent;
use model::{CpuId, Tid};

use crate::event::Measure;
use crate::summary::Command;

pub(crate) use beside::CountsBeside;
pub use default_events::default_events;
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

/// The rows of counts, and the interval of reports.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Plan {
    /// True for one count per event and CPU, false for one per event.
    pub by_cpu: bool,
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

impl CountedEvent {
    /// Returns the reason why it has no count; `None` where `reading` is one. `unreadable` is true if `read(2)` gave nothing.
    pub fn uncounted(&self, reading: &Reading, unreadable: bool) -> Option<Uncounted> {
        if let Some(absent) = &self.absent {
            return Some(absent.clone());
        }
        if unreadable {
            return Some(Uncounted::Pinned);
        }
        (reading.running_ns == 0).then(|| {
            let watchdog = machine::nmi_watchdog_counts();
            Uncounted::without_counter(&self.attr, self.leader.is_some(), reading.enabled_ns, watchdog)
        })
    }
}

/// The count of one event, on one CPU if these are counted apart.
#[derive(Clone, PartialEq, Debug)]
pub struct Count {
    /// The index of the event in the list of events.
    pub event: usize,
    /// The CPU, with [`Plan::by_cpu`].
    pub cpu: Option<CpuId>,
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
    /// True if a signal, or [`crate::Control::stop`], has ended it.
    pub interrupted: bool,
}

#[cfg(test)]
mod tests {
    use decoder::AttrFlags;

    use super::*;

    #[test]
    fn an_event_without_a_count_says_why() {
        let never = Reading { value: 0, enabled_ns: 5, running_ns: 0 };
        let event = |absent| CountedEvent {
            name: "cycles".to_owned(),
            attr: Attr { flags: AttrFlags::empty(), ..Attr::default() },
            measure: Measure::default(),
            leader: None,
            absent,
        };
        assert_eq!(event(None).uncounted(&Reading { running_ns: 1, ..never }, false), None);
        assert_eq!(event(None).uncounted(&Reading::default(), false), Some(Uncounted::NeverRan));
        assert_eq!(event(None).uncounted(&never, true), Some(Uncounted::Pinned));
        let absent = Uncounted::NotHere { pmu: None };
        assert_eq!(event(Some(absent.clone())).uncounted(&never, false), Some(absent));
    }
}
