//! From places in an object file to variables.

use elf::Object;
use model::{Frame, Reason, Resolution, Symbolized};

use crate::names::NameTable;
use crate::object::{ObjectFiles, Options, Place};
use crate::symbol_table::{FunctionName, SymbolTable};

/// Finds the variables of one object. Constants of a function lie beside its code: functions are found, too.
pub struct DataSymbolizer<'a, D> {
    object: &'a Object<D>,
    symbols: SymbolTable<'a>,
    options: Options,
}

impl<'a, D: AsRef<[u8]>> DataSymbolizer<'a, D> {
    /// Reads symbol tables.
    pub fn new(files: &ObjectFiles<'a, D>, options: Options) -> Self {
        let tables = files.symbol_tables().into_iter().map(|table| table.with_data());
        Self { object: files.object, symbols: SymbolTable::new(tables, Vec::new(), Vec::new()), options }
    }

    /// The variable at each of the places.
    pub fn resolve(&self, places: &[Place]) -> Vec<Resolution> {
        let mut names = NameTable::new(self.options.names);
        places.iter().map(|place| self.resolve_one(place, &mut names)).collect()
    }

    fn resolve_one(&self, place: &Place, names: &mut NameTable) -> Resolution {
        let Some(address) = self.object.svma_of_data(place.found) else {
            return Resolution::Unresolved(Reason::NoSegmentCovers);
        };
        let Some(symbol) = self.symbols.find(address) else {
            let none = self.symbols.is_empty();
            return Resolution::Unresolved(if none { Reason::NoSymbols } else { Reason::NoSymbolCovers });
        };
        let (FunctionName::Symbol(name) | FunctionName::Plt(name)) = symbol.name;
        let frame = Frame { function: names.display(name), location: None, inlined: false };
        let symbol_offset = address.0.checked_sub(symbol.start);
        Resolution::Resolved(Symbolized { frames: vec![frame], symbol_offset })
    }
}
