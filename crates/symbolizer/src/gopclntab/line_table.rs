//! Source lines and inlined calls from the tables that Go's runtime uses for stack traces.
//!
//! A function's description refers to tables of values by address: the number of the source file, the line, and the
//! index in its tree of inlined calls (Go's `src/runtime/symtab.go`, `pcvalue`, and `src/runtime/symtabinl.go`). The
//! tree lies in read-only data, at an offset from an address that only the runtime's [`ModuleData`](super::ModuleData) has.

use elf::Object;
use model::{SourceLocation, Svma};

use super::section_bytes::SectionBytes;
use super::{GoFunctionTable, Version};

/// A function or inlined call that covers an address, and the location of the address or call in it.
#[derive(PartialEq, Eq, Debug)]
pub struct GoFrame<'a> {
    /// The name as the linker has it.
    pub name: &'a [u8],
    /// The file and line.
    pub location: Option<SourceLocation>,
    /// The line at which the function starts; 0 if unknown.
    pub start_line: u32,
    /// True if the compiler generated the function to call another one, which has no code of its own in the source: a method of an
    /// embedded type, a method value, a method of a value that is called by a pointer. Go's stack traces leave such functions out.
    pub is_wrapper: bool,
}

/// Looks up functions, inlined calls and lines of addresses.
pub struct GoLineTable<'a> {
    table: GoFunctionTable<'a>,
    /// The bytes of the object from the address on that the offsets of inlining trees are relative to.
    trees: Option<SectionBytes<'a>>,
    /// The kind that wrappers have, where that is known.
    wrapper: Option<u64>,
}

/// A function that Go's linker declares to be a wrapper, though it is none (Go's `src/cmd/internal/objabi/funcid.go`). The numbers of
/// kinds differ between releases; this one has that of wrappers in all.
const DECLARED_WRAPPER: &[u8] = b"runtime.deferreturn";

/// `PCDATA_InlTreeIndex` and `FUNCDATA_InlTree` (Go's `src/internal/abi/symtab.go`).
const INLINED_INDEX: usize = 2;
const INLINED_TREE: usize = 3;

/// The value that stands for "no offset".
const NO_OFFSET: u64 = u32::MAX as u64;

impl<'a> GoLineTable<'a> {
    pub(crate) fn new<D: AsRef<[u8]>>(table: GoFunctionTable<'a>, object: &'a Object<D>) -> Self {
        let trees = table.trees.and_then(|base| object.bytes_at(Svma(base)));
        let trees = trees.map(|data| SectionBytes { data, ..table.bytes });
        Self { table, trees, wrapper: None }
    }

    /// Reads the table of a Go program, by which wrappers are told from other functions, too. `None` where an object has none.
    pub fn of_object<D: AsRef<[u8]>>(object: &'a Object<D>) -> Option<Self> {
        GoFunctionTable::of_object(object).map(|table| Self::new(table, object).with_wrappers())
    }

    /// Returns where the function begins (Svma) that covers an address.
    pub fn function_start(&self, address: u64) -> Option<u64> {
        self.function(address).map(|function| function.start)
    }

    /// Finds out by what wrappers are told from other functions, which takes a look at each function.
    pub(crate) fn with_wrappers(self) -> Self {
        let table = &self.table;
        let is_declared = |index: usize| {
            let name = table.bytes.number(table.description(index)?, 4).and_then(|offset| table.name(offset));
            (name == Some(DECLARED_WRAPPER)).then(|| Function::read(table, index))?
        };
        let wrapper = (0..table.count()).find_map(is_declared).map(|function| function.kind);
        Self { wrapper, ..self }
    }

    /// Returns the frames of an address (Svma), innermost first: inlined calls, and at last the function.
    pub fn find(&self, address: u64) -> Vec<GoFrame<'a>> {
        self.function(address).map(|function| function.frames(self, address)).unwrap_or_default()
    }

    fn function(&self, address: u64) -> Option<Function> {
        let table = &self.table;
        let (mut low, mut high) = (0, table.count());
        while low < high {
            let middle = low + (high - low) / 2;
            if table.start(middle)? <= address { low = middle + 1 } else { high = middle }
        }
        let index = low.checked_sub(1)?;
        Function::read(table, index).filter(|_| table.start(low).is_some_and(|end| address < end))
    }

    /// Returns the value of an address in the value table at `offset`; `None` where the table does not cover the address.
    fn value(&self, function: &Function, offset: u64, address: u64) -> Option<i64> {
        let mut at = self.table.values.checked_add(usize::try_from(offset).ok()?)?;
        let (mut covered, mut value, mut first) = (function.start, -1_i64, true);
        // Each step reads at least two bytes, so the loop ends at the latest with the table.
        loop {
            let change = self.table.bytes.varint(&mut at)?;
            if change == 0 && !first {
                return None;
            }
            first = false;
            let sign = if change & 1 == 0 { 0 } else { -1 };
            value = value.wrapping_add(i64::from(change >> 1) ^ sign);
            let step = u64::from(self.table.bytes.varint(&mut at)?);
            covered = covered.checked_add(step.checked_mul(self.table.quantum)?)?;
            if address < covered {
                return Some(value);
            }
        }
    }

    fn location(&self, function: &Function, address: u64) -> Option<SourceLocation> {
        let line = self.value(function, function.lines, address)?;
        let number = usize::try_from(self.value(function, function.files, address)?).ok()?;
        let GoFunctionTable { bytes, version, units, files, .. } = &self.table;
        let at = if *version == Version::Go1_2 {
            let entry = files.checked_add(number.checked_mul(4)?)?;
            usize::try_from(bytes.number(entry, 4)?).ok()?
        } else {
            let unit = usize::try_from(function.unit).ok()?;
            let offset = bytes.number(units.checked_add(unit.checked_add(number)?.checked_mul(4)?)?, 4)?;
            (offset != NO_OFFSET).then(|| files.checked_add(usize::try_from(offset).ok()?))??
        };
        let file = String::from_utf8_lossy(bytes.text(at)?);
        Some(SourceLocation {
            file: file.into(),
            line: u32::try_from(line).ok()?,
            column: 0,
            discriminator: 0,
            start_line: 0,
        })
    }
}

/// The description of a function.
struct Function {
    start: u64,
    name: u64,
    /// Offsets of the value tables for file numbers, lines and indices of inlined calls.
    files: u64,
    lines: u64,
    inlined: Option<u64>,
    /// The offset of the tree of inlined calls.
    tree: Option<usize>,
    unit: u64,
    /// The line at which it starts; 0 if unknown.
    start_line: u32,
    /// The kind of function that the runtime tells apart (`funcID`).
    kind: u64,
}

impl Function {
    fn read(table: &GoFunctionTable<'_>, index: usize) -> Option<Self> {
        let at = table.description(index)?;
        let field = |number: usize| table.bytes.number(at + number * 4, 4);
        // name, args, deferreturn, pcsp, pcfile, pcln, npcdata, cuOffset (1.16), startLine (1.20), funcID, flag, …,
        // nfuncdata; then the offsets of the other tables by address and of other data.
        let tables = usize::try_from(field(6)?).ok()?;
        let fields = match table.version {
            Version::Go1_2 => 8,
            Version::Go1_16 | Version::Go1_18 => 9,
            Version::Go1_20 => 10,
        };
        let unit = if table.version == Version::Go1_2 { 0 } else { field(7)? };
        let start_line = if table.version == Version::Go1_20 { field(8)? } else { 0 };
        let last = u8::try_from(table.bytes.number(at + fields * 4 - 1, 1)?).ok()?;
        let with_tree = table.version >= Version::Go1_18 && usize::from(last) > INLINED_TREE;
        let tree = with_tree.then(|| field(fields.checked_add(tables)?.checked_add(INLINED_TREE)?)).flatten();
        let inlined = (tables > INLINED_INDEX).then(|| field(fields + INLINED_INDEX)).flatten();
        Some(Self {
            start: table.start(index)?,
            name: field(0)?,
            files: field(4)?,
            lines: field(5)?,
            inlined: inlined.filter(|&offset| offset != 0),
            tree: tree.filter(|&offset| offset != NO_OFFSET).and_then(|offset| usize::try_from(offset).ok()),
            unit,
            start_line: line_number(start_line),
            kind: table.bytes.number(at + fields * 4 - 4, 1)?,
        })
    }

    fn frames<'a>(&self, lines: &GoLineTable<'a>, address: u64) -> Vec<GoFrame<'a>> {
        let mut frames = Vec::new();
        let mut at = address;
        while frames.len() < crate::dwarf::MAX_INLINED {
            let Some(call) = self.inlined_call(lines, at) else { break };
            let location = lines.location(self, at);
            let is_wrapper = lines.wrapper == Some(call.kind);
            frames.push(GoFrame { name: call.name, location, start_line: call.start_line, is_wrapper });
            // The caller's instruction at `parent` has the location of the call.
            let Some(parent) = self.start.checked_add(call.parent).filter(|&parent| parent != at) else {
                break;
            };
            at = parent;
        }
        let name = lines.table.name(self.name).filter(|name| !name.is_empty());
        let location = lines.location(self, at);
        let (start_line, is_wrapper) = (self.start_line, lines.wrapper == Some(self.kind));
        frames.extend(name.map(|name| GoFrame { name, location, start_line, is_wrapper }));
        frames
    }

    /// Returns the innermost inlined call that covers the address.
    fn inlined_call<'a>(&self, lines: &GoLineTable<'a>, address: u64) -> Option<InlinedCall<'a>> {
        let trees = lines.trees.as_ref()?;
        let index = usize::try_from(lines.value(self, self.inlined?, address)?).ok()?;
        // parent, funcID, file, line, func, parentPc; since 1.20: funcID, nameOff, parentPc, startLine.
        let (size, kind, name, parent, start_line) = match lines.table.version {
            Version::Go1_18 => (20, 2, 12, 16, None),
            _ => (16, 0, 4, 8, Some(12)),
        };
        let entry = self.tree?.checked_add(index.checked_mul(size)?)?;
        let name = lines.table.name(trees.number(entry.checked_add(name)?, 4)?)?;
        let parent = u64::try_from(trees.signed(entry.checked_add(parent)?)?).ok()?;
        let start_line = start_line.and_then(|field| trees.number(entry.checked_add(field)?, 4));
        let kind = trees.number(entry.checked_add(kind)?, 1)?;
        let call = InlinedCall { name, parent, start_line: line_number(start_line.unwrap_or(0)), kind };
        Some(call).filter(|call| !call.name.is_empty())
    }
}

/// A function that is inlined at an address.
struct InlinedCall<'a> {
    name: &'a [u8],
    /// The offset of an instruction of the caller that has the location of the call.
    parent: u64,
    /// The line at which the function starts; 0 if unknown.
    start_line: u32,
    /// The kind of function that the runtime tells apart (`funcID`).
    kind: u64,
}

/// Returns a line number of the table, which the runtime stores as an `int32`; 0 for a negative one.
fn line_number(stored: u64) -> u32 {
    u32::try_from(stored).ok().filter(|&line| i32::try_from(line).is_ok()).unwrap_or(0)
}
