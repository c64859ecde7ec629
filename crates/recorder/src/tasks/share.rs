//! Which tasks a snapshot reads, so that reading takes a small part of a CPU.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// The largest part of a CPU's time that reading takes, in per cent.
const MAX_CPU_PERCENT: u32 = 3;

/// A share of the tasks, another one for each snapshot.
#[derive(Debug)]
pub(super) struct Share {
    /// Chooses tasks; the key is random, as a program chooses where its tasks lie.
    hashes: RandomState,
    snapshot: u64,
    /// The share in 2^32nds.
    share: u64,
}

/// A share of one.
const ALL: u64 = 1 << u32::BITS;

impl Share {
    /// All tasks.
    pub(super) fn all() -> Self {
        Self { hashes: RandomState::new(), snapshot: 0, share: ALL }
    }

    /// Returns true if the task at this address is read in this snapshot.
    pub(super) fn has(&self, task: u64) -> bool {
        self.share == ALL || self.hashes.hash_one((task, self.snapshot)) >> u32::BITS < self.share
    }

    /// Returns what `tasks` of the share weigh, each for `nanoseconds`.
    pub(super) fn weight(&self, tasks: u64, nanoseconds: u64) -> u64 {
        let all = (u128::from(tasks) * u128::from(nanoseconds)).saturating_mul(u128::from(ALL));
        let weight = all / u128::from(self.share);
        u64::try_from(weight).unwrap_or(u64::MAX)
    }

    /// Chooses the share of the next snapshot, `interval` later, where this one took `cpu_time` and has read `read` of `wanted` tasks.
    pub(super) fn adapt(&mut self, cpu_time: Duration, (read, wanted): (u64, u64), interval: Duration) {
        self.snapshot = self.snapshot.wrapping_add(1);
        let budget = (interval * MAX_CPU_PERCENT / 100).as_nanos();
        let took = cpu_time.as_nanos().max(1) * u128::from(wanted.max(1)) / u128::from(read.max(1));
        let share = u128::from(self.share) * budget / took.max(1);
        self.share = u64::try_from(share).unwrap_or(ALL).clamp(1, ALL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_takes_its_part_of_the_time_and_stands_for_all() {
        let mut share = Share::all();
        assert!(share.has(7) && share.weight(3, 10) == 30);
        let (interval, all) = (Duration::from_millis(100), (10_000, 10_000));
        share.adapt(Duration::from_millis(30), all, interval);
        let chosen = (0..10_000_u64).filter(|task| share.has(task * 8)).count();
        assert!((800..1200).contains(&chosen), "{chosen}");
        let weight = share.weight(1000, 100);
        assert!((999_000..=1_001_000).contains(&weight), "{weight}");
        let first: Vec<bool> = (0..1000).map(|task| share.has(task)).collect();
        share.adapt(Duration::from_millis(3), (1000, 1000), interval);
        assert_ne!(first, (0..1000).map(|task| share.has(task)).collect::<Vec<_>>(), "another share");
        share.adapt(Duration::from_micros(1), all, interval);
        assert_eq!(share.share, ALL);
        share.adapt(Duration::from_millis(100), (1, 1 << 40), interval);
        assert!(share.weight(u64::MAX, u64::MAX) == u64::MAX);
    }
}
