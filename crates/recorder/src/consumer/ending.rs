//! Totals that are known only when a recording ends.

use std::ops::Add;

use host::sys::spawn::ExitStatus;
use model::{Pid, Tid};
use perfdata::sections::{SwitchSampling, WatchedTime};

use super::EventCoverage;
use crate::unwind::StackTotals;

/// The totals that a consumer gets at the end of a recording.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Ending {
    /// Lost samples of each event, in the order of [`super::Recording::events`] (`PERF_FORMAT_LOST`); lost records, for the
    /// sideband event. `None` if the kernel does not count them (before 6.0): only LOST records tell of losses then.
    pub lost: Option<Vec<LostCount>>,
    /// If the kernel does not count lost samples: the number of rings that were full when they were drained for the last time.
    /// No LOST record tells what these lost since.
    pub full_rings: u64,
    /// The totals of unwound user stacks; `None` if no stacks were unwound.
    pub stacks: Option<StackTotals>,
    /// CPU times of tasks without a READ record: of threads that were attached to, or of the command.
    pub task_times: Vec<TaskTime>,
    /// The share of each event that its samples cover.
    pub coverage: EventCoverage,
    /// The exit status of the command; `None` if it still runs or there is none.
    pub exit: Option<ExitStatus>,
    /// The time for which switches were watched; `None` if they were not.
    pub watched: Option<WatchedTime>,
    /// The spans in which too many switches happened to record them; `None` if all were recorded.
    pub switches: Option<SwitchSampling>,
}

/// A count of samples that the kernel dropped.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct LostCount {
    /// The sum of the counts that could be read.
    pub samples: u64,
    /// The number of counts that could not be read; how many samples these stand for is unknown.
    pub unread: u64,
}

impl Add for LostCount {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        let (samples, unread) =
            (self.samples.saturating_add(other.samples), self.unread.saturating_add(other.unread));
        Self { samples, unread }
    }
}

/// The CPU time of a thread, and of those that it started and that still run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TaskTime {
    /// The process.
    pub pid: Pid,
    /// The thread.
    pub tid: Tid,
    /// The kernel's id of the event that counted the time.
    pub id: u64,
    /// CPU time since the recording began, in nanoseconds.
    pub nanoseconds: u64,
}
