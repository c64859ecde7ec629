//! The string tables that hold the names of functions, in the files that describe an object.

use elf::SymbolSource;

use crate::gopclntab;
use crate::object_files::ObjectFiles;

/// The string table that holds a name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum StringTable {
    /// The strings of the object's `.symtab`.
    Object,
    /// The strings of the debug file's `.symtab`.
    Debug,
    /// The strings of the `.symtab` in `.gnu_debugdata`.
    Minidebug,
    /// The strings of the object's `.dynsym`.
    Dynamic,
    /// `.gopclntab`, which holds names among other things.
    Go,
}

/// A reference to the name of a function in a string table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FunctionName {
    pub(crate) strings: StringTable,
    /// The offset of its first byte in the table.
    pub(crate) offset: u32,
    /// True for a stub that jumps to the function of this name in another object. It is shown as `name@plt`.
    pub(crate) is_plt: bool,
}

/// The number of string tables.
const TABLES: usize = StringTable::Go as usize + 1;

/// The contents of all string tables of an object.
pub(crate) struct StringTables<'a>([&'a [u8]; TABLES]);

impl<'a> StringTables<'a> {
    pub(crate) fn new<D: AsRef<[u8]>>(files: &ObjectFiles<'a, D>) -> Self {
        let full = |file: Option<&'a elf::Object<D>>| {
            file.map(|file| file.symbol_strings(SymbolSource::Full)).unwrap_or_default()
        };
        Self([
            full(Some(files.object)),
            full(files.debug),
            full(files.minidebug),
            files.object.symbol_strings(SymbolSource::Dynamic),
            gopclntab::TableBytes::of_object(files.object).map(|table| table.data).unwrap_or_default(),
        ])
    }

    /// Returns a name without its NUL; empty where its offset lies outside of the table.
    pub(crate) fn name(&self, name: FunctionName) -> &'a [u8] {
        let strings = self.0.get(name.strings as usize).copied().unwrap_or_default();
        elf::name_at(strings, name.offset as usize)
    }

    #[cfg(test)]
    pub(crate) fn with_table(kind: StringTable, strings: &'a [u8]) -> Self {
        let mut names = Self([&[]; TABLES]);
        names.0[kind as usize] = strings;
        names
    }
}
