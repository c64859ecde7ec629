//! Code objects (`PyCodeObject`): the functions of a program.

use std::sync::Arc;

use memory::Reader;
use model::BLOCK_BYTES;

use crate::layout::{FrameSize, Layout};
use crate::lines::Lines;
use crate::misses::Misses;
use crate::text;

/// A function of a Python program.
#[derive(PartialEq, Eq, Hash, Debug)]
pub struct PythonFunction {
    /// The path of its source file, as the program states it.
    pub file: String,
    /// `co_qualname`: `Class.method`, `<module>`.
    pub name: String,
    /// The first line of the function; 0 where the program states none.
    pub first_line: u32,
    /// The last line of the function; at least the first.
    pub last_line: u32,
}

impl PythonFunction {
    /// Returns true for the code through which the interpreter calls `__init__` of a class (`_Py_InitCleanup`, since 3.12): no traceback
    /// of Python shows it.
    pub(crate) fn is_interpreters_own(&self) -> bool {
        self.file == "__init__" && self.name == "__init__"
    }
}

/// The maximum number of bytes of bytecode. The largest functions that generators of parsers write have a megabyte.
const MAX_BYTECODE_BYTES: u64 = 4 << 20;
/// The maximum number of bytes of a location table; lines behind are not known.
const MAX_LINE_TABLE_BYTES: u64 = 128 << 10;
/// The maximum number of copies of one bytecode that are known: as many threads as run it.
const MAX_COPIES_OF_BYTECODE: u64 = 1024;

/// A code object, as it was when it was read.
#[derive(Debug)]
pub(crate) struct Code {
    /// The address of the object (Avma).
    pub(crate) object: u64,
    /// The address of its bytecode (Avma).
    pub(crate) bytecode: u64,
    /// The size of its bytecode in bytes.
    pub(crate) size: u64,
    /// The size of a frame of it in bytes.
    pub(crate) frame_bytes: u64,
    identity: Identity,
    pub(crate) function: Arc<PythonFunction>,
    lines: Lines,
}

/// The fields that tell a code object from another one which lies at its address later.
#[derive(PartialEq, Eq, Debug)]
struct Identity {
    units: u64,
    file: u64,
    name: u64,
    line_table: u64,
    first_line: u32,
}

/// The facts by which code objects of a process are told from other memory.
#[derive(Clone, Copy)]
pub(crate) struct CodeReader<'l> {
    pub(crate) layout: &'l Layout,
    /// The address of `PyCode_Type` (Avma).
    pub(crate) code_type: u64,
    /// The address of `PyUnicode_Type` (Avma).
    pub(crate) text_type: u64,
}

impl CodeReader<'_> {
    /// Reads the code object at `object`; `None` where there is none.
    pub(crate) fn read(self, reader: &mut Reader<'_>, object: u64) -> Option<Code> {
        let layout = self.layout;
        let identity = self.identity(reader, object)?;
        let file = text::read(reader, layout, self.text_type, identity.file)?;
        let name = text::read(reader, layout, self.text_type, identity.name)?;
        let table_size = reader.word(identity.line_table.checked_add(layout.variable_size)?)?;
        let mut table = vec![0; table_size.min(MAX_LINE_TABLE_BYTES) as usize];
        if !reader.read(identity.line_table.checked_add(layout.bytes_data)?, &mut table) {
            return None;
        }
        let first_line = identity.first_line;
        let lines = Lines::parse(&table, first_line);
        let (first, last) = lines.range().unwrap_or((first_line, first_line));
        let first = first.min(first_line);
        let function = Arc::new(PythonFunction {
            file,
            name,
            first_line: first,
            last_line: last.clamp(first, first.saturating_add(memory::MAX_LINES)),
        });
        let bytecode = object.checked_add(layout.code.bytecode)?;
        let frame_bytes = self.frame_bytes(reader, object)?;
        Some(Code { object, bytecode, size: identity.units * 2, frame_bytes, identity, function, lines })
    }

    fn frame_bytes(self, reader: &mut Reader<'_>, object: u64) -> Option<u64> {
        let mut number =
            |offset| Some(u64::from(u32::from_le_bytes(reader.array(object.checked_add(offset)?)?)));
        let words = match self.layout.code.frame_size {
            FrameSize::Sum { locals, stack, words } => number(locals)? + number(stack)? + words,
            FrameSize::Words(offset) => number(offset)?,
        };
        Some(8 * words)
    }

    /// Returns true if there is an object at `object` whose type is that of code objects.
    pub(crate) fn is_code(self, reader: &mut Reader<'_>, object: u64) -> bool {
        // Objects lie at multiples of 8.
        let kind = object.checked_add(self.layout.object_type).filter(|_| object.is_multiple_of(8));
        kind.and_then(|kind| reader.word(kind)) == Some(self.code_type)
    }

    /// Returns true if threads run copies of bytecode.
    pub(crate) fn has_copies(self) -> bool {
        self.layout.code.thread_bytecode.is_some()
    }

    fn identity(self, reader: &mut Reader<'_>, object: u64) -> Option<Identity> {
        let code = &self.layout.code;
        if !self.is_code(reader, object) {
            return None;
        }
        object.checked_add(code.bytecode)?.checked_add(MAX_BYTECODE_BYTES)?;
        let mut field = |offset| reader.word(object + offset);
        let units =
            field(self.layout.variable_size).filter(|units| (1..=MAX_BYTECODE_BYTES / 2).contains(units))?;
        let (file, name) = (field(code.file)?, field(code.qualified_name)?);
        let line_table = field(code.line_table)?;
        let first_line = i32::from_le_bytes(reader.array(object + code.first_line)?);
        Some(Identity { units, file, name, line_table, first_line: u32::try_from(first_line).unwrap_or(0) })
    }

    /// Returns the addresses of the copies of its bytecode that threads have (`_PyCodeArray`). Its first entry is the bytecode in the object.
    pub(crate) fn copies(self, reader: &mut Reader<'_>, code: &Code) -> Vec<u64> {
        let field = self.layout.code.thread_bytecode;
        let Some(array) = field.and_then(|field| reader.word(code.object.checked_add(field)?)) else {
            return Vec::new();
        };
        let count = reader.word(array).unwrap_or(0).min(MAX_COPIES_OF_BYTECODE);
        let entries = (1..=count).map_while(|number| reader.word(array.checked_add(8 * number)?));
        entries.filter(|copy| *copy != 0 && *copy != code.bytecode).collect()
    }

    /// Returns false if something else than `code` is at its address now. Of a process that has ended nobody knows.
    pub(crate) fn is_unchanged(self, reader: &mut Reader<'_>, code: &Code) -> bool {
        let is_readable = reader.word(code.object + self.layout.object_type).is_some();
        !is_readable || self.identity(reader, code.object).as_ref() == Some(&code.identity)
    }

    /// Finds the code object whose bytecode ends at or behind `pointer`, by the memory before it, up to a distance of `most` bytes. Leaves
    /// out the blocks in `blank`, and adds those in which none begins.
    pub(crate) fn find(
        self,
        reader: &mut Reader<'_>,
        pointer: u64,
        most: u64,
        blank: &mut Misses,
    ) -> Option<Code> {
        let kind = self.layout.object_type;
        // The fields that may be the type of its object lie below this.
        let mut end = (pointer.checked_sub(self.layout.code.bytecode)? & !7).checked_add(kind + 8)?;
        let least = end.saturating_sub(most);
        let mut buffer = [0; BLOCK_BYTES as usize];
        while end > least {
            let start = (end - 1) & !(BLOCK_BYTES - 1);
            if blank.contains(start) {
                end = start;
                continue;
            }
            let block = buffer.get_mut(..(end - start) as usize)?;
            if !reader.read(start, block) {
                return None;
            }
            let words = block.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word));
            if let Some(back) = words.rev().position(|word| word == self.code_type) {
                // A function ends before the next one begins: those further away do not reach to here.
                let object = end.checked_sub(8 * (back as u64 + 1) + kind)?;
                return self.read(reader, object).filter(|code| code.has_executed(pointer));
            }
            if end - start == BLOCK_BYTES {
                blank.insert(start);
            }
            end = start;
        }
        None
    }
}

impl Code {
    /// Returns true if the instruction before an address is of this function. The interpreter's pointer is at the next instruction.
    pub(crate) fn has_executed(&self, next: u64) -> bool {
        next.checked_sub(self.bytecode).is_some_and(|offset| (1..=self.size).contains(&offset))
    }

    /// Returns the line of the instruction at an address, or the function's first one where that has none.
    pub(crate) fn line_at(&self, address: u64) -> u32 {
        let line = address.checked_sub(self.bytecode).and_then(|offset| self.lines.at(offset));
        let PythonFunction { first_line, last_line, .. } = *self.function;
        line.unwrap_or(first_line).clamp(first_line, last_line)
    }

    /// Returns the number of bytes that it takes in memory, about.
    pub(crate) fn size_in_memory(&self) -> usize {
        let names = self.function.file.len() + self.function.name.len();
        size_of::<Self>() + size_of::<PythonFunction>() + names + self.lines.size()
    }
}
