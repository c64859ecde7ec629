//! The files that describe one object.

use elf::{Object, SymbolSource};

use crate::gopclntab::GoFunctionTable;

/// Size from which the symbol tables of an object are large, in bytes: 44,000 symbols. Building tables, each time that others had displaced
/// them, took a third of the CPU time of `prof watch` beside builds.
const LARGE_TABLES_BYTES: u64 = 1 << 20;

/// The files that describe one object. All but the first are optional. The caller has to check that they belong to
/// the object.
pub struct ObjectFiles<'a, D> {
    /// The object that was mapped.
    pub object: &'a Object<D>,
    /// Its separate debug file (build-id folder, `.gnu_debuglink`, debuginfod).
    pub debug: Option<&'a Object<D>>,
    /// The object in its `.gnu_debugdata`: see [`crate::minidebug`].
    pub minidebug: Option<&'a Object<D>>,
    /// The file that `.gnu_debugaltlink` (of the debug file, else of the object) names.
    pub supplementary: Option<&'a Object<D>>,
    /// The package that holds its split units (`.dwp`).
    pub package: Option<&'a Object<D>>,
}

impl<'a, D: AsRef<[u8]>> ObjectFiles<'a, D> {
    /// Returns true if the object has full symbol tables, and so large ones that it is better to look through them for some addresses than to
    /// keep all functions ([`crate::ObjectIndex::without_symbols`]).
    pub fn has_large_tables(&self) -> bool {
        let files = || [Some(self.object), self.debug, self.minidebug].into_iter().flatten();
        let sections = files()
            .flat_map(|file| file.sections())
            .filter(|section| matches!(&*section.name, b".symtab" | b".dynsym"));
        sections.map(|section| section.size).fold(0, u64::saturating_add) >= LARGE_TABLES_BYTES
            && [Some(self.object), self.debug]
                .into_iter()
                .flatten()
                .any(|file| file.has_symbols(SymbolSource::Full))
    }

    /// Returns true if the files may tell more of an address than its symbol: they have debug information, or a table of Go's runtime.
    pub fn has_more_than_symbols(&self) -> bool {
        [Some(self.object), self.debug].into_iter().flatten().any(|file| file.has_contents(".debug_info"))
            || GoFunctionTable::of_object(self.object).is_some()
    }

    /// Returns the number to add to an address of `file` to get the address in the object. It is not 0 where
    /// prelink(8) moved the object after `file` was split off.
    pub(crate) fn bias_of(&self, file: &Object<D>) -> u64 {
        match (self.object.section(".text"), file.section(".text")) {
            (Some(text), Some(file_text)) => text.address.0.wrapping_sub(file_text.address.0),
            _ => 0,
        }
    }
}
