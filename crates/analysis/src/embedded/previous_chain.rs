//! The frames that a call chain shares with the previous sample's: consecutive chains mostly differ at their inner end, so the shared
//! outer part need not be mapped again.

use decoder::context;
use model::Pid;
use tracker::Generation;

/// The call chain of the last sample.
#[derive(Default)]
pub(super) struct PreviousChain {
    seen_in: Option<(Pid, Generation)>,
    /// Its values, outermost first.
    values: Vec<u64>,
}

impl PreviousChain {
    /// Replaces the chain. Returns the number of values of the new one, innermost first, behind which all mean what they meant in
    /// the one before.
    pub(super) fn replace(
        &mut self,
        seen_in: (Pid, Generation),
        chain: impl DoubleEndedIterator<Item = u64> + ExactSizeIterator + Clone,
    ) -> usize {
        let length = chain.len();
        let outermost_first = chain.rev();
        let is_same_process = self.seen_in.replace(seen_in) == Some(seen_in);
        let common = self.values.iter().zip(outermost_first.clone()).take_while(|(old, new)| **old == *new);
        let common = if is_same_process { common.count() } else { 0 };
        let new = outermost_first.skip(common);
        let is_mark = |value: &u64| *value >= context::MAX;
        // Addresses mean what the last mark before them says.
        let begins_with_mark = self.values.get(..common).and_then(<[u64]>::last).is_some_and(is_mark);
        let old_mark = self.values.iter().skip(common).copied().find(is_mark);
        let means_the_same =
            begins_with_mark || (old_mark.is_some() && old_mark == new.clone().find(is_mark));
        self.values.truncate(common);
        self.values.extend(new);
        // The first of them may have been an instruction pointer, and be a return address now.
        if means_the_same { (length - common + 1).min(length) } else { length }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use decoder::CpuMode;
    use decoder::context::{KERNEL, USER};
    use tracker::{Tracker, chain_items};

    use super::*;

    #[test]
    fn what_is_left_out_was_seen_before() {
        let mut state = 1_u64;
        let mut random = move |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        let mut tracker = Tracker::new();
        let generations = [1, 2].map(|pid| tracker.generation(Pid(pid)));
        let mut last = PreviousChain::default();
        // One set for each process.
        let (mut all, mut looked_at) = ([HashSet::new(), HashSet::new()], [HashSet::new(), HashSet::new()]);
        let (mut values, mut left) = (0, 0);
        let mut outer: Vec<u64> = Vec::new();
        for _ in 0..20_000 {
            let process = random(20) as usize / 19;
            outer.truncate(outer.len().saturating_sub(random(4) as usize));
            while outer.len() < 12 && random(3) != 0 {
                outer.push([USER, KERNEL, 1, 2, 3, 4, 5, 6][random(8) as usize]);
            }
            let mut chain: Vec<u64> = outer.iter().rev().copied().collect();
            if random(4) != 0 {
                chain.insert(0, [USER, KERNEL][random(2) as usize]);
            }
            let count = last.replace((Pid(process as i32), generations[process]), chain.iter().copied());
            let items = |most| {
                chain_items(chain.iter().copied().take(most), CpuMode::User).map(|item| format!("{item:?}"))
            };
            all[process].extend(items(chain.len()));
            looked_at[process].extend(items(count));
            assert!(all == looked_at, "{chain:x?}");
            (values, left) = (values + chain.len(), left + chain.len() - count);
        }
        assert!(left > values / 4, "{left} of {values} values were left out");
    }

    #[test]
    fn a_chain_is_looked_at_anew_where_other_code_is_mapped() {
        let mut tracker = Tracker::new();
        let (one, other) = (tracker.generation(Pid(1)), tracker.generation(Pid(2)));
        let mut last = PreviousChain::default();
        let chain = [USER, 1, 2, 3];
        let mut replace = |generation| last.replace((Pid(1), generation), chain.into_iter());
        assert_eq!([replace(one), replace(one), replace(other), replace(other)], [4, 1, 4, 1]);
    }
}
