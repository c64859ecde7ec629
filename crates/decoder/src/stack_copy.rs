//! Finds the user stack copy in a sample without decoding it: in a ring, where the record need not lie in one piece.
//!
//! The kernel reserves all bytes that `sample_stack_user` asked for, and says behind them how many it has filled
//! (`perf_output_sample_ustack()` in kernel/events/core.c): the others need not be copied out of the ring.

use crate::attr::Attr;
use crate::flags::SampleFormat;
use crate::header::HEADER_SIZE;
use crate::layout::SAMPLE_HEAD;

/// Bytes of a word, in which the parts of a sample are counted.
const WORD_BYTES: usize = 8;

/// The position at which the samples of some events have their stack copy. All of them must have the same parts before it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StackCopyLocator {
    /// Bytes of the record before the call chain.
    before_chain: usize,
    has_chain: bool,
    /// Bytes of the user registers, for a thread that has any.
    registers: usize,
}

/// The stack copy of one sample. Offsets and sizes are in bytes, offsets from the beginning of the record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StackCopy {
    /// The offset of the first byte of the stack; the word before it is `size`.
    pub start: usize,
    /// The number of reserved bytes. The word behind them says how many are filled.
    pub size: usize,
    /// The number of filled bytes, rounded up to a whole word.
    pub filled: usize,
}

impl StackCopy {
    /// Returns the offset of the size of the copy, 64 bits.
    pub fn size_offset(&self) -> usize {
        self.start.saturating_sub(WORD_BYTES)
    }
}

/// Parts before the stack copy whose size this locator does not follow.
const UNSUPPORTED: SampleFormat =
    SampleFormat::READ.union(SampleFormat::RAW).union(SampleFormat::BRANCH_STACK);

impl StackCopyLocator {
    /// Returns the locator for samples of events with these attrs. `None` where there is no attr, one without stack copies, one
    /// with counters, raw data or branches before them, or where the samples of two differ.
    pub fn new<'a>(attrs: impl IntoIterator<Item = &'a Attr>) -> Option<Self> {
        let mut locators = attrs.into_iter().map(Self::for_attr);
        let first = locators.next()??;
        locators.all(|locator| locator == Some(first)).then_some(first)
    }

    fn for_attr(attr: &Attr) -> Option<Self> {
        let format = attr.sample_format;
        if !format.contains(SampleFormat::STACK_USER) || format.intersects(UNSUPPORTED) {
            return None;
        }
        let words = SAMPLE_HEAD.into_iter().filter(|&part| format.contains(part)).count();
        let registers = if format.contains(SampleFormat::REGS_USER) { attr.sample_regs_user } else { 0 };
        Some(Self {
            before_chain: HEADER_SIZE + WORD_BYTES * words,
            has_chain: format.contains(SampleFormat::CALLCHAIN),
            registers: WORD_BYTES * registers.count_ones() as usize,
        })
    }

    /// Finds the copy in a sample of `size` bytes. `word` returns the 64 bits at an offset, a multiple of 8 below `size`. `None`
    /// where the sample has no copy, or a size in it does not fit into the record.
    pub fn locate(&self, size: usize, word: impl Fn(usize) -> u64) -> Option<StackCopy> {
        let number = |at: usize| {
            let value = if at.checked_add(WORD_BYTES)? <= size { word(at) } else { return None };
            usize::try_from(value).ok().filter(|&value| value <= size)
        };
        let mut at = self.before_chain;
        if self.has_chain {
            at = number(at)?.checked_mul(WORD_BYTES)?.checked_add(at + WORD_BYTES)?;
        }
        if self.registers > 0 {
            // An ABI of 0 says that the thread has no user registers.
            let registers = if number(at)? == 0 { 0 } else { self.registers };
            at = at.checked_add(WORD_BYTES + registers)?;
        }
        let size = number(at)?;
        let start = at.checked_add(WORD_BYTES)?;
        let filled = number(start.checked_add(size)?)?;
        if filled > size || size == 0 || !size.is_multiple_of(WORD_BYTES) {
            return None;
        }
        Some(StackCopy { start, size, filled: filled.next_multiple_of(WORD_BYTES) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attr(format: SampleFormat) -> Attr {
        Attr { sample_format: format, sample_regs_user: 0b111, ..Attr::default() }
    }

    #[test]
    fn the_copy_lies_behind_chain_and_registers() {
        let format = SampleFormat::IP
            | SampleFormat::TIME
            | SampleFormat::CALLCHAIN
            | SampleFormat::REGS_USER
            | SampleFormat::STACK_USER;
        let locator = StackCopyLocator::new([&attr(format), &attr(format)]).unwrap();
        // Header, ip, time; two addresses; the ABI and three registers; 32 bytes of stack, 17 of them filled.
        let words = [0, 1, 2, 2, 10, 11, 2, 7, 8, 9, 32, 0, 0, 0, 0, 17];
        let locate = |words: &[u64]| locator.locate(8 * words.len(), |at| words[at / 8]);
        assert_eq!(locate(&words), Some(StackCopy { start: 88, size: 32, filled: 24 }));
        assert_eq!(locate(&words[..15]), None);
        // A thread without a user side has no registers.
        let words = [0, 1, 2, 0, 0, 8, 0, 0];
        assert_eq!(locate(&words), Some(StackCopy { start: 48, size: 8, filled: 0 }));
        for hostile in [u64::MAX, 1 << 61, 33] {
            let words = [0, 1, 2, 0, 0, hostile, 0, 0];
            assert_eq!(locate(&words), None);
        }
        assert_eq!(locate(&[0, 1, 2, u64::MAX / 8, 0, 8, 0, 0]), None);
    }

    #[test]
    fn there_is_no_locator_where_samples_differ() {
        let stack = SampleFormat::IP | SampleFormat::STACK_USER;
        assert_eq!(StackCopyLocator::new([]), None);
        assert_eq!(StackCopyLocator::new([&attr(SampleFormat::IP)]), None);
        assert_eq!(StackCopyLocator::new([&attr(stack), &attr(stack | SampleFormat::PERIOD)]), None);
        assert_eq!(StackCopyLocator::new([&attr(stack | SampleFormat::RAW)]), None);
        assert!(StackCopyLocator::new([&attr(stack)]).is_some());
    }
}
