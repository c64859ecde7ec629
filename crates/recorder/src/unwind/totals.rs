//! How the stacks of a recording came out.

use model::TruncationReason;
use unwinder::StackEnd;

/// Counts of stacks, by their end.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct StackTotals {
    /// User stacks that were unwound to the thread's first frame from their copy alone.
    pub complete: u64,
    /// Complete ones for which memory was read later, or an earlier stack of the thread was used.
    pub completed_late: u64,
    /// User stacks that reached the limit of frames.
    pub at_frame_limit: u64,
    /// Samples of threads that had no user stack: kernel threads, and threads whose memory exec had taken away. 32-bit
    /// threads are among them. Not counted by [`StackTotals::all`].
    pub without_stack: u64,
    /// Samples of 32-bit programs: their stacks are what the kernel's walk over frame pointers found.
    pub of_32_bits: u64,
    /// Incomplete ones, by reason ([`TruncationReason::ALL`]).
    pub truncated: [u64; TruncationReason::ALL.len()],
}

impl StackTotals {
    /// The layout of the section: this number, then `complete`, `completed_late`, `at_frame_limit`, `without_stack`, the
    /// counts of the reasons from 1 on, and `of_32_bits`; u64 each.
    const VERSION: u64 = 1;

    /// Counts one stack.
    pub(crate) fn count(&mut self, end: StackEnd, late: bool) {
        let counter = match end {
            StackEnd::Complete if late => &mut self.completed_late,
            StackEnd::Complete => &mut self.complete,
            StackEnd::FrameLimit => &mut self.at_frame_limit,
            StackEnd::Truncated(reason) => match self.truncated.get_mut(reason as usize - 1) {
                Some(counter) => counter,
                None => return,
            },
        };
        *counter = counter.saturating_add(1);
    }

    /// Returns the totals that came since the counts were `before`.
    pub(crate) fn since(&self, before: &Self) -> Self {
        let mut truncated = self.truncated;
        for (count, before) in truncated.iter_mut().zip(before.truncated) {
            *count = count.saturating_sub(before);
        }
        Self {
            complete: self.complete.saturating_sub(before.complete),
            completed_late: self.completed_late.saturating_sub(before.completed_late),
            at_frame_limit: self.at_frame_limit.saturating_sub(before.at_frame_limit),
            without_stack: self.without_stack.saturating_sub(before.without_stack),
            of_32_bits: self.of_32_bits.saturating_sub(before.of_32_bits),
            truncated,
        }
    }

    /// Returns the number of unwound stacks.
    pub fn all(&self) -> u64 {
        let incomplete = self.truncated.iter().fold(0_u64, |sum, count| sum.saturating_add(*count));
        self.complete
            .saturating_add(self.completed_late)
            .saturating_add(self.at_frame_limit)
            .saturating_add(incomplete)
    }

    /// Returns the number of stacks that ended for `reason`.
    pub fn truncated_by(&self, reason: TruncationReason) -> u64 {
        self.truncated.get(reason as usize - 1).copied().unwrap_or(0)
    }

    /// The share of stacks that reach the thread's first frame, in per cent; `None` where none was unwound.
    pub fn complete_percent(&self) -> Option<f64> {
        let all = self.all();
        (all > 0).then(|| 100.0 * (self.complete + self.completed_late) as f64 / all as f64)
    }

    /// The bytes of the section ([`perfdata::sections::id::STACK_TOTALS`]).
    pub fn to_section(&self) -> Vec<u8> {
        [Self::VERSION, self.complete, self.completed_late, self.at_frame_limit, self.without_stack]
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
        assert_eq!(totals.all(), 8);
        assert_eq!(totals.complete_percent(), Some(25.0));
        assert_eq!(totals.to_section().len(), 11 * 8);
    }
}
