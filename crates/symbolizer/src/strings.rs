//! Where the names of functions are written: string tables of the files that describe an object.

use elf::SymbolSource;

use crate::gopclntab;
use crate::object::ObjectFiles;
use crate::symbol_table::FunctionName;

/// The string table that a name is in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Strings {
    /// That of the object's `.symtab`.
    Object,
    /// That of its debug file's.
    Debug,
    /// That of its `.gnu_debugdata`'s.
    Minidebug,
    /// That of the object's `.dynsym`.
    Dynamic,
    /// `.gopclntab`, which has names among other things.
    Go,
}

/// The number of kinds.
const KINDS: usize = Strings::Go as usize + 1;

/// The string tables.
pub(crate) struct Names<'a>([&'a [u8]; KINDS]);

impl<'a> Names<'a> {
    pub(crate) fn new<D: AsRef<[u8]>>(files: &ObjectFiles<'a, D>) -> Self {
        let full = |file: Option<&'a elf::Object<D>>| {
            file.map(|file| file.symbol_strings(SymbolSource::Full)).unwrap_or_default()
        };
        Self([
            full(Some(files.object)),
            full(files.debug),
            full(files.minidebug),
            files.object.symbol_strings(SymbolSource::Dynamic),
            gopclntab::section(files.object).map(|(_, data)| data).unwrap_or_default(),
        ])
    }

    /// The name, up to its NUL; empty where the strings do not have it.
    pub(crate) fn of(&self, name: FunctionName) -> &'a [u8] {
        let strings = self.0.get(name.strings as usize).copied().unwrap_or_default();
        elf::name_at(strings, name.offset as usize)
    }

    #[cfg(test)]
    pub(crate) fn of_strings(kind: Strings, strings: &'a [u8]) -> Self {
        let mut names = Self([&[]; KINDS]);
        names.0[kind as usize] = strings;
        names
    }
}
