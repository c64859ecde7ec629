//! When threads were off the CPU, and who ended that.

use std::collections::HashMap;

use model::{Pid, Tid, WaitSpan, Waker};
use profile::waiting::{Command, WakingThread};
use tracker::waits::Activity;

use super::kernel_counts::{Class, class};
use super::state::{MAX_NAMES, WakerId};

/// A thread or an interrupt that ended waits.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct SpanWaker {
    /// Its kind and its name.
    pub waker: Waker,
    /// The thread; `None` for an interrupt that interrupted whatever ran, and where wakers are told apart by name.
    pub thread: Option<(Pid, Tid)>,
    /// True if it is who holds the lock that is waited for, if that is a lock.
    pub is_holder: bool,
}

/// The spans of all threads.
#[derive(Clone, Default, Debug)]
pub struct WaitSpans {
    /// In the order of their ends.
    pub spans: Vec<WaitSpan>,
    /// Who ended them.
    pub wakers: Vec<SpanWaker>,
    /// True if the recording says who woke threads. Else that is known of joins, children and locks.
    pub has_wakings: bool,
    /// The command that the recording was started with, if it has ended.
    pub command: Option<Command>,
}

impl WaitSpans {
    /// Returns the threads that ended spans, by the numbers of these; `None` for interrupts.
    pub fn waking_threads(&self) -> Vec<Option<WakingThread>> {
        let thread = |waker: &SpanWaker| {
            let (_, tid) =
                waker.thread.filter(|_| matches!(waker.waker, Waker::Thread(_) | Waker::Outside))?;
            Some(WakingThread { tid, is_holder: waker.is_holder })
        };
        self.wakers.iter().map(thread).collect()
    }
}

/// Interned threads and interrupts that ended waits.
#[derive(Default)]
pub(super) struct Wakers {
    // Names are chosen by those who are profiled: the standard hash has a random key.
    numbers: HashMap<SpanWaker, WakerId>,
    pub(super) list: Vec<SpanWaker>,
}

impl Wakers {
    /// Returns the number of a waker; `None` for a new one where there are too many.
    pub(super) fn intern(&mut self, waker: SpanWaker) -> Option<WakerId> {
        if let Some(known) = self.numbers.get(&waker) {
            return Some(*known);
        }
        let number = WakerId(u32::try_from(self.list.len()).ok().filter(|_| self.list.len() < MAX_NAMES)?);
        self.list.push(waker.clone());
        self.numbers.insert(waker, number);
        Some(number)
    }

    /// Returns the waker of a number.
    pub(super) fn of(&self, number: WakerId) -> Option<&Waker> {
        self.list.get(number.0 as usize).map(|known| &known.waker)
    }
}

/// Returns true for a runnable thread, false for a blocked one; `None` if it ran, or the activity is unknown.
pub(super) fn is_runnable(activity: Activity) -> Option<bool> {
    match class(activity)? {
        Class::Runnable => Some(true),
        Class::Blocked => Some(false),
        Class::Running => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wakers_have_one_number_each_and_are_bounded() {
        let mut wakers = Wakers::default();
        let mut intern = |tid| {
            wakers.intern(SpanWaker {
                waker: Waker::Thread("worker".to_owned()),
                thread: Some((Pid(1), Tid(tid))),
                is_holder: false,
            })
        };
        let first = intern(1);
        let rest = (0..2 * MAX_NAMES as i32).filter_map(&mut intern);
        assert_eq!(rest.count(), MAX_NAMES, "threads of one name are told apart");
        assert_eq!(intern(1), first);
        assert_eq!(wakers.of(first.unwrap()), Some(&Waker::Thread("worker".to_owned())));
        assert_eq!(
            wakers.intern(SpanWaker { waker: Waker::Interrupt, thread: None, is_holder: false }),
            None
        );
    }
}
