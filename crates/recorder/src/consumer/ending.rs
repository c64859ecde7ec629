//! The totals that are known only when a recording ends.

use std::ops::Add;

use host::sys::spawn::ExitStatus;
use model::{Pid, Tid};
use perfdata::sections::{SwitchSampling, WatchedTime};

use crate::unwind::StackTotals;

/// The way in which a recording ended.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Ending {
    /// Samples that each event lost, in the order of [`Recording::events`] (`PERF_FORMAT_LOST`); for the sideband
    /// event, its records. `None` where the kernel does not count them (before 6.0): LOST records say it.
    pub lost: Option<Vec<LostCount>>,
    /// Without these counts: rings of samples that were full when they were emptied last. What was lost then is in no LOST
    /// record.
    pub full_rings: u64,
    /// The totals of unwound user stacks, where they were unwound.
    pub stacks: Option<StackTotals>,
    /// CPU times that no READ record has told: of the threads that were attached to, or of the command.
    pub task_times: Vec<TaskTime>,
    /// The command's exit status, where it has ended.
    pub exit: Option<ExitStatus>,
    /// For how long switches were watched, where they were.
    pub watched: Option<WatchedTime>,
    /// The spans in which switches were held back, because there were too many; `None` where all were recorded.
    pub switches: Option<SwitchSampling>,
}

/// Samples that the kernel could not hand over.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct LostCount {
    /// The number of lost samples, of those counts that could be read.
    pub samples: u64,
    /// Counts that could not be read: what they say is not known.
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

/// CPU time of a thread, and of what it started and has not ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TaskTime {
    /// The process.
    pub pid: Pid,
    /// The thread.
    pub tid: Tid,
    /// The id of the event that counted it.
    pub id: u64,
    /// Its running time since the recording began, in nanoseconds.
    pub nanoseconds: u64,
}
