//! Stretches of a recording's time: those without samples, and those in which threads were off the CPU.

use crate::{Pid, Tid, Timestamp};

/// A stretch of time in which samples are missing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Gap {
    /// The last sample of the CPU before it, or when the event was throttled.
    pub start: Timestamp,
    /// The time at which the kernel could write again, or let the event go on.
    pub end: Timestamp,
    /// Records of any kind that were lost; 0 where the event was throttled.
    pub lost: u64,
}

/// A stretch of time in which a thread was off the CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WaitSpan {
    /// The process of the thread.
    pub pid: Pid,
    /// The thread that was off the CPU.
    pub tid: Tid,
    /// The beginning, by the recording's clock.
    pub start: Timestamp,
    /// The time at which it had a CPU again, or was woken, by the recording's clock.
    pub end: Timestamp,
    /// True if the thread was runnable and had no CPU; false if it was blocked.
    pub is_runnable: bool,
    /// The index of who ended it in the list of wakers beside the spans; `None` where that is not known.
    pub waker: Option<usize>,
}
