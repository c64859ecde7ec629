//! Places as text: `address function+0xoffset (object)`.

use std::fmt::{self, Write};

use model::{AddressKind, Name, Reason, Resolution, Space, SpaceId, StackEntry};

use super::fields::Fields;
use super::number;

/// An address of a sample, and where it lies.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct LocatedAddress {
    /// The address as recorded.
    pub address: u64,
    /// The place that it means.
    pub entry: StackEntry,
}

/// A source of symbols for places.
pub trait SymbolLookup {
    /// The functions at a place; `None` for one that was never looked up.
    fn resolution(&self, entry: &StackEntry) -> Option<&Resolution>;
    /// The space with this number.
    fn space(&self, id: SpaceId) -> &Space;
    /// Returns true if the recording lists the build id of a kernel module under this path.
    fn lists_module(&self, path: &Name) -> bool;
}

/// The style of a place: the parts that are printed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct AddressStyle {
    pub(super) fields: Fields,
    /// Inlined functions on lines of their own.
    pub(super) inlined: bool,
}

impl AddressStyle {
    /// Of the fields of an event, those that concern places; `inlined`: whether inlined functions are shown.
    pub fn new(fields: Fields, inlined: bool) -> Self {
        let concerned = Fields::IP | Fields::SYM | Fields::SYMOFF | Fields::DSO | Fields::SRCLINE;
        Self { fields: fields & concerned, inlined }
    }

    /// Tells styles apart.
    pub(super) fn number(self) -> u64 {
        self.fields.bits() << 1 | u64::from(self.inlined)
    }

    fn has(self, field: Fields) -> bool {
        self.fields.contains(field)
    }

    /// A sample without a call chain: all on its line.
    pub(super) fn one_line(self, out: &mut Vec<u8>, place: &LocatedAddress, symbols: &dyn SymbolLookup) {
        if self.has(Fields::IP) {
            number::hex(out, place.address, 16);
        }
        if self.has(Fields::SYM) {
            out.push(b' ');
            symbol(out, place, self.has(Fields::SYMOFF), symbols);
        }
        if self.has(Fields::DSO) {
            parenthesized(out, place, symbols);
        }
        self.source_line(out, symbols.resolution(&place.entry));
    }

    /// An entry of a call chain: a line for the function, and before it one for each function inlined into it.
    pub(super) fn lines(
        self,
        out: &mut Vec<u8>,
        place: &LocatedAddress,
        resolution: Option<&Resolution>,
        symbols: &dyn SymbolLookup,
    ) {
        if self.inlined
            && let Some(Resolution::Resolved(found)) = resolution
            && let Some((_, inlined)) = found.frames.split_last()
        {
            for frame in inlined {
                self.address(out, place);
                if self.has(Fields::SYM) {
                    out.push(b' ');
                    safe(out, &frame.function);
                }
                if self.has(Fields::SRCLINE)
                    && let Some(location) = &frame.location
                {
                    out.extend_from_slice(b"\n  ");
                    source_location(out, &location.file, location.line);
                }
                out.extend_from_slice(b" (inlined)\n");
            }
        }
        self.address(out, place);
        if self.has(Fields::SYM) {
            out.push(b' ');
            symbol_of(out, resolution, self.has(Fields::SYMOFF));
        }
        if self.has(Fields::DSO) {
            parenthesized(out, place, symbols);
        }
        self.source_line(out, resolution);
        out.push(b'\n');
    }

    fn address(self, out: &mut Vec<u8>, place: &LocatedAddress) {
        if self.has(Fields::IP) {
            out.push(b'\t');
            number::hex(out, place.address, 16);
        }
    }

    fn source_line(self, out: &mut Vec<u8>, resolution: Option<&Resolution>) {
        if !self.has(Fields::SRCLINE) {
            return;
        }
        // The line being executed is that of the innermost function.
        if let Some(Resolution::Resolved(found)) = resolution
            && let Some(frame) = if self.inlined { found.frames.last() } else { found.frames.first() }
            && let Some(location) = &frame.location
        {
            out.extend_from_slice(b"\n  ");
            source_location(out, &location.file, location.line);
        }
    }
}

/// The file's own name and the line, as perf prints them without `--full-source-path`.
fn source_location(out: &mut Vec<u8>, file: &str, line: u32) {
    safe(out, file.rsplit('/').next().unwrap_or(file));
    out.push(b':');
    number::decimal(out, line.into(), 0);
}

/// The outermost function at a place: the symbol that covers it.
pub(super) fn symbol(
    out: &mut Vec<u8>,
    place: &LocatedAddress,
    with_offset: bool,
    symbols: &dyn SymbolLookup,
) {
    symbol_of(out, symbols.resolution(&place.entry), with_offset);
}

fn symbol_of(out: &mut Vec<u8>, resolution: Option<&Resolution>, with_offset: bool) {
    match resolution {
        Some(Resolution::Resolved(found)) => {
            let Some(frame) = found.frames.last() else { return };
            safe(out, &frame.function);
            if with_offset && let Some(offset) = found.symbol_offset {
                out.extend_from_slice(b"+0x");
                number::hex(out, offset, 0);
            }
        }
        Some(Resolution::Unresolved(Reason::Truncated(reason))) => {
            display(out, format_args!("[truncated: {reason}]"))
        }
        _ => out.extend_from_slice(b"[unknown]"),
    }
}

/// The function that an address in the kernel belongs to, as `%pS` (with its offset) and `%ps` print it.
pub(super) fn kernel_function(
    out: &mut Vec<u8>,
    place: &LocatedAddress,
    with_offset: bool,
    symbols: &dyn SymbolLookup,
) {
    // An address of the process that happens to be printed so stays a number.
    if place.entry.in_kernel
        && let Some(Resolution::Resolved(_)) = symbols.resolution(&place.entry)
    {
        symbol(out, place, with_offset, symbols);
    } else {
        out.extend_from_slice(b"0x");
        number::hex(out, place.address, 0);
    }
}

fn parenthesized(out: &mut Vec<u8>, place: &LocatedAddress, symbols: &dyn SymbolLookup) {
    out.extend_from_slice(b" (");
    object(out, place, symbols);
    out.push(b')');
}

/// The object at a place, under the name that perf gives it.
pub(super) fn object(out: &mut Vec<u8>, place: &LocatedAddress, symbols: &dyn SymbolLookup) {
    match symbols.space(place.entry.space) {
        Space::Object(object) => display(out, format_args!("{}", object.path)),
        Space::Vdso { .. } => out.extend_from_slice(b"[vdso]"),
        Space::Kernel { .. } => out.extend_from_slice(b"[kernel.kallsyms]"),
        Space::KernelModule { name, .. } if !symbols.lists_module(name) => module(out, name),
        Space::KernelModule { name, .. } | Space::KernelSymbol { name } => {
            display(out, format_args!("{name}"))
        }
        // Memory that never had a file: for code perf calls it after the file that would name its functions.
        Space::Jit { pid, mapping, .. }
            if place.entry.kind != AddressKind::Data && is_nameless(mapping.as_bytes()) =>
        {
            display(out, format_args!("/tmp/perf-{pid}.map"));
        }
        Space::Jit { mapping: path, .. } | Space::JitDump { path, .. } => {
            display(out, format_args!("{path}"))
        }
        Space::Unmapped { .. } | Space::Truncated(_) | Space::State(_) | Space::Foreign(_) => {
            out.extend_from_slice(b"[unknown]")
        }
    }
}

/// `[ath9k_hw]` for `/lib/modules/…/ath9k-hw.ko.xz`: perf shortens the paths that stand in MMAP records alone; the list of
/// build ids is read before, and a module that is in it keeps the path that it has there (`machine__findnew_module_dso()`
/// in `tools/perf/util/machine.c`).
fn module(out: &mut Vec<u8>, path: &Name) {
    let text = path.to_string();
    match text.rsplit('/').next().and_then(|file| file.split_once(".ko")) {
        Some((name, _)) => display(out, format_args!("[{}]", name.replace('-', "_"))),
        None => out.extend_from_slice(text.as_bytes()),
    }
}

/// Returns true for names that perf takes for memory without a file (`is_anon_memory()`, `is_no_dso_memory()` in `tools/perf/util/map.c`).
fn is_nameless(mapping: &[u8]) -> bool {
    let kinds: [&[u8]; 5] = [b"//anon", b"/dev/zero", b"/anon_hugepage", b"/SYSV", b"[heap]"];
    mapping.is_empty() || kinds.iter().any(|kind| mapping.starts_with(kind))
}

pub(super) fn display(out: &mut Vec<u8>, text: fmt::Arguments<'_>) {
    // A vector takes every byte.
    let _ = Bytes(out).write_fmt(text);
}

struct Bytes<'a>(&'a mut Vec<u8>);

impl Write for Bytes<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.extend_from_slice(text.as_bytes());
        Ok(())
    }
}

/// A name from a symbol table, made harmless.
pub(super) fn safe(out: &mut Vec<u8>, name: &str) {
    let plain = name.bytes().all(|byte| (b' '..=b'~').contains(&byte));
    if !plain && name.chars().any(Name::is_unsafe) {
        display(out, format_args!("{}", Name::from(name)));
    } else {
        out.extend_from_slice(name.as_bytes());
    }
}
