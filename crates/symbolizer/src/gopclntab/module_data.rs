//! `moduledata`: the variable in which Go's linker tells the runtime the addresses of a program's tables and text.
//!
//! Source of the layout: Go's `src/runtime/symtab.go`, `moduledata`. It is an array of words up to the fields read here. In
//! a position-independent program the dynamic linker fills them in, and not every linker writes them into the file as
//! well: then the addends of the relocations have them.

use elf::{Object, Section};
use model::Svma;

use super::section_bytes::SectionBytes;
use super::{GoFunctionTable, Version};
use crate::MAX_TABLE_ENTRIES;

/// The addresses that the offsets in the function table are relative to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ModuleData {
    /// `text`: where Go's functions start. A linker of another language puts code of its own before them.
    pub(super) text: u64,
    /// `gofunc`: the base of the inlining trees' offsets.
    pub(super) trees: u64,
}

/// Numbers of the words that are read: `pcHeader`, the pointer of `funcnametab`, `minpc`, `text`.
const HEADER: u64 = 0;
const NAMES: u64 = 1;
const FIRST_FUNCTION: u64 = 20;
const TEXT: u64 = 22;

/// Maximum number of words with the address of the table that are tried; real programs have two or three.
const MAX_CANDIDATES: usize = 16;

impl ModuleData {
    /// Finds the `moduledata` of an object with this function table: the one that has the addresses of the table, of its
    /// names and of its first function in their places. Tables before Go 1.18 need none.
    pub(super) fn find<D: AsRef<[u8]>>(table: &GoFunctionTable<'_>, object: &Object<D>) -> Option<Self> {
        let trees = match table.version {
            Version::Go1_18 => 38,
            Version::Go1_20 => 40,
            Version::Go1_2 | Version::Go1_16 => return None,
        };
        let words = Words { object, table };
        let read = |start: u64| {
            let words = words.read(start, trees + 1)?;
            let word = |index: u64| words.get(usize::try_from(index).ok()?).copied();
            let text = word(TEXT)?;
            let is_it = word(HEADER)? == table.address
                && word(NAMES)? == table.address.wrapping_add(table.names as u64)
                && word(FIRST_FUNCTION)? == text.wrapping_add(table.entry(0, 0)?);
            is_it.then_some(Self { text, trees: word(trees)? })
        };
        words.with_table_address().into_iter().find_map(read)
    }
}

/// The words of an object's data.
struct Words<'o, D> {
    object: &'o Object<D>,
    table: &'o GoFunctionTable<'o>,
}

impl<D: AsRef<[u8]>> Words<'_, D> {
    /// Returns the addresses of words that hold the address of the table, in the file or by a relocation.
    fn with_table_address(&self) -> Vec<u64> {
        let SectionBytes { endian, pointer, .. } = self.table.bytes;
        let relocated = self.addends().filter(|&(_, addend)| addend == self.table.address);
        let mut found: Vec<u64> = relocated.map(|(address, _)| address).take(MAX_CANDIDATES).collect();
        // Sections do not overlap, but in a hostile file.
        let mut left = self.object.data().len();
        for section in self.object.sections().iter().filter(|section| is_data(section)) {
            let Ok(data) = self.object.section_bytes(section) else { continue };
            let Some(rest) = left.checked_sub(data.len()) else { break };
            left = rest;
            let bytes = SectionBytes { data, endian, pointer };
            let starts = (0..data.len()).step_by(pointer);
            let holds = starts.filter(|&at| bytes.number(at, pointer) == Some(self.table.address));
            let room = MAX_CANDIDATES.saturating_sub(found.len());
            found.extend(holds.map(|at| section.address.0.wrapping_add(at as u64)).take(room));
        }
        found
    }

    /// Returns `count` words from `start` on, as they are when the program runs at its stated addresses.
    fn read(&self, start: u64, count: u64) -> Option<Vec<u64>> {
        let SectionBytes { endian, pointer, .. } = self.table.bytes;
        let bytes = SectionBytes { data: self.object.bytes_at(Svma(start))?, endian, pointer };
        let words = (0..usize::try_from(count).ok()?).map(|index| bytes.number(index * pointer, pointer));
        let mut words: Vec<u64> = words.collect::<Option<_>>()?;
        for (address, addend) in self.addends() {
            let offset = usize::try_from(address.wrapping_sub(start)).unwrap_or(usize::MAX);
            if offset.is_multiple_of(pointer)
                && let Some(word) = words.get_mut(offset / pointer)
            {
                *word = addend;
            }
        }
        Some(words)
    }

    /// Returns the addresses of words that get an address when the object is loaded, each with the stated one.
    fn addends(&self) -> impl Iterator<Item = (u64, u64)> {
        let sections = self.object.sections().iter();
        let relocations =
            sections.flat_map(|section| self.object.relocations(section)).take(MAX_TABLE_ENTRIES);
        relocations
            .filter(|relocation| relocation.symbol == 0)
            .filter_map(|relocation| Some((relocation.address.0, u64::try_from(relocation.addend?).ok()?)))
    }
}

fn is_data(section: &Section) -> bool {
    section.name.ends_with(b"data")
        || section.name.starts_with(b".data.rel.ro")
        || section.name.starts_with(b".go.module")
}
