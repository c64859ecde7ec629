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
    /// True if it could go on and had no CPU; else it was blocked.
    pub is_ready: bool,
}

/// Returns true if a thread could go on; `None` where it ran, or nobody knows.
pub(super) fn is_ready(activity: Activity) -> Option<bool> {
    match activity {
        Activity::Preempted | Activity::Woken | Activity::Started => Some(true),
        Activity::Blocked | Activity::Uninterruptible | Activity::BlockedSinceBefore => Some(false),
        Activity::Running | Activity::Unknown | Activity::Unwatched => None,
    }
}
