//! Time order over rings.
//!
//! The records of one ring are almost in time order, those of different rings are not: the recorder empties one
//! ring after the other. It ends a *round* when every ring has been emptied once since the round before:
//!
//! ```text
//!             round 1          │        round 2          │       round 3
//!   ring A    1  3  5          │  7  9                   │  13
//!   ring B          2  4  6  8 │         10  11  12      │       14
//!                    max = 8 ──┘            max = 12 ────┘
//! ```
//!
//! Ring A was emptied when its clock said 5. What comes out of it in round 2 can be as old as 6, older than the 8
//! of ring B. But when round 2 ends, every ring has been emptied at a time later than 8: nothing that is still to
//! come is older. So the end of a round lets go whatever is not newer than the maximum of the round *before*.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use model::Timestamp;

/// Puts items into time order, given the ends of the rounds (`PERF_RECORD_FINISHED_ROUND`).
///
/// The order is stable: equal times come out as they went in. An item with time 0 was synthesized by the tool that
/// recorded, and describes what was there before; it comes out before everything that is still held back.
///
/// Items should be small handles: they are moved, and all of a round and the one before are held.
#[derive(Clone, Debug)]
pub struct Orderer<T> {
    /// Held back. Sorted, unless `unsorted` says otherwise.
    pending: Vec<(Timestamp, T)>,
    unsorted: bool,
    ready: VecDeque<(Timestamp, T)>,
    /// The newest time seen.
    newest: Timestamp,
    /// The newest time at the end of the round before: what the next end of a round lets go.
    limit: Timestamp,
    /// The newest time let go.
    released: Timestamp,
    late: u64,
}

impl<T> Default for Orderer<T> {
    fn default() -> Self {
        Self {
            pending: Vec::new(),
            unsorted: false,
            ready: VecDeque::new(),
            newest: Timestamp(0),
            limit: Timestamp(0),
            released: Timestamp(0),
            late: 0,
        }
    }
}

impl<T> Orderer<T> {
    /// Takes an item. One without a time is given 0: it is ready at once.
    pub fn push(&mut self, time: Timestamp, item: T) {
        // perf writes all ones, too, where it has no time (`ordered_events__queue()` in tools/perf).
        if time.0 == 0 || time.0 == u64::MAX {
            self.ready.push_back((time, item));
            return;
        }
        if time < self.released {
            self.late = self.late.saturating_add(1);
        }
        self.unsorted |= self.pending.last().is_some_and(|&(last, _)| time < last);
        self.newest = self.newest.max(time);
        self.pending.push((time, item));
    }

    /// Every ring has been emptied since the last call.
    pub fn finish_round(&mut self) {
        self.sort();
        let limit = self.limit;
        self.release(self.pending.partition_point(|&(time, _)| time <= limit));
        self.limit = self.newest;
    }

    /// Nothing more will come.
    pub fn finish(&mut self) {
        self.sort();
        self.release(self.pending.len());
    }

    /// The next item that is certain to be the oldest, with its time.
    pub fn pop(&mut self) -> Option<(Timestamp, T)> {
        self.ready.pop_front()
    }

    /// Returns true if [`Self::pop`] has an item.
    pub fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Returns the number of items that are held back.
    pub fn held(&self) -> usize {
        self.pending.len()
    }

    /// Returns the number of items that came after a newer one had been let go: the rounds promised otherwise.
    pub fn late(&self) -> u64 {
        self.late
    }

    fn sort(&mut self) {
        if self.unsorted {
            // Finds the runs that the rings are and merges them: nearly linear.
            self.pending.sort_by_key(|&(time, _)| time);
            self.unsorted = false;
        }
    }

    fn release(&mut self, count: usize) {
        self.ready.extend(self.pending.drain(..count));
        if let Some(&(time, _)) = self.ready.back()
            && time.0 != u64::MAX
        {
            self.released = self.released.max(time);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use proptest::prelude::*;

    fn drain(orderer: &mut Orderer<u32>) -> Vec<(u64, u32)> {
        core::iter::from_fn(|| orderer.pop()).map(|(time, item)| (time.0, item)).collect()
    }

    #[test]
    fn a_round_releases_what_the_round_before_had_seen() {
        let mut orderer = Orderer::default();
        for (item, time) in [1, 3, 5, 2, 4, 6, 8].into_iter().enumerate() {
            orderer.push(Timestamp(time), item as u32);
        }
        orderer.finish_round();
        assert_eq!(drain(&mut orderer), []);
        for (item, time) in [7, 9, 10, 11, 12].into_iter().enumerate() {
            orderer.push(Timestamp(time), 10 + item as u32);
        }
        orderer.finish_round();
        assert_eq!(drain(&mut orderer), [(1, 0), (2, 3), (3, 1), (4, 4), (5, 2), (6, 5), (7, 10), (8, 6)]);
        assert_eq!(orderer.held(), 4);
        orderer.finish();
        assert_eq!(drain(&mut orderer), [(9, 11), (10, 12), (11, 13), (12, 14)]);
        assert_eq!(orderer.late(), 0);
    }

    #[test]
    fn equal_times_keep_their_order_and_time_zero_waits_for_nothing() {
        let mut orderer = Orderer::default();
        orderer.push(Timestamp(5), 0);
        orderer.push(Timestamp(4), 1);
        orderer.push(Timestamp(5), 2);
        orderer.push(Timestamp(0), 3);
        assert_eq!(drain(&mut orderer), [(0, 3)]);
        orderer.finish();
        assert_eq!(drain(&mut orderer), [(4, 1), (5, 0), (5, 2)]);
    }

    #[test]
    fn late_items_are_counted_and_not_lost() {
        let mut orderer = Orderer::default();
        orderer.push(Timestamp(10), 0);
        orderer.finish_round();
        orderer.push(Timestamp(20), 1);
        orderer.finish_round();
        assert_eq!(drain(&mut orderer), [(10, 0)]);
        orderer.push(Timestamp(3), 2);
        orderer.finish();
        assert_eq!(drain(&mut orderer), [(3, 2), (20, 1)]);
        assert_eq!(orderer.late(), 1);
    }

    #[test]
    fn idle_rounds_release_the_rest() {
        let mut orderer = Orderer::default();
        orderer.push(Timestamp(10), 0);
        orderer.finish_round();
        orderer.finish_round();
        assert_eq!(drain(&mut orderer), [(10, 0)]);
    }

    proptest! {
        #[test]
        fn any_input_comes_out_whole_and_within_one_round_sorted(
            rounds in prop::collection::vec(prop::collection::vec(0_u64..50, 0..20), 0..6),
        ) {
            let mut orderer = Orderer::default();
            let mut pushed = vec![];
            let mut popped = vec![];
            for round in &rounds {
                for &time in round {
                    orderer.push(Timestamp(time), pushed.len() as u32);
                    pushed.push((time, pushed.len() as u32));
                }
                orderer.finish_round();
                popped.extend(drain(&mut orderer));
            }
            orderer.finish();
            popped.extend(drain(&mut orderer));
            let timed: Vec<_> = popped.iter().filter(|(time, _)| *time != 0).copied().collect();
            if orderer.late() == 0 {
                prop_assert!(timed.is_sorted(), "stable, so also sorted by item: {timed:?}");
            }
            popped.sort_by_key(|&(_, item)| item);
            prop_assert_eq!(popped, pushed);
        }
    }
}
