//! The index of an object, which a caller keeps to resolve more addresses later: its symbols, names that were
//! demangled, the address ranges of its units, and unpacked debug sections.

use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use elf::SymbolSource;
use rustc_hash::FxHashMap;

use crate::dwarf::{UnitRanges, UnitWalks, Unpacked};
use crate::gopclntab::GoFunctionTable;
use crate::names::{NameStyle, NameTable};
use crate::object_files::ObjectFiles;
use crate::string_tables::{FunctionName, StringTables};
use crate::symbol_table::{FunctionId, SymbolTable};

/// The index of an object: its symbols, names and units. It holds no reference to the object's files, but is valid with
/// the same files only: each [`crate::ObjectSymbolizer`] that uses it needs them.
pub struct ObjectIndex {
    pub(crate) symbols: SymbolTable,
    /// True if it holds no symbols though there are some.
    pub(crate) leaves_symbols_out: bool,
    /// True if no file has a full symbol table.
    pub(crate) is_stripped: bool,
    /// True if the functions of `.gopclntab` replace the symbols of a stripped Go program.
    pub(crate) has_go_functions: bool,
    /// The address ranges of the units, read on the first use of the debug information.
    pub(crate) units: OnceLock<UnitRanges>,
    /// The walks of units, with the positions of functions.
    pub(crate) walks: UnitWalks,
    /// Unpacked sections of the file with the debug information.
    pub(crate) unpacked: Unpacked,
    /// Unpacked sections of the supplementary file.
    pub(crate) supplementary_unpacked: Unpacked,
    /// All names that were resolved.
    pub(crate) names: NameTable,
    /// The names of functions that were resolved.
    shown: Mutex<FxHashMap<FunctionId, Arc<str>>>,
}

impl ObjectIndex {
    /// Makes an index that holds no symbols: each [`crate::ObjectSymbolizer`] looks through the tables for those that it needs. For large
    /// objects with full symbol tables ([`ObjectFiles::has_large_tables`]), where memory matters and addresses are few.
    pub fn without_symbols(style: NameStyle) -> Self {
        Self { leaves_symbols_out: true, ..Self::with_symbols(SymbolTable::default(), style) }
    }

    fn with_symbols(symbols: SymbolTable, style: NameStyle) -> Self {
        Self {
            symbols,
            leaves_symbols_out: false,
            is_stripped: false,
            has_go_functions: false,
            units: OnceLock::new(),
            walks: UnitWalks::default(),
            unpacked: Unpacked::default(),
            supplementary_unpacked: Unpacked::default(),
            names: NameTable::new(style),
            shown: Mutex::default(),
        }
    }

    /// Reads the symbol tables. `style` is the style of all names.
    pub fn new<D: AsRef<[u8]>>(files: &ObjectFiles<'_, D>, style: NameStyle) -> Self {
        let is_stripped = ![Some(files.object), files.debug]
            .into_iter()
            .flatten()
            .any(|file| file.has_symbols(SymbolSource::Full));
        let go = if is_stripped { GoFunctionTable::of_object(files.object) } else { None };
        let go = go.map(|table| table.functions()).unwrap_or_default();
        Self {
            is_stripped,
            has_go_functions: !go.is_empty(),
            ..Self::with_symbols(SymbolTable::new(files, &go), style)
        }
    }

    /// Estimates the memory that the index has on the heap, in bytes.
    pub fn memory_bytes(&self) -> usize {
        // The table is consistent even if another thread panicked while it held the lock.
        let shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner).capacity();
        self.symbols.memory_bytes()
            + self.units.get().map_or(0, UnitRanges::memory_bytes)
            + self.walks.memory_bytes()
            + self.unpacked.memory_bytes()
            + self.supplementary_unpacked.memory_bytes()
            + self.names.memory_bytes()
            + shown * size_of::<(FunctionId, Arc<str>)>()
    }

    /// Returns the number of names that were cut because they are longer than [`model::Name::MAX_BYTES`].
    pub fn cut_names(&self) -> usize {
        self.names.cut()
    }

    /// Returns true if the object has more functions than the index holds, and some were left out.
    pub fn has_too_many_symbols(&self) -> bool {
        self.symbols.is_cut()
    }

    /// Releases the unpacked sections, which are unpacked again on their next use. They are most of the memory of an object
    /// with compressed debug sections.
    pub fn release_unpacked(&self) {
        self.unpacked.clear();
        self.supplementary_unpacked.clear();
    }

    /// Returns the name of a function in the style of the index. Each name is made once.
    pub(crate) fn shown(&self, id: FunctionId, names: &StringTables<'_>) -> Option<Arc<str>> {
        let name = self.symbols.get(id)?.name();
        // The table is consistent even if another thread panicked while it held the lock.
        match self.shown.lock().unwrap_or_else(PoisonError::into_inner).entry(id) {
            Entry::Occupied(known) => Some(Arc::clone(known.get())),
            Entry::Vacant(slot) => Some(Arc::clone(slot.insert(self.display(name, names)))),
        }
    }

    /// Returns a function's name in the style of the index.
    pub(crate) fn display(&self, name: FunctionName, names: &StringTables<'_>) -> Arc<str> {
        let bytes = names.name(name);
        if name.is_plt {
            // `memcpy@plt` for the versioned name `memcpy@@GLIBC_2.14`.
            let base = bytes.split(|&byte| byte == b'@').next().unwrap_or(bytes);
            self.names.display(&[base, b"@plt"].concat())
        } else {
            self.names.display(bytes)
        }
    }
}
