//! What the file of a program or library with V8 says about it.

use std::ops::Range;

use elf::{Object, ReadAt, SymbolSource, SymbolTable, may_export};
use model::Svma;

use crate::layout::{Constants, Layout, MAX_CONSTANTS, PREFIX};

/// An object file with V8, as Node.js 18 to 24 have it.
#[derive(Debug)]
pub struct V8 {
    pub(crate) layout: Layout,
    /// Built-ins through which interpreted functions run: their frames are those of the functions. By address.
    entries: Vec<Range<Svma>>,
    /// Built-ins that execute one bytecode each. By address.
    handlers: Vec<Range<Svma>>,
}

/// The part that code of V8's file plays on a stack.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CodeRole {
    /// Its frame may be that of an interpreted function.
    InterpreterEntry,
    /// It executes one bytecode of an interpreted function, which lies outside of it on the stack.
    BytecodeHandler,
    /// It is any other function.
    Other,
}

/// `builtins-definitions.h`: `InterpreterEntryTrampoline`, `InterpreterEnterAtBytecode`, `BaselineOrInterpreterEnterAtNextBytecode`, and so on.
const ENTRIES: [&[u8]; 2] = [b"Builtins_InterpreterEnt", b"Builtins_BaselineOrInterpreterEnt"];
/// No object with V8 has less code, in bytes: Node.js 18 has 25 MiB. Others are not looked through for symbols.
const MIN_CODE_BYTES: u64 = 4 << 20;
/// A constant that all releases export.
const EXPORTED: &[u8] = b"v8dbg_SmiTag";
const HANDLER_START: &[u8] = b"Builtins_";
const HANDLER_END: &[u8] = b"Handler";

impl V8 {
    /// Reads what an object says; `None` where it has no V8, or one of another layout. The symbols of built-ins are local: strip(1) takes
    /// them away, and the constants not.
    pub fn from_object<D: ReadAt>(object: &Object<D>) -> Option<Self> {
        let code = object.segments().iter().filter(|segment| segment.executable);
        if !object.is_64() || code.map(|segment| segment.file_size).max().unwrap_or(0) < MIN_CODE_BYTES {
            return None;
        }
        if !may_export(object, EXPORTED) {
            return None;
        }
        // Those that debuggers read are exported. Nothing else is looked at in an object without any.
        let exported = SymbolTable::read(object, SymbolSource::Dynamic)?;
        let mut constants = Constants::default();
        let mut add = |table: &SymbolTable| {
            for symbol in table.iter() {
                if let Some(name) = symbol.name().strip_prefix(PREFIX)
                    && constants.0.len() < MAX_CONSTANTS
                    && let Ok(name) = std::str::from_utf8(name)
                {
                    let offset = object.file_offset_of(symbol.address);
                    // Variables that are 0 need no place in the file.
                    let bytes = offset.and_then(|offset| object.source().array(offset.0)).unwrap_or_default();
                    constants.0.insert(name.to_owned(), i32::from_le_bytes(bytes));
                }
            }
        };
        add(&exported);
        if constants.0.is_empty() {
            return None;
        }
        let layout = Layout::new(&constants)?;
        let (mut entries, mut handlers) = (Vec::new(), Vec::new());
        if let Some(table) = SymbolTable::read(object, SymbolSource::Full) {
            for symbol in table.iter().filter(|symbol| symbol.size > 0) {
                let (name, start) = (symbol.name(), symbol.address);
                let range = start..Svma(start.0.saturating_add(symbol.size));
                if ENTRIES.iter().any(|entry| name.starts_with(entry)) {
                    entries.push(range);
                } else if name.starts_with(HANDLER_START) && name.ends_with(HANDLER_END) {
                    handlers.push(range);
                }
            }
        }
        for ranges in [&mut entries, &mut handlers] {
            ranges.sort_unstable_by_key(|range| range.start);
            ranges.dedup();
        }
        Some(Self { layout, entries, handlers })
    }

    /// Returns the role of code, by its address in the file. In a stripped file any code may be that of a built-in.
    pub fn role(&self, address: Svma) -> CodeRole {
        let is_in = |ranges: &[Range<Svma>]| {
            let index = ranges.partition_point(|range| range.end <= address);
            ranges.get(index).is_some_and(|range| range.contains(&address))
        };
        if self.entries.is_empty() || is_in(&self.entries) {
            CodeRole::InterpreterEntry
        } else if is_in(&self.handlers) {
            CodeRole::BytecodeHandler
        } else {
            CodeRole::Other
        }
    }

    /// Returns true if the code of each built-in is known by its symbol.
    pub fn has_symbols(&self) -> bool {
        !self.entries.is_empty()
    }
}

#[cfg(test)]
impl V8 {
    /// Returns one whose built-ins are known.
    pub(crate) fn for_tests(layout: Layout) -> Self {
        Self { layout, entries: vec![Svma(0)..Svma(1)], handlers: Vec::new() }
    }
}
