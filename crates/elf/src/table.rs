//! Tables of entries of one size.

use object::pod::{Pod, slice_from_bytes};

/// The entries of a symbol table, and the strings that their names are in.
#[derive(Clone, Copy, Default)]
pub(crate) struct Table<'a> {
    pub(crate) entries: &'a [u8],
    pub(crate) strings: &'a [u8],
}

/// The maximum number of entries that are read of the dynamic section, of notes, and of loaded segments. Linkers write some thirty; all
/// sections of a hostile file may be the same long list.
pub(crate) const MAX_ENTRIES: usize = 1 << 12;

/// Returns the entries of a table that are there as a whole.
pub(crate) fn entries<T: Pod>(bytes: &[u8]) -> &[T] {
    slice_from_bytes(bytes, bytes.len() / size_of::<T>()).map_or(&[], |(entries, _)| entries)
}
