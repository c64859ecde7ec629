//! Symbol tables of objects that are read piece by piece.

use alloc::vec::Vec;

use object::Endianness;

use crate::symbol::{Table, entries, section};
use crate::{Object, ReadAt, Section, Symbol, SymbolSource};

/// The maximum number of bytes of a table, and of its strings, that [`SymbolTable::read`] reads. Those of clang with its debug symbols
/// have 20 and 60 MB.
const MAX_TABLE_BYTES: u64 = 128 << 20;

/// A copy of a symbol table, for objects that are read piece by piece.
#[derive(Debug)]
pub struct SymbolTable {
    entries: Vec<u8>,
    strings: Vec<u8>,
    is_64: bool,
    endian: Endianness,
}

impl SymbolTable {
    /// Reads a table of an object, and its strings, by the section headers. `None` where there is no such table, or it is too large.
    pub fn read<D: ReadAt>(object: &Object<D>, source: SymbolSource) -> Option<Self> {
        let headers = object.headers();
        let table = section(headers, source)?;
        let strings = headers.sections.get(usize::try_from(table.link).ok()?)?;
        let copy = |section: &Section| {
            let start = section.file_offset.0;
            let size = Some(section.size).filter(|size| *size <= MAX_TABLE_BYTES)?;
            Some(object.source().copy(start..start.saturating_add(size)))
        };
        Some(Self {
            entries: copy(table)?,
            strings: copy(strings)?,
            is_64: object.is_64(),
            endian: object.endian(),
        })
    }

    /// Returns the symbols in the order of the table.
    pub fn iter(&self) -> impl Iterator<Item = Symbol<'_>> {
        entries(Table { entries: &self.entries, strings: &self.strings }, self.is_64, self.endian)
    }
}
