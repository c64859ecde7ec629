//! When threads were off the CPU.

use model::{Pid, Tid, Timestamp};
use tracker::waits::Activity;

/// A stretch of time in which a thread was off the CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WaitSpan {
    /// The process.
    pub pid: Pid,
    /// The thread.
    pub tid: Tid,
    /// The beginning, by the recording's clock.
    pub start: Timestamp,
    /// The end.
    pub end: Timestamp,
    /// True if the thread was runnable and had no CPU; false if it was blocked.
    pub is_runnable: bool,
}

/// Returns true for a runnable thread, false for a blocked one; `None` if it ran, or the activity is unknown.
pub(super) fn is_runnable(activity: Activity) -> Option<bool> {
    match activity {
        Activity::Preempted | Activity::Woken | Activity::Started => Some(true),
        Activity::Blocked | Activity::Uninterruptible | Activity::BlockedSinceBefore => Some(false),
        Activity::Running | Activity::Unknown | Activity::Unwatched => None,
    }
}
