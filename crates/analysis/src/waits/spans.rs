//! When threads were off the CPU, and who ended that.

use std::collections::HashMap;

use model::{Pid, Tid, Timestamp, Waker};
use rustc_hash::FxBuildHasher;
use tracker::waits::Activity;

use super::state::{MAX_NAMES, WakerId};

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
    /// The index of who ended it in [`WaitSpans::wakers`]; `None` where that is not known.
    pub waker: Option<usize>,
}

/// A thread or an interrupt that ended waits.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SpanWaker {
    /// Its kind, and its name when it first ended a wait.
    pub waker: Waker,
    /// The thread; `None` for an interrupt that interrupted whatever ran.
    pub thread: Option<(Pid, Tid)>,
}

/// The spans of all threads.
#[derive(Clone, Default, Debug)]
pub struct WaitSpans {
    /// In the order of their ends.
    pub spans: Vec<WaitSpan>,
    /// Who ended them; `None` if the recording does not say who woke threads.
    pub wakers: Option<Vec<SpanWaker>>,
}

/// A thread, none for an interrupt of whatever ran; and true for an interrupt of that thread.
type Key = (Option<(Pid, Tid)>, bool);

/// Interned threads and interrupts that ended waits. Unlike [`super::state::Wakers`], threads of one name are told apart.
#[derive(Default)]
pub(super) struct SpanWakers {
    numbers: HashMap<Key, WakerId, FxBuildHasher>,
    pub(super) list: Vec<SpanWaker>,
}

impl SpanWakers {
    /// Returns the number of a waker, which `named` makes where it is new; `None` for a new one where there are too many.
    /// `is_deferred` tells the interrupts of a thread from the thread.
    pub(super) fn intern(
        &mut self,
        thread: Option<(Pid, Tid)>,
        is_deferred: bool,
        named: impl FnOnce() -> Waker,
    ) -> Option<WakerId> {
        let key = (thread, is_deferred);
        if let Some(known) = self.numbers.get(&key) {
            return Some(*known);
        }
        let number = WakerId(u32::try_from(self.list.len()).ok().filter(|_| self.list.len() < MAX_NAMES)?);
        self.list.push(SpanWaker { waker: named(), thread });
        self.numbers.insert(key, number);
        Some(number)
    }
}

/// Returns true for a runnable thread, false for a blocked one; `None` if it ran, or the activity is unknown.
pub(super) fn is_runnable(activity: Activity) -> Option<bool> {
    match activity {
        Activity::Preempted | Activity::Woken | Activity::Started => Some(true),
        Activity::Blocked | Activity::Uninterruptible | Activity::BlockedSinceBefore => Some(false),
        Activity::Running | Activity::Unknown | Activity::Unwatched => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_of_one_name_are_told_apart_and_their_number_is_bounded() {
        let mut wakers = SpanWakers::default();
        let named = || Waker::Thread("worker".to_owned());
        let thread = |tid| Some((Pid(1), Tid(tid)));
        let first = wakers.intern(thread(1), false, named);
        let rest = (0..2 * MAX_NAMES as i32).filter_map(|tid| wakers.intern(thread(tid), false, named));
        assert_eq!(rest.count(), MAX_NAMES);
        assert_eq!(wakers.intern(thread(1), false, || unreachable!()), first);
        assert_eq!(wakers.intern(None, false, || Waker::Interrupt), None);
        assert_eq!(wakers.list.first().map(|waker| waker.thread), Some(thread(1)));
    }
}
