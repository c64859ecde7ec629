//! How many stacks of a recording are complete, and why the others are not.

use model::TruncationReason;
use unwinder::StackEnd;

/// Counts of user stacks, by how they end.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct StackTotals {
    /// Stacks that were unwound to the thread's first frame from their copy alone.
    pub complete: u64,
    /// Stacks that were deeper than their copy, and complete by the memory of the live process or an earlier stack.
    pub completed_beyond_copy: u64,
    /// Stacks that reached the limit of frames.
    pub at_frame_limit: u64,
    /// Samples without a user stack to unwind: of kernel threads, of threads whose memory exec had freed, and of 32-bit
    /// programs. Not counted by [`StackTotals::unwound`].
    pub without_stack: u64,
    /// Samples of 32-bit programs, whose call chains are those of the kernel's walk over frame pointers.
    pub of_32_bits: u64,
    /// Incomplete stacks, by reason ([`TruncationReason::ALL`]).
    pub truncated: [u64; TruncationReason::ALL.len()],
}

impl StackTotals {
    /// The version of the section's layout: this number, then `complete`, `completed_beyond_copy`, `at_frame_limit`,
    /// `without_stack`, the counts of the reasons from 1 on, and `of_32_bits`; u64 each.
    const VERSION: u64 = 1;

    /// Counts one stack. `beyond_copy` is true if more than its copy was needed to complete it.
    pub(crate) fn count(&mut self, end: StackEnd, beyond_copy: bool) {
        let counter = match end {
            StackEnd::Complete if beyond_copy => &mut self.completed_beyond_copy,
            StackEnd::Complete => &mut self.complete,
            StackEnd::FrameLimit => &mut self.at_frame_limit,
            StackEnd::Truncated(reason) => match self.truncated.get_mut(reason as usize - 1) {
                Some(counter) => counter,
                None => return,
            },
        };
        *counter = counter.saturating_add(1);
    }

    /// Returns the stacks that were counted since these totals were `before`.
    pub(crate) fn since(&self, before: &Self) -> Self {
        let mut truncated = self.truncated;
        for (count, before) in truncated.iter_mut().zip(before.truncated) {
            *count = count.saturating_sub(before);
        }
        Self {
            complete: self.complete.saturating_sub(before.complete),
            completed_beyond_copy: self.completed_beyond_copy.saturating_sub(before.completed_beyond_copy),
            at_frame_limit: self.at_frame_limit.saturating_sub(before.at_frame_limit),
            without_stack: self.without_stack.saturating_sub(before.without_stack),
            of_32_bits: self.of_32_bits.saturating_sub(before.of_32_bits),
            truncated,
        }
    }

    /// Returns the number of unwound stacks.
    pub fn unwound(&self) -> u64 {
        let incomplete = self.truncated.iter().fold(0_u64, |sum, count| sum.saturating_add(*count));
        self.complete
            .saturating_add(self.completed_beyond_copy)
            .saturating_add(self.at_frame_limit)
            .saturating_add(incomplete)
    }

    /// Returns the number of stacks that ended for `reason`.
    pub fn truncated_by(&self, reason: TruncationReason) -> u64 {
        self.truncated.get(reason as usize - 1).copied().unwrap_or(0)
    }

    /// Returns the share of unwound stacks that reach the thread's first frame, in per cent; `None` where none was unwound.
    pub fn complete_percent(&self) -> Option<f64> {
        let unwound = self.unwound();
        let complete = self.complete.saturating_add(self.completed_beyond_copy);
        (unwound > 0).then(|| 100.0 * complete as f64 / unwound as f64)
    }

    /// Returns the totals as the bytes of their section in a file ([`perfdata::sections::id::STACK_TOTALS`]).
    pub fn to_section(&self) -> Vec<u8> {
        let Self { complete, completed_beyond_copy, at_frame_limit, without_stack, .. } = *self;
        [Self::VERSION, complete, completed_beyond_copy, at_frame_limit, without_stack]
            .into_iter()
            .chain(self.truncated)
            .chain([self.of_32_bits])
            .flat_map(u64::to_ne_bytes)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_end_has_its_counter() {
        let mut totals = StackTotals::default();
        totals.count(StackEnd::Complete, false);
        totals.count(StackEnd::Complete, true);
        for reason in TruncationReason::ALL {
            totals.count(StackEnd::Truncated(reason), false);
            assert_eq!(totals.truncated_by(reason), 1);
        }
        totals.count(StackEnd::FrameLimit, false);
        assert_eq!(totals.unwound(), 8);
        assert_eq!(totals.complete_percent(), Some(25.0));
        assert_eq!(totals.to_section().len(), 11 * 8);
    }
}
