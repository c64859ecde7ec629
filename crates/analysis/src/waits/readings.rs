//! Estimates the stacks of waits that were not read from outside, by waits of the same thread that were.
//!
//! The recorder reads a thread at times that do not depend on the thread's work. Each of its waits of one length is as likely to be
//! read, so the read ones are a fair sample of the others. The read waits of all lengths are no such sample: a long wait is always
//! read, and has its own stack.

use std::collections::BTreeMap;

use profile::StackId;

use super::parts::Parts;
use super::state::Wait;

/// Maximum number of stacks of each magnitude that are remembered from part to part.
const MAX_EARLIER_STACKS: usize = 16;

/// The binary logarithm of the length of a wait, in nanoseconds.
type Magnitude = u32;

/// The waits of a thread that were read from outside, and the length of those that were not.
#[derive(Default)]
pub(super) struct Readings {
    /// How often waits of each magnitude were read.
    by_length: BTreeMap<Magnitude, BTreeMap<Wait, u64>>,
    /// How often waits were read in gaps, in which switches do not tell how long they were.
    in_gaps: BTreeMap<Wait, u64>,
    /// The time in nanoseconds that waits of each magnitude took without being read.
    unread: BTreeMap<Magnitude, u64>,
}

impl Readings {
    /// Adds a wait that was read, of `length` nanoseconds.
    pub(super) fn add_read(&mut self, wait: Wait, length: u64) {
        *self.by_length.entry(magnitude(length)).or_default().entry(wait).or_default() += 1;
    }

    /// Adds a reading in a gap.
    pub(super) fn add_in_gap(&mut self, wait: Wait) {
        *self.in_gaps.entry(wait).or_default() += 1;
    }

    /// Adds a wait of `length` nanoseconds whose stack is not known.
    pub(super) fn add_unread(&mut self, length: u64) {
        let sum = self.unread.entry(magnitude(length)).or_default();
        *sum = sum.saturating_add(length);
    }

    /// Returns the stacks by which `time` nanoseconds without a stack are distributed, with their weights: waits whose length is known
    /// by those of about the same length, the rest by what was read in gaps. `told` are the stacks that switches tell and their
    /// weights; they stand for the rest where nothing was read in gaps.
    pub(super) fn shares(&self, time: u64, told: &[(Wait, u64)]) -> Vec<(Wait, u64)> {
        let in_gaps: Vec<(Wait, u64)> = self.in_gaps().collect();
        let rest = if in_gaps.is_empty() { told } else { &in_gaps };
        let (mut shares, mut left) = (BTreeMap::new(), time);
        for (&magnitude, &unread) in &self.unread {
            let unread = unread.min(left);
            left -= unread;
            match self.nearest(magnitude) {
                Some(waits) => split(unread, &weighed(waits).collect::<Vec<_>>(), &mut shares),
                None => split(unread, rest, &mut shares),
            }
        }
        let of_all_lengths: Vec<(Wait, u64)>;
        let rest = match rest {
            [] => {
                of_all_lengths = self.by_length.values().flat_map(weighed).collect();
                &of_all_lengths
            }
            known => known,
        };
        split(left, rest, &mut shares);
        shares.into_iter().filter(|(_, time)| *time > 0).collect()
    }

    /// Returns the waits that were read and whose length is nearest.
    fn nearest(&self, wanted: Magnitude) -> Option<&BTreeMap<Wait, u64>> {
        let distance = |magnitude: Magnitude| magnitude.abs_diff(wanted);
        let nearest = self.by_length.iter().min_by_key(|(magnitude, _)| distance(**magnitude));
        nearest.map(|(_, waits)| waits)
    }

    /// Returns how often this wait was read.
    pub(super) fn times_read(&self, wait: &Wait) -> u64 {
        let all = self.by_length.values().chain([&self.in_gaps]);
        all.filter_map(|waits| waits.get(wait)).sum()
    }

    /// Returns how well this wait stands for an unread one of `length` nanoseconds: 2 if it was read of about that length, 1 if
    /// another with its stack was, 0 otherwise.
    pub(super) fn likeness(&self, length: u64, wait: &Wait) -> u8 {
        let Some(waits) = self.nearest(magnitude(length)) else { return 0 };
        match waits.contains_key(wait) {
            true => 2,
            false => waits.keys().any(|known| known.stack == wait.stack).into(),
        }
    }

    /// Returns how often waits were read in gaps.
    pub(super) fn in_gaps(&self) -> impl Iterator<Item = (Wait, u64)> {
        weighed(&self.in_gaps)
    }

    /// Completes `part` with readings of earlier parts, for magnitudes of which it has none, and remembers its own. Readings in gaps
    /// are not carried over.
    pub(super) fn carry_over(&mut self, part: &mut Self) {
        for (&magnitude, waits) in &part.by_length {
            self.by_length.insert(magnitude, heaviest(weighed(waits)).into_iter().collect());
        }
        for (&magnitude, waits) in &self.by_length {
            part.by_length.entry(magnitude).or_insert_with(|| waits.clone());
        }
    }

    /// Replaces the stacks that are carried over.
    pub(super) fn rename_stacks(&mut self, mut rename: impl FnMut(StackId) -> StackId) {
        for waits in self.by_length.values_mut() {
            let old = std::mem::take(waits).into_iter();
            *waits = old.map(|(wait, times)| (Wait { stack: rename(wait.stack), ..wait }, times)).collect();
        }
    }
}

fn magnitude(length: u64) -> Magnitude {
    length.checked_ilog2().unwrap_or(0)
}

fn weighed(waits: &BTreeMap<Wait, u64>) -> impl Iterator<Item = (Wait, u64)> {
    waits.iter().map(|(wait, times)| (*wait, *times))
}

fn split(time: u64, waits: &[(Wait, u64)], shares: &mut BTreeMap<Wait, u64>) {
    let mut parts = Parts::new(time, waits.iter().map(|(_, weight)| u128::from(*weight)).sum());
    for &(wait, weight) in waits {
        *shares.entry(wait).or_default() += parts.next(weight);
    }
}

/// The heaviest of these.
pub(super) fn heaviest<K: Ord + Copy>(all: impl Iterator<Item = (K, u64)>) -> Vec<(K, u64)> {
    let mut all: Vec<(K, u64)> = all.collect();
    all.sort_unstable_by_key(|&(key, weight)| (std::cmp::Reverse(weight), key));
    all.truncate(MAX_EARLIER_STACKS);
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::waits::state::CauseId;

    fn wait(number: u32) -> Wait {
        Wait { cause: Some(CauseId(number)), ..Wait::default() }
    }

    #[test]
    fn long_waits_stand_for_no_short_ones() {
        // Ten sleeps that were all read, and a hundred reads of a pipe, of which five were.
        let mut readings = Readings::default();
        (0..10).for_each(|_| readings.add_read(wait(1), 60_000_000));
        (0..5).for_each(|_| readings.add_read(wait(2), 8_000_000));
        (0..95).for_each(|_| readings.add_unread(8_100_000));
        assert_eq!(readings.shares(95 * 8_100_000, &[]), [(wait(2), 95 * 8_100_000)]);
    }

    #[test]
    fn waits_of_a_length_that_was_never_read_have_the_stacks_of_the_nearest() {
        let mut readings = Readings::default();
        readings.add_read(wait(1), 1_000_000_000);
        readings.add_read(wait(2), 1_000_000);
        readings.add_read(wait(2), 1_000_000);
        readings.add_read(wait(3), 1_000_000);
        readings.add_unread(30);
        assert_eq!(readings.shares(30, &[]), [(wait(2), 20), (wait(3), 10)]);
    }

    #[test]
    fn time_of_gaps_has_what_was_read_in_gaps_or_is_told_by_switches() {
        let mut readings = Readings::default();
        readings.add_read(wait(1), 100);
        readings.add_unread(100);
        assert_eq!(readings.shares(300, &[(wait(2), 7)]), [(wait(1), 100), (wait(2), 200)]);
        assert_eq!(readings.shares(300, &[]), [(wait(1), 300)]);
        readings.add_in_gap(wait(3));
        assert_eq!(readings.shares(300, &[(wait(2), 7)]), [(wait(1), 100), (wait(3), 200)]);
        // The kernel says that a part of the wait was another time.
        assert_eq!(readings.shares(60, &[]).iter().map(|(_, time)| time).sum::<u64>(), 60);
    }

    #[test]
    fn a_part_has_what_was_read_of_other_lengths_before() {
        let mut earlier = Readings::default();
        let mut first = Readings::default();
        first.add_read(wait(1), 100);
        first.add_read(wait(2), 100_000);
        earlier.carry_over(&mut first);
        let mut second = Readings::default();
        second.add_read(wait(3), 100_000);
        second.add_unread(100);
        second.add_unread(100_000);
        earlier.carry_over(&mut second);
        assert_eq!(second.shares(100_100, &[]), [(wait(1), 100), (wait(3), 100_000)]);
    }
}
