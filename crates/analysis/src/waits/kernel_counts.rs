//! The kernel's counts of a thread (`/proc/PID/task/TID/schedstat`), and the time of its records beside them.

use perfdata::sections::Schedstat;
use tracker::waits::Activity;

/// `share / whole` of `time`, at most all of it.
pub(super) fn part(time: u64, share: u64, whole: u64) -> u64 {
    let part = u128::from(time) * u128::from(share) / u128::from(whole.max(1));
    u64::try_from(part).unwrap_or(time).min(time)
}

/// The parts of a time that lie between two counts each, with the number of the count that ends them.
pub(super) fn pieces((start, end): (u64, u64), counted: &[Schedstat]) -> impl Iterator<Item = (usize, u64)> {
    let (mut number, mut start) = (counted.partition_point(|count| count.time <= start), start);
    std::iter::from_fn(move || {
        let until = counted.get(number).map_or(end, |count| count.time.min(end));
        let piece = (start < end).then(|| (number, until.saturating_sub(start)));
        (number, start) = (number + 1, until);
        piece
    })
}

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

/// Longest time between two ticks, in nanoseconds (`CONFIG_HZ` is 100 or more). The kernel counts what a thread runs at its tick and when
/// it leaves its CPU.
const MAX_TICK_NS: u64 = 10_000_000;

/// Time that the kernel may not have counted yet when its counts were read, in nanoseconds.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Uncounted {
    running: u64,
    runnable: u64,
}

impl Uncounted {
    /// Returns the time of a thread that has been in a state of this class for `time` nanoseconds.
    pub(super) fn new(class: Class, time: u64) -> Self {
        match class {
            Class::Running => Self { running: time.min(MAX_TICK_NS), runnable: 0 },
            // A wait for a CPU is counted when it ends.
            Class::Runnable => Self { running: 0, runnable: time },
            Class::Blocked => Self::default(),
        }
    }
}

/// The time that the kernel counted of a thread less the time that its records say, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Difference {
    pub(super) running: i64,
    pub(super) runnable: i64,
}

impl Difference {
    /// Returns the part of the difference that time which was not counted yet at the first and the last reading cannot explain.
    pub(super) fn beyond(self, first: Uncounted, last: Uncounted) -> Self {
        let beyond = |time: i64, first: u64, last: u64| {
            signed(missing(time).saturating_sub(first)) - signed(surplus(time).saturating_sub(last))
        };
        Self {
            running: beyond(self.running, first.running, last.running),
            runnable: beyond(self.runnable, first.runnable, last.runnable),
        }
    }

    /// Returns the difference for `time` nanoseconds, where it was measured in `measured`. Beyond twice the measured time, it is no
    /// longer taken for typical.
    pub(super) fn scale(self, time: u64, measured: u64) -> Self {
        let (time, measured) =
            (i128::from(time.min(measured.saturating_mul(2))), i128::from(measured.max(1)));
        let scale = |difference: i64| {
            let scaled = i128::from(difference) * time / measured;
            i64::try_from(scaled).unwrap_or(difference)
        };
        Self { running: scale(self.running), runnable: scale(self.runnable) }
    }
}

pub(super) fn signed(time: u64) -> i64 {
    i64::try_from(time).unwrap_or(i64::MAX)
}

/// Returns a time that is too short by itself, and 0 for one that is too long.
pub(super) fn missing(time: i64) -> u64 {
    time.max(0).unsigned_abs()
}

/// Returns by how much a time is too long, and 0 for one that is too short.
pub(super) fn surplus(time: i64) -> u64 {
    time.min(0).unsigned_abs()
}
