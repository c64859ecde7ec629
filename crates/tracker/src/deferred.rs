//! Samples whose user call chain comes later (`PERF_RECORD_CALLCHAIN_DEFERRED`, Linux 6.19).
//!
//! The kernel unwinds a user stack once, when the thread returns to user space, for all samples that were taken
//! since it entered the kernel. Those carry a cookie in place of their user part.

use alloc::collections::VecDeque;

use model::Tid;

/// The number of samples that may wait at a time. A thread takes few samples within one visit to the kernel, so more than this
/// means that the records they wait for were lost.
const MAX_WAITING_SAMPLES: usize = 1 << 14;

/// Keeps what waits for the user part of its call chain.
#[derive(Debug)]
pub struct Deferred<T> {
    waiting: VecDeque<(Tid, u64, T)>,
    unjoined: u64,
}

impl<T> Default for Deferred<T> {
    fn default() -> Self {
        Self { waiting: VecDeque::new(), unjoined: 0 }
    }
}

impl<T> Deferred<T> {
    /// Keeps `item` until the user part with this cookie comes. Where too much waits, hands back the oldest: its
    /// user part is lost.
    pub fn wait(&mut self, tid: Tid, cookie: u64, item: T) -> Option<T> {
        self.waiting.push_back((tid, cookie, item));
        if self.waiting.len() <= MAX_WAITING_SAMPLES {
            return None;
        }
        self.unjoined = self.unjoined.saturating_add(1);
        self.waiting.pop_front().map(|(_, _, item)| item)
    }

    /// The items that the user part with this cookie completes, oldest first.
    pub fn complete(&mut self, tid: Tid, cookie: u64) -> impl Iterator<Item = T> {
        // Nearly always the front: what waits is what happened within one system call per CPU.
        let mut index = 0;
        core::iter::from_fn(move || {
            while let Some(&(waiting_tid, waiting_cookie, _)) = self.waiting.get(index) {
                if (waiting_tid, waiting_cookie) == (tid, cookie) {
                    return self.waiting.remove(index).map(|(_, _, item)| item);
                }
                index += 1;
            }
            None
        })
    }

    /// Returns the samples that still wait at the end of the recording: the kernel parts of samples whose user part
    /// never came.
    pub fn finish(&mut self) -> impl Iterator<Item = T> {
        self.unjoined = self.unjoined.saturating_add(self.waiting.len() as u64);
        self.waiting.drain(..).map(|(_, _, item)| item)
    }

    /// Returns the number of samples that stayed without their user part.
    pub fn unjoined(&self) -> u64 {
        self.unjoined
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn a_user_part_completes_all_samples_of_its_cookie_and_thread() {
        let mut deferred = Deferred::default();
        for (tid, cookie, item) in [(1, 7, 'a'), (2, 7, 'b'), (1, 7, 'c'), (1, 8, 'd')] {
            assert_eq!(deferred.wait(Tid(tid), cookie, item), None);
        }
        assert_eq!(deferred.complete(Tid(1), 7).collect::<Vec<_>>(), ['a', 'c']);
        assert_eq!(deferred.complete(Tid(1), 7).collect::<Vec<_>>(), []);
        assert_eq!(deferred.finish().collect::<Vec<_>>(), ['b', 'd']);
        assert_eq!(deferred.unjoined(), 2);
    }

    #[test]
    fn what_waits_is_bounded() {
        let mut deferred = Deferred::default();
        for item in 0..MAX_WAITING_SAMPLES {
            assert_eq!(deferred.wait(Tid(1), item as u64, item), None);
        }
        assert_eq!(deferred.wait(Tid(1), 0, MAX_WAITING_SAMPLES), Some(0));
        assert_eq!(deferred.unjoined(), 1);
    }
}
