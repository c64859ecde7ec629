//! How many stacks of a recording are complete, and why the others are not.

use model::TruncationReason;
use unwinder::StackEnd;

/// Counts of user stacks, by how they end.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct StackTotals {
    /// Stacks that were unwound to the thread's first frame from their copy alone.
    pub complete: u64,
    /// Stacks that were deeper than their copy, and complete by the memory of the live process.
    pub completed_beyond_copy: u64,
    /// Stacks of both kinds in which functions of an interpreter are not known.
    pub unnamed: u64,
    /// Looks at threads of Python, which tell the callers of its functions.
    pub looks: u64,
    /// Samples without a user stack to unwind: of kernel threads, of threads whose memory exec had freed, and of 32-bit
    /// programs. Not counted by [`StackTotals::unwound`].
    pub without_stack: u64,
    /// Samples of 32-bit programs, whose call chains are those of the kernel's walk over frame pointers.
    pub of_32_bits: u64,
    /// Incomplete stacks, by reason ([`TruncationReason::index`]).
    pub truncated: [u64; TruncationReason::ALL.len()],
    /// The limit of addresses of the last stack that ended at one; 0 if none has.
    pub address_limit: u16,
}

impl StackTotals {
    /// The version of the section's layout: this number, then `complete`, `completed_beyond_copy`, `without_stack`,
    /// `of_32_bits`, `looks`, `unnamed`, and the counts of the reasons from 1 on; u64 each.
    const VERSION: u64 = 3;

    /// Counts one stack. `beyond_copy` is true if more than its copy was needed to complete it, `is_named` unless functions of an
    /// interpreter are not known.
    pub(crate) fn count(&mut self, end: StackEnd, beyond_copy: bool, is_named: bool) {
        self.unnamed = self.unnamed.saturating_add(u64::from(end == StackEnd::Complete && !is_named));
        if let StackEnd::Truncated(TruncationReason::AddressLimit(limit)) = end {
            self.address_limit = limit;
        }
        let counter = match end {
            StackEnd::Complete if beyond_copy => &mut self.completed_beyond_copy,
            StackEnd::Complete => &mut self.complete,
            StackEnd::Truncated(reason) => match self.truncated.get_mut(reason.index()) {
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
            unnamed: self.unnamed.saturating_sub(before.unnamed),
            looks: self.looks.saturating_sub(before.looks),
            without_stack: self.without_stack.saturating_sub(before.without_stack),
            of_32_bits: self.of_32_bits.saturating_sub(before.of_32_bits),
            truncated,
            address_limit: self.address_limit,
        }
    }

    /// Returns the number of unwound stacks.
    pub fn unwound(&self) -> u64 {
        let incomplete = self.truncated.iter().fold(0_u64, |sum, count| sum.saturating_add(*count));
        self.complete.saturating_add(self.completed_beyond_copy).saturating_add(incomplete)
    }

    /// Returns the number of stacks that ended for `reason`.
    pub fn truncated_by(&self, reason: TruncationReason) -> u64 {
        self.truncated.get(reason.index()).copied().unwrap_or(0)
    }

    /// Returns the share of unwound stacks that reach the thread's first frame, with all functions of interpreters, in per cent; `None`
    /// where none was unwound.
    pub fn complete_percent(&self) -> Option<f64> {
        let unwound = self.unwound();
        let complete = self.complete.saturating_add(self.completed_beyond_copy).saturating_sub(self.unnamed);
        (unwound > 0).then(|| 100.0 * complete as f64 / unwound as f64)
    }

    /// Returns the totals as the bytes of their section in a file ([`perfdata::sections::id::STACK_TOTALS`]).
    pub fn to_section(&self) -> Vec<u8> {
        let Self { complete, completed_beyond_copy, without_stack, of_32_bits, looks, unnamed, .. } = *self;
        [Self::VERSION, complete, completed_beyond_copy, without_stack, of_32_bits, looks, unnamed]
            .into_iter()
            .chain(self.truncated)
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
        totals.count(StackEnd::Complete, false, true);
        totals.count(StackEnd::Complete, true, true);
        for reason in TruncationReason::ALL {
            totals.count(StackEnd::Truncated(reason), false, false);
            assert_eq!(totals.truncated_by(reason), 1);
        }
        assert_eq!(totals.unwound(), 12);
        totals.count(StackEnd::Truncated(TruncationReason::AddressLimit(127)), false, true);
        assert_eq!(totals.truncated_by(TruncationReason::AddressLimit(127)), 2);
        assert_eq!(totals.address_limit, 127);
        assert_eq!(totals.complete_percent(), Some(100.0 * 2.0 / 13.0));
        totals.count(StackEnd::Complete, false, false);
        assert_eq!(
            totals.complete_percent(),
            Some(100.0 * 2.0 / 14.0),
            "a function of an interpreter is not known"
        );
        totals.looks = 7;
        let section = totals.to_section();
        assert_eq!(section.len(), 17 * 8);
        assert_eq!(perfdata::sections::looks(&section, decoder::Endian::NATIVE), Some(7));
    }
}
