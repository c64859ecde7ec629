//! From places in an object file to variables.

use elf::Object;
use model::{Frame, Reason, Resolution, Symbolized};

use crate::names::NameTable;
use crate::object::{ObjectFiles, Options, Place};
use crate::strings::Names;
use crate::symbol_table::SymbolTable;

/// Finds the variables of one object. Constants of a function lie beside its code: functions are found, too.
pub struct DataSymbolizer<'a, D> {
    object: &'a Object<D>,
    symbols: SymbolTable,
    strings: Names<'a>,
    options: Options,
}

impl<'a, D: AsRef<[u8]>> DataSymbolizer<'a, D> {
    /// Reads symbol tables.
    pub fn new(files: &ObjectFiles<'a, D>, options: Options) -> Self {
        let (symbols, strings) = (SymbolTable::with_data(files), Names::new(files));
        Self { object: files.object, symbols, strings, options }
    }

    /// The variable at each of the places.
    pub fn resolve(&self, places: &[Place]) -> Vec<Resolution> {
        let names = NameTable::new(self.options.names);
        places.iter().map(|place| self.resolve_one(place, &names)).collect()
    }

    fn resolve_one(&self, place: &Place, names: &NameTable) -> Resolution {
        let Some(address) = self.object.svma_of_data(place.found) else {
            return Resolution::Unresolved(Reason::NoSegmentCovers);
        };
        let symbol = self.symbols.find(address, &self.strings).and_then(|id| self.symbols.get(id));
        let Some(symbol) = symbol else {
            let none = self.symbols.is_empty();
            return Resolution::Unresolved(if none { Reason::NoSymbols } else { Reason::NoSymbolCovers });
        };
        let name = names.display(self.strings.of(symbol.name));
        let frame = Frame { function: name, location: None, inlined: false };
        let symbol_offset = address.0.checked_sub(symbol.start);
        Resolution::Resolved(Symbolized { frames: [frame].into(), symbol_offset })
    }
}
