use std::fmt;

use elf::ReadAt;

/// The bytes of a section with unwind tables, or of a whole object, whatever holds them.
///
/// The dynamic call costs nothing that can be measured: the unwinder reads tables only for code whose rules it does not remember.
pub struct TableBytes(Box<dyn ReadAt + Send + Sync>);

impl TableBytes {
    pub(crate) fn new(bytes: impl ReadAt + Send + Sync + 'static) -> Self {
        Self(Box::new(bytes))
    }
}

impl ReadAt for TableBytes {
    fn size(&self) -> u64 {
        self.0.size()
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> usize {
        self.0.read_at(offset, into)
    }
}

impl fmt::Debug for TableBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TableBytes").field("size", &self.size()).finish()
    }
}
