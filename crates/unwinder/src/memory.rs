//! The memory that the unwinder reads stack words from.

/// Reads memory of the profiled process.
pub trait ReadMemory {
    /// The little-endian word at `address`, or `None` where it cannot be read.
    fn read_word(&mut self, address: u64) -> Option<u64>;
}

/// No memory beyond the copy.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoMemory;

impl ReadMemory for NoMemory {
    fn read_word(&mut self, _address: u64) -> Option<u64> {
        None
    }
}

/// The copy that the kernel made of a stack: from the stack pointer upwards (`PERF_SAMPLE_STACK_USER`).
#[derive(Clone, Copy, Debug)]
pub struct StackCopy<'a> {
    /// The address of the first byte (Avma).
    pub start: u64,
    /// The bytes; may be none.
    pub bytes: &'a [u8],
}

impl StackCopy<'_> {
    /// The word at `address`, if all of it was copied.
    #[inline]
    pub fn word(&self, address: u64) -> Option<u64> {
        let offset = usize::try_from(address.checked_sub(self.start)?).ok()?;
        let bytes = self.bytes.get(offset..)?.first_chunk::<8>()?;
        Some(u64::from_le_bytes(*bytes))
    }

    /// Returns true if a stack pointer is in what was copied, or at its end.
    pub(crate) fn contains(&self, stack_pointer: u64) -> bool {
        let length = stack_pointer.checked_sub(self.start);
        length.is_some_and(|length| length <= self.bytes.len() as u64)
    }

    /// Returns true if `address` lies above what was copied, and near enough to be of the same stack: a larger copy would have
    /// held it.
    pub(crate) fn ends_below(&self, address: u64) -> bool {
        let end = self.start.saturating_add(self.bytes.len() as u64);
        // Part of the word may have been copied.
        address.saturating_add(8) > end && address.saturating_sub(end) < MAX_STACK_BYTES
    }
}

/// The copy of a stack, and the memory beyond it.
pub(crate) struct StackMemory<'a, M> {
    pub(crate) copy: StackCopy<'a>,
    pub(crate) beyond: &'a mut M,
    /// The number of words that were read beyond the copy.
    pub(crate) words_beyond_copy: usize,
}

impl<'a, M> StackMemory<'a, M> {
    /// Creates a reader of the copy.
    pub(crate) fn new(copy: StackCopy<'a>, beyond: &'a mut M) -> Self {
        Self { copy, beyond, words_beyond_copy: 0 }
    }
}

impl<M: ReadMemory> ReadMemory for StackMemory<'_, M> {
    #[inline]
    fn read_word(&mut self, address: u64) -> Option<u64> {
        if let Some(value) = self.copy.word(address) {
            return Some(value);
        }
        let word = self.beyond.read_word(address)?;
        self.words_beyond_copy += 1;
        Some(word)
    }
}

/// The maximum distance of a word of the same stack from the end of the copy. `ulimit -s` is 8 MiB nearly everywhere.
const MAX_STACK_BYTES: u64 = 64 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_only_where_all_of_them_was_copied() {
        let bytes: [u8; 20] = core::array::from_fn(|index| index as u8);
        let copy = StackCopy { start: 0x1000, bytes: &bytes };
        assert_eq!(copy.word(0x1008), Some(0x0f0e_0d0c_0b0a_0908));
        assert_eq!(copy.word(0x100d), None);
        assert_eq!(copy.word(0xfff), None);
        assert_eq!(copy.word(u64::MAX), None);
        assert!(copy.ends_below(0x1010));
        assert!(copy.ends_below(0x1014));
        assert!(!copy.ends_below(0x1000));
        assert!(!copy.ends_below(0x7fff_0000_0000));
        let top = StackCopy { start: u64::MAX - 3, bytes: &bytes };
        assert_eq!(top.word(u64::MAX - 3), Some(0x0706_0504_0302_0100));
    }
}
