//! Resolves data addresses in an object file to variables.

use elf::Object;
use model::{FileOffset, Frame, Reason, Resolution, Svma, Symbolized};

use crate::names::NameTable;
use crate::object::{LookupAddress, Options};
use crate::object_files::ObjectFiles;
use crate::string_tables::StringTables;
use crate::symbol_table::SymbolTable;

/// Symbolizes data addresses of one object. Finds functions as well as variables, because constants of a function may
/// lie beside its code.
pub struct DataSymbolizer<'a, D> {
    object: &'a Object<D>,
    symbols: SymbolTable,
    strings: StringTables<'a>,
    options: Options,
}

impl<'a, D: AsRef<[u8]>> DataSymbolizer<'a, D> {
    /// Reads the symbol tables.
    pub fn new(files: &ObjectFiles<'a, D>, options: Options) -> Self {
        let (symbols, strings) = (SymbolTable::with_data(files), StringTables::new(files));
        Self { object: files.object, symbols, strings, options }
    }

    /// Resolves each address to the variable that covers it, in their order.
    pub fn resolve(&self, wanted: &[LookupAddress]) -> Vec<Resolution> {
        let names = NameTable::new(self.options.names);
        wanted.iter().map(|wanted| self.resolve_one(wanted.address, &names)).collect()
    }

    fn resolve_one(&self, offset: FileOffset, names: &NameTable) -> Resolution {
        let Some(address) = self.object.svma_of_data(offset) else {
            return Resolution::Unresolved(Reason::NoSegmentCovers);
        };
        self.at(address, names)
    }

    /// Resolves an address of memory that nothing is mapped of, such as that of a variable without a value in the file: it lies `distance`
    /// bytes behind the place where the code at an offset of the file is.
    pub fn resolve_behind(&self, code: FileOffset, distance: u64) -> Resolution {
        match self.object.svma_of(code).and_then(|code| code.checked_add(distance)) {
            Some(address) => self.at(address, &NameTable::new(self.options.names)),
            None => Resolution::Unresolved(Reason::NoSegmentCovers),
        }
    }

    fn at(&self, address: Svma, names: &NameTable) -> Resolution {
        let symbol = self.symbols.find(address, &self.strings).and_then(|id| self.symbols.get(id));
        let Some(symbol) = symbol else {
            let none = self.symbols.is_empty();
            return Resolution::Unresolved(if none { Reason::NoSymbols } else { Reason::NoSymbolCovers });
        };
        let name = names.display(self.strings.name(symbol.name()));
        let frame = Frame { function: name, location: None, inlined: false };
        let symbol_offset = address.0.checked_sub(symbol.start);
        Resolution::Resolved(Symbolized { frames: [frame].into(), symbol_offset })
    }
}
