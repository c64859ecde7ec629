//! The kernel's counts of a thread (`/proc/PID/task/TID/schedstat`), and the time of its records beside them.

use tracker::waits::Activity;

use super::parts::Parts;

/// The class that an activity has in the kernel's counts.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    Running,
    Runnable,
    Blocked,
}

pub(super) fn class(activity: Activity) -> Option<Class> {
    match activity {
        Activity::Running => Some(Class::Running),
        Activity::Preempted | Activity::Woken | Activity::Started => Some(Class::Runnable),
        Activity::Blocked | Activity::Uninterruptible | Activity::BlockedSinceBefore => Some(Class::Blocked),
        Activity::Unknown | Activity::Unwatched => None,
    }
}

/// The time of a thread that records tell from a count of the kernel to the next one, in nanoseconds.
#[derive(Clone, Copy, Default)]
pub(super) struct Recorded {
    pub(super) ran: u64,
    /// Waits for a CPU that ended.
    pub(super) runnable: u64,
    /// Switches were held back.
    pub(super) unwatched: u64,
}

impl Recorded {
    pub(super) fn plus(self, other: Self) -> Self {
        Self {
            ran: self.ran.saturating_add(other.ran),
            runnable: self.runnable.saturating_add(other.runnable),
            unwatched: self.unwatched.saturating_add(other.unwatched),
        }
    }
}

/// Time that a thread ran, could have run, and was blocked, in nanoseconds.
#[derive(Clone, Copy, Default)]
pub(super) struct Shares(pub(super) [u64; 3]);

impl Shares {
    /// Splits `time` as these are split; `None` where there are none.
    pub(super) fn split(self, time: u64) -> Option<[u64; 3]> {
        let mut parts = Parts::new(time, self.0.iter().map(|share| u128::from(*share)).sum());
        (self.0 != [0; 3]).then(|| self.0.map(|share| parts.next(share)))
    }
}
