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
