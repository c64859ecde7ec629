//! Instructions around an address.

use core::ops::Deref;

use elf::ReadAt;

/// The number of bytes that are copied: more than the longest epilogue has.
const CODE_BYTES: usize = 128;

/// A few bytes of code, copied.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Code {
    bytes: [u8; CODE_BYTES],
    length: usize,
}

impl Code {
    /// Reads the code at an offset of a file; fewer bytes at its end.
    pub(super) fn read(file: &impl ReadAt, offset: u64) -> Self {
        let mut bytes = [0; CODE_BYTES];
        let length = file.read_at(offset, &mut bytes);
        Self { bytes, length }
    }

    /// The first of the bytes.
    pub(super) fn up_to(self, length: u64) -> Self {
        let length = usize::try_from(length).map_or(self.length, |length| length.min(self.length));
        Self { length, ..self }
    }
}

impl Deref for Code {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or_default()
    }
}
