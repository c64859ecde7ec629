//! Where the stack copy lies in samples that are still in their ring. The kernel reserves room for all that was asked for
//! and says behind it how much it has filled: the rest need not be copied out.

use decoder::{Attr, SAMPLE_HEAD, SampleFormat};

/// The place of the stack copy in the samples of some events.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct StackPlace {
    /// Bytes of the record before the call chain.
    before: usize,
    has_chain: bool,
    /// Bytes of the user registers, where there are any.
    registers: usize,
}

/// A stack copy in one record. Offsets are from the record's beginning.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FoundCopy {
    /// Of the first byte of the stack; the word before is the size.
    pub(crate) start: usize,
    /// The number of bytes that were reserved.
    pub(crate) size: usize,
    /// The number of them that were filled, up to a whole word.
    pub(crate) filled: usize,
}

/// Parts before the stack copy that say their size in ways of their own.
const OTHERS: SampleFormat = SampleFormat::READ.union(SampleFormat::RAW).union(SampleFormat::BRANCH_STACK);

impl StackPlace {
    /// The place that is the same in all samples of these events; `None` where there is none.
    pub(crate) fn of<'a>(attrs: impl IntoIterator<Item = &'a Attr>) -> Option<Self> {
        let mut places = attrs.into_iter().map(Self::in_samples_of);
        let first = places.next()??;
        places.all(|place| place == Some(first)).then_some(first)
    }

    fn in_samples_of(attr: &Attr) -> Option<Self> {
        let format = attr.sample_format;
        if !format.contains(SampleFormat::STACK_USER) || format.intersects(OTHERS) {
            return None;
        }
        let words = SAMPLE_HEAD.into_iter().filter(|&part| format.contains(part)).count();
        let registers = if format.contains(SampleFormat::REGS_USER) { attr.sample_regs_user } else { 0 };
        Some(Self {
            before: 8 + 8 * words,
            has_chain: format.contains(SampleFormat::CALLCHAIN),
            registers: 8 * registers.count_ones() as usize,
        })
    }

    /// Finds the copy in a sample of `size` bytes, whose words `word` reads.
    pub(crate) fn find(&self, size: usize, word: impl Fn(usize) -> u64) -> Option<FoundCopy> {
        // What is larger than the record lies.
        let number = |at: usize| {
            let value = if at.checked_add(8)? <= size { word(at) } else { return None };
            usize::try_from(value).ok().filter(|&value| value <= size)
        };
        let mut at = self.before;
        if self.has_chain {
            at += 8 + 8 * number(at)?;
        }
        if self.registers > 0 {
            at += 8 + if number(at)? == 0 { 0 } else { self.registers };
        }
        let (start, size) = (at + 8, number(at)?);
        let filled = number(start + size).filter(|&filled| filled <= size && size > 0 && size % 8 == 0)?;
        Some(FoundCopy { start, size, filled: filled.next_multiple_of(8) })
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
        let place = StackPlace::of([&attr(format), &attr(format)]).unwrap();
        // Header, ip, time; two addresses; the ABI and three registers; 32 bytes of stack, 17 of them filled.
        let words = [0, 1, 2, 2, 10, 11, 2, 7, 8, 9, 32, 0, 0, 0, 0, 17];
        let find = |words: &[u64]| place.find(8 * words.len(), |at| words[at / 8]);
        assert_eq!(find(&words), Some(FoundCopy { start: 88, size: 32, filled: 24 }));
        assert_eq!(find(&words[..15]), None);
        // A thread without a user side has no registers.
        let words = [0, 1, 2, 0, 0, 8, 0, 0];
        assert_eq!(find(&words), Some(FoundCopy { start: 48, size: 8, filled: 0 }));
        for hostile in [u64::MAX, 1 << 61, 33] {
            let words = [0, 1, 2, 0, 0, hostile, 0, 0];
            assert_eq!(find(&words), None);
        }
        assert_eq!(find(&[0, 1, 2, u64::MAX / 8, 0, 8, 0, 0]), None);
    }

    #[test]
    fn there_is_none_where_samples_differ() {
        let stack = SampleFormat::IP | SampleFormat::STACK_USER;
        assert_eq!(StackPlace::of([]), None);
        assert_eq!(StackPlace::of([&attr(SampleFormat::IP)]), None);
        assert_eq!(StackPlace::of([&attr(stack), &attr(stack | SampleFormat::PERIOD)]), None);
        assert_eq!(StackPlace::of([&attr(stack | SampleFormat::RAW)]), None);
        assert!(StackPlace::of([&attr(stack)]).is_some());
    }
}
