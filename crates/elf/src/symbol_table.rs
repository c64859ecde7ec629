//! Symbol tables of objects that are read piece by piece.

use alloc::vec::Vec;

use object::{Endian as _, Endianness};

use crate::symbol::{entries, section};
use crate::table::Table;
use crate::{Object, ReadAt, Section, Symbol, SymbolSource};

/// The maximum number of bytes of a table, and of its strings, that [`SymbolTable::read`] reads. Those of clang with its debug symbols
/// have 20 and 60 MB.
const MAX_TABLE_BYTES: u64 = 128 << 20;

const SHT_GNU_HASH: u32 = 0x6fff_fff6;

/// Returns false if an object certainly does not export a symbol of this name: by the Bloom filter in the section `.gnu.hash`, of which it
/// reads 24 bytes. Returns true where there is no such section. Source: "GNU Hash ELF Sections", as glibc reads them (`elf/dl-lookup.c`).
pub fn may_export<D: ReadAt>(object: &Object<D>, name: &[u8]) -> bool {
    let hashes = object.headers().sections.iter().find(|section| section.kind == SHT_GNU_HASH);
    let is_in = |section: &Section| {
        let start = section.file_offset.0;
        let field = |index: u64| {
            let bytes = object.source().array(start.checked_add(4 * index)?)?;
            Some(object.endian().read_u32(bytes))
        };
        let (words, shift) = (field(2)?, field(3)?);
        let hash =
            name.iter().fold(5381_u32, |hash, &byte| hash.wrapping_mul(33).wrapping_add(u32::from(byte)));
        // Words are as wide as addresses.
        let bits = if object.is_64() { 64 } else { 32 };
        let index = u64::from((hash / bits).checked_rem(words)?);
        let at = start.checked_add(16)?.checked_add(index * u64::from(bits / 8))?;
        let word = match object.is_64() {
            true => object.endian().read_u64(object.source().array(at)?),
            false => object.endian().read_u32(object.source().array(at)?).into(),
        };
        let is_set = |hash: u32| word >> (hash % bits) & 1 == 1;
        Some(is_set(hash) && is_set(hash.checked_shr(shift)?))
    };
    hashes.is_none_or(|section| is_in(section).unwrap_or(true))
}

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
