//! The totals of a finished recording: duration, samples, losses, and what share of each event its samples cover.

mod coverage;
mod throttling;

use std::time::Duration;

use host::process_handle::ProcessHandle;
use host::sys::clock::CpuTime;
use host::sys::signals::{Received, SIGTERM};
use host::sys::spawn::{Child, ExitStatus};
use model::{Loss, Name, Pid, Timestamp};

use crate::consumer::{EventCoverage, LostCount, RecordedEvent};
use crate::control::Control;

pub(crate) use coverage::{Tally, coverage};
pub(crate) use throttling::Throttling;

/// The summary of a finished recording.
#[derive(Debug)]
pub struct Summary {
    /// The events as they were opened; the sideband event is the last.
    pub events: Vec<RecordedEvent>,
    /// Number of CPUs with rings.
    pub cpus: usize,
    /// Number of samples that were recorded.
    pub samples: u64,
    /// Number of samples that were dropped because two copies of an event took them; not among `samples`.
    pub duplicates: u64,
    /// Losses of the recording, by kind.
    pub loss: Loss,
    /// The time from the start of sampling to its end.
    pub duration: Duration,
    /// CPU time of the command, and of its children that it waited for.
    pub cpu_time: Option<CpuTime>,
    /// The coverage of each sampling event.
    pub coverage: EventCoverage,
    /// True if the recording has the CPU time of each thread and process.
    pub has_task_times: bool,
    /// A rate, in Hz, at which a command's programs that end soon are sampled, too, because whole CPUs are; `None` where they were, or
    /// no rate does it.
    pub whole_cpu_rate: Option<u64>,
    /// Number of processes that are not recorded because the attached ones had started them before.
    pub unrecorded_children: usize,
    /// Processes whose events the kernel ended because they executed a program with more rights; at most 1,000.
    pub privileged_execs: Vec<PrivilegedExec>,
    /// Exact counts of the events of [`crate::Options::counted`], as far as the machine counts them.
    pub counts: Vec<ExactCount>,
    /// The state of the command, if there is one.
    pub command: Option<Command>,
}

/// A process that executed a program with more rights than its caller had.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PrivilegedExec {
    /// The process that executed it.
    pub pid: Pid,
    /// The name of the program.
    pub name: Name,
    /// The time at which the kernel ended its events, by the clock of records.
    pub(crate) time: Timestamp,
    /// The time until they were opened again, of which nothing is recorded; `None` where they were not.
    pub gap: Option<Duration>,
}

/// The exact count of an event.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ExactCount {
    /// The name of the event.
    pub event: String,
    /// The count; of a clock, nanoseconds.
    pub count: u64,
}

/// The state of the command at the end of a recording or count.
#[derive(Debug)]
pub enum Command {
    /// It has ended.
    Ended(ExitStatus),
    /// It still runs.
    Running(RunningCommand),
}

/// A command that still runs after its recording.
#[derive(Debug)]
pub struct RunningCommand {
    pub(crate) child: Child,
}

impl RunningCommand {
    /// Sends SIGTERM; does nothing if the command has just ended.
    pub fn terminate(&self) {
        let _ = self.child.send(SIGTERM);
    }

    /// Waits until the command has ended, or a signal arrives.
    ///
    /// # Errors
    /// The signal that arrived.
    pub fn wait(&self, control: &Control) -> Result<ExitStatus, Received> {
        match control.wait_for(&ProcessHandle::of_process(self.child.pid())) {
            Some(signal) => Err(signal),
            // If waiting for the child fails, it has ended with an unknown status.
            None => Ok(self.child.wait().unwrap_or(ExitStatus::Code(0))),
        }
    }
}

/// Sums the kernel's counts (`PERF_FORMAT_LOST`) of the first `samplers` events and of the sideband events behind them. Falls back
/// to `rings`, the sums of LOST records, for counts that are not known: the kernel writes such a record when the ring has room
/// again, so that the last losses have none.
pub(crate) fn lost_samples(rings: Loss, counts: Option<&[LostCount]>, samplers: usize) -> Loss {
    let Some((samplers, sideband)) = counts.and_then(|counts| counts.split_at_checked(samplers)) else {
        return rings;
    };
    let sum = |counts: &[LostCount]| counts.iter().fold(LostCount::default(), |sum, count| sum + *count);
    let (sampled, sideband) = (sum(samplers), sum(sideband));
    let known = |count: LostCount, in_rings: u64| match count.unread {
        0 => count.samples,
        _ => count.samples.max(in_rings),
    };
    Loss {
        samples: known(sampled, rings.samples),
        unread: sampled.unread,
        sideband: known(sideband, rings.sideband),
        ..Loss::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_counted_is_told_by_the_rings() {
        let rings = Loss { samples: 40, sideband: 3, ..Loss::default() };
        let count = |samples, unread| LostCount { samples, unread };
        let lost = |counts: Option<&[LostCount]>| {
            let loss = lost_samples(rings, counts, 2);
            (loss.samples, loss.unread, loss.sideband)
        };
        assert_eq!(lost(Some(&[count(30, 0), count(5, 0), count(2, 0)])), (35, 0, 2));
        assert_eq!(lost(None), (40, 0, 3), "before Linux 6.0");
        let full = Loss { unread: 2, ..rings };
        assert_eq!(
            lost_samples(full, None, 2).unread,
            2,
            "what the last records found no room for is in no LOST record"
        );
        assert_eq!(lost(Some(&[count(30, 0), count(5, 1), count(2, 0)])), (40, 1, 2));
        assert_eq!(lost(Some(&[count(50, 2), count(0, 0), count(0, 1)])), (50, 2, 3));
    }
}
