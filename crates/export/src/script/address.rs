//! Addresses of samples as text: `address function+0xoffset (object)`.

use std::fmt::{self, Write};

use model::{AddressKind, Name, Reason, Resolution, Space, SpaceId, StackEntry};

use super::fields::Fields;

/// An address of a sample with the stack entry that it maps to.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct LocatedAddress {
    /// The address as recorded.
    pub address: u64,
    /// The space and offset of the address.
    pub entry: StackEntry,
}

/// Gives the printer the symbols of addresses.
pub trait SymbolLookup {
    /// Returns the functions at a stack entry; `None` if the entry was never resolved.
    fn resolution(&self, entry: &StackEntry) -> Option<&Resolution>;
    /// Returns the space with this id.
    fn space(&self, id: SpaceId) -> &Space;
    /// Returns true if the recording lists the build id of a kernel module under this path.
    fn lists_module(&self, path: &Name) -> bool;
}

/// The parts of an address that are printed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct AddressStyle {
    pub(super) fields: Fields,
    /// True if inlined functions get lines of their own.
    pub(super) inlined: bool,
}

impl AddressStyle {
    /// Selects the fields of an event that concern addresses. `inlined` is true to print inlined functions.
    pub fn new(fields: Fields, inlined: bool) -> Self {
        let of_addresses = Fields::IP | Fields::SYM | Fields::SYMOFF | Fields::DSO | Fields::SRCLINE;
        Self { fields: fields & of_addresses, inlined }
    }

    fn has(self, field: Fields) -> bool {
        self.fields.contains(field)
    }

    /// Appends the address of a sample without a call chain, without a line break.
    pub(super) fn one_line(self, out: &mut Vec<u8>, located: &LocatedAddress, symbols: &dyn SymbolLookup) {
        if self.has(Fields::IP) {
            display(out, format_args!("{:16x}", located.address));
        }
        if self.has(Fields::SYM) {
            out.push(b' ');
            symbol(out, located, self.has(Fields::SYMOFF), symbols);
        }
        if self.has(Fields::DSO) {
            parenthesized(out, located, symbols);
        }
        self.source_line(out, symbols.resolution(&located.entry));
    }

    /// Appends an address of a call chain: a line for the function, after one for each function inlined into it. Each line
    /// starts with a tab and the address, if the address is printed.
    pub(super) fn lines(self, out: &mut Vec<u8>, located: &LocatedAddress, symbols: &dyn SymbolLookup) {
        let resolution = symbols.resolution(&located.entry);
        if self.inlined
            && let Some(Resolution::Resolved(found)) = resolution
            && let Some((_, inlined)) = found.frames.split_last()
        {
            for frame in inlined {
                self.address(out, located);
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
        self.address(out, located);
        if self.has(Fields::SYM) {
            out.push(b' ');
            symbol_of(out, resolution, self.has(Fields::SYMOFF));
        }
        if self.has(Fields::DSO) {
            parenthesized(out, located, symbols);
        }
        self.source_line(out, resolution);
        out.push(b'\n');
    }

    fn address(self, out: &mut Vec<u8>, located: &LocatedAddress) {
        if self.has(Fields::IP) {
            display(out, format_args!("\t{:16x}", located.address));
        }
    }

    fn source_line(self, out: &mut Vec<u8>, resolution: Option<&Resolution>) {
        if !self.has(Fields::SRCLINE) {
            return;
        }
        // The executed source line is that of the innermost function.
        if let Some(Resolution::Resolved(found)) = resolution
            && let Some(frame) = if self.inlined { found.frames.last() } else { found.frames.first() }
            && let Some(location) = &frame.location
        {
            out.extend_from_slice(b"\n  ");
            source_location(out, &location.file, location.line);
        }
    }
}

/// Appends the file name and the line, as perf prints them without `--full-source-path`.
fn source_location(out: &mut Vec<u8>, file: &str, line: u32) {
    safe(out, file.rsplit('/').next().unwrap_or(file));
    display(out, format_args!(":{line}"));
}

/// Appends the outermost function of an address, which is the symbol that covers it.
pub(super) fn symbol(
    out: &mut Vec<u8>,
    located: &LocatedAddress,
    with_offset: bool,
    symbols: &dyn SymbolLookup,
) {
    symbol_of(out, symbols.resolution(&located.entry), with_offset);
}

fn symbol_of(out: &mut Vec<u8>, resolution: Option<&Resolution>, with_offset: bool) {
    match resolution {
        Some(Resolution::Resolved(found)) => {
            let Some(frame) = found.frames.last() else { return };
            safe(out, &frame.function);
            if with_offset && let Some(offset) = found.symbol_offset {
                display(out, format_args!("+{offset:#x}"));
            }
        }
        Some(Resolution::Unresolved(Reason::Truncated(reason))) => {
            display(out, format_args!("[truncated: {reason}]"))
        }
        _ => out.extend_from_slice(b"[unknown]"),
    }
}

fn parenthesized(out: &mut Vec<u8>, located: &LocatedAddress, symbols: &dyn SymbolLookup) {
    out.extend_from_slice(b" (");
    object(out, located, symbols);
    out.push(b')');
}

/// Appends the object of an address under the name that perf gives it.
pub(super) fn object(out: &mut Vec<u8>, located: &LocatedAddress, symbols: &dyn SymbolLookup) {
    match symbols.space(located.entry.space) {
        Space::Object(object) => name(out, &object.path),
        Space::Vdso { .. } => out.extend_from_slice(b"[vdso]"),
        Space::Kernel { .. } => out.extend_from_slice(b"[kernel.kallsyms]"),
        Space::KernelModule { name, .. } if !symbols.lists_module(name) => module(out, name),
        Space::KernelModule { name, .. } | Space::KernelSymbol { name } => {
            display(out, format_args!("{name}"))
        }
        // Anonymous memory: perf names code in it after the perf map that would have its symbols.
        Space::Jit { pid, mapping, .. }
            if located.entry.kind != AddressKind::Data && is_anonymous(mapping.as_bytes()) =>
        {
            display(out, format_args!("/tmp/perf-{pid}.map"));
        }
        Space::Jit { mapping: path, .. } | Space::JitDump { path, .. } => {
            display(out, format_args!("{path}"))
        }
        Space::JavaScript { name } | Space::TaskLabel { name } => display(out, format_args!("{name}")),
        Space::Python { file, function } if file.is_empty() => display(out, format_args!("{function}")),
        Space::Python { file, function } => display(out, format_args!("{file}:{function}")),
        Space::Unmapped { .. } | Space::Truncated(_) | Space::State(_) | Space::Foreign(_) => {
            out.extend_from_slice(b"[unknown]")
        }
    }
}

/// Appends `[ath9k_hw]` for `/lib/modules/…/ath9k-hw.ko.xz`. perf shortens paths of MMAP records like this; a module in
/// the list of build ids, which perf reads first, keeps the path that it has there (`machine__findnew_module_dso()` in
/// `tools/perf/util/machine.c`).
fn module(out: &mut Vec<u8>, path: &Name) {
    let text = path.to_string();
    match text.rsplit('/').next().and_then(|file| file.split_once(".ko")) {
        Some((name, _)) => display(out, format_args!("[{}]", name.replace('-', "_"))),
        None => out.extend_from_slice(text.as_bytes()),
    }
}

/// Returns true for names that perf takes for memory without a file (`is_anon_memory()`, `is_no_dso_memory()` in
/// `tools/perf/util/map.c`).
fn is_anonymous(mapping: &[u8]) -> bool {
    let kinds: [&[u8]; 5] = [b"//anon", b"/dev/zero", b"/anon_hugepage", b"/SYSV", b"[heap]"];
    mapping.is_empty() || kinds.iter().any(|kind| mapping.starts_with(kind))
}

/// Appends formatted text.
pub(super) fn display(out: &mut Vec<u8>, text: fmt::Arguments<'_>) {
    // Writing to a vector cannot fail.
    let _ = Bytes(out).write_fmt(text);
}

struct Bytes<'a>(&'a mut Vec<u8>);

impl Write for Bytes<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.extend_from_slice(text.as_bytes());
        Ok(())
    }
}

/// Appends a name as it is displayed. Plain ASCII takes no formatting: that is most names, one for each sample.
pub(super) fn name(out: &mut Vec<u8>, name: &Name) {
    if is_plain(name.as_bytes()) {
        out.extend_from_slice(name.as_bytes());
    } else {
        display(out, format_args!("{name}"));
    }
}

fn is_plain(name: &[u8]) -> bool {
    name.iter().all(|byte| (b' '..=b'~').contains(byte))
}

/// Appends a name from a symbol table, with unsafe characters replaced as [`Name`] replaces them.
pub(super) fn safe(out: &mut Vec<u8>, name: &str) {
    if !is_plain(name.as_bytes()) && name.chars().any(Name::is_unsafe) {
        display(out, format_args!("{}", Name::from(name)));
    } else {
        out.extend_from_slice(name.as_bytes());
    }
}
