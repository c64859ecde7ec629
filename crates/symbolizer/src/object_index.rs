//! What is worth keeping of an object between two lots of places: its symbols in order, the names that were shown, and
//! which units of its debug information cover what; and what had to be unpacked.

use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use elf::SymbolSource;
use rustc_hash::FxHashMap;

use crate::dwarf::{UnitRanges, Unpacked, Walks};
use crate::gopclntab::Table as GoTable;
use crate::names::{NameStyle, NameTable};
use crate::object::ObjectFiles;
use crate::strings::Names;
use crate::symbol_table::{FunctionId, SymbolTable};

/// The index of an object: its symbols and functions. Holds nothing of its files, but means nothing without them:
/// each
/// [`crate::ObjectSymbolizer`] that uses it is given the same ones.
pub struct ObjectIndex {
    pub(crate) symbols: SymbolTable,
    /// True if no file has a full symbol table.
    pub(crate) is_stripped: bool,
    /// True if what a Go program knows itself stands in for its symbols.
    pub(crate) has_go_functions: bool,
    /// Of the debug information, when it has been asked for.
    pub(crate) units: OnceLock<UnitRanges>,
    /// The walks of units that have been read.
    pub(crate) walks: Walks,
    /// Of the file with the debug information.
    pub(crate) unpacked: Unpacked,
    /// Of the supplementary file.
    pub(crate) supplementary_unpacked: Unpacked,
    /// All names that were shown.
    pub(crate) names: NameTable,
    /// Those of functions.
    shown: Mutex<FxHashMap<FunctionId, Arc<str>>>,
}

impl ObjectIndex {
    /// Reads symbol tables. Names are given in `style`.
    pub fn new<D: AsRef<[u8]>>(files: &ObjectFiles<'_, D>, style: NameStyle) -> Self {
        let is_stripped = ![Some(files.object), files.debug]
            .into_iter()
            .flatten()
            .any(|file| file.has_symbols(SymbolSource::Full));
        // What a Go program knows of itself stands in for the symbols of a stripped one.
        let go = if is_stripped { GoTable::of_object(files.object) } else { None };
        let go = go.map(|table| table.functions()).unwrap_or_default();
        Self {
            symbols: SymbolTable::new(files, &go),
            is_stripped,
            has_go_functions: !go.is_empty(),
            units: OnceLock::new(),
            walks: Walks::default(),
            unpacked: Unpacked::default(),
            supplementary_unpacked: Unpacked::default(),
            names: NameTable::new(style),
            shown: Mutex::default(),
        }
    }

    /// The bytes of memory that it has besides its own, about.
    pub fn memory(&self) -> usize {
        // A panic elsewhere does not make the table wrong.
        let shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner).capacity();
        self.symbols.memory()
            + self.units.get().map_or(0, UnitRanges::memory)
            + self.walks.memory()
            + self.unpacked.memory()
            + self.supplementary_unpacked.memory()
            + self.names.memory()
            + shown * size_of::<(FunctionId, Arc<str>)>()
    }

    /// Returns the number of names that were longer than [`model::Name::MAX_BYTES`], and are shown in part.
    pub fn cut_names(&self) -> usize {
        self.names.cut()
    }

    /// Returns true if there were more functions than are kept of one object.
    pub fn has_too_many_symbols(&self) -> bool {
        self.symbols.is_cut()
    }

    /// Gives up sections that were unpacked: most of what there is of an object with packed debug information, and made
    /// again when it is needed.
    pub fn forget_unpacked(&self) {
        self.unpacked.clear();
        self.supplementary_unpacked.clear();
    }

    /// The name of a function as it is shown: made once.
    pub(crate) fn shown(&self, id: FunctionId, names: &Names<'_>) -> Option<Arc<str>> {
        let name = self.symbols.get(id)?.name;
        // A panic elsewhere does not make the table wrong.
        match self.shown.lock().unwrap_or_else(PoisonError::into_inner).entry(id) {
            Entry::Occupied(known) => Some(Arc::clone(known.get())),
            Entry::Vacant(slot) => {
                let bytes = names.of(name);
                let shown = if name.is_plt {
                    // Of a versioned name (`memcpy@@GLIBC_2.14`) the version says nothing here.
                    let base = bytes.split(|&byte| byte == b'@').next().unwrap_or(bytes);
                    self.names.display(&[base, b"@plt"].concat())
                } else {
                    self.names.display(bytes)
                };
                Some(Arc::clone(slot.insert(shown)))
            }
        }
    }
}
