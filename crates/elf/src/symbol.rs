//! Symbol tables.

use model::Svma;
use object::Endianness;
use object::elf::{self, Sym32, Sym64};

use crate::headers::Headers;
use crate::table::{self, Table};
use crate::{Section, dynamic};

/// The symbol table that a symbol is from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SymbolSource {
    /// `.symtab`: everything, unless stripped.
    Full,
    /// `.dynsym`: what the dynamic linker needs. Found through `PT_DYNAMIC` where there are no section headers.
    Dynamic,
}

/// The kind of object that a symbol names (`STT_…`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum SymbolKind {
    /// `STT_NOTYPE`: a label in hand-written assembly, for example.
    Untyped,
    /// `STT_OBJECT` and `STT_TLS`: data.
    Data,
    /// `STT_FUNC`.
    Function,
    /// `STT_GNU_IFUNC`: a function that chooses its implementation when it is linked.
    IndirectFunction,
    /// `STT_SECTION`, `STT_FILE` and whatever else.
    Other,
}

/// One entry of a symbol table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Symbol<'a> {
    /// `st_name`: where the name starts in `strings`.
    pub name_offset: u32,
    /// The string table that has the name.
    pub strings: &'a [u8],
    /// `st_value`. For 32-bit ARM code the lowest bit says "Thumb" and is not part of the address.
    pub address: Svma,
    /// `st_size`; 0 where unknown.
    pub size: u64,
    /// The kind of object that it names.
    pub kind: SymbolKind,
    /// `STB_GLOBAL` and `STB_GNU_UNIQUE`.
    pub is_global: bool,
    /// `STB_WEAK`.
    pub is_weak: bool,
    /// `STV_HIDDEN` or `STV_INTERNAL`.
    pub is_hidden: bool,
    /// `st_shndx`: the index of the section it lies in (0 for undefined; 0xfff1 for absolute, 0xffff for an index
    /// that did not fit).
    pub section: u16,
}

impl<'a> Symbol<'a> {
    /// The name, up to its NUL; empty where the string table does not have it. Most symbols of a large table are never
    /// asked for theirs, and so the pages of its strings are not touched.
    pub fn name(&self) -> &'a [u8] {
        name_at(self.strings, self.name_offset as usize)
    }

    /// Returns true if the table only refers to it (`SHN_UNDEF`).
    pub fn is_undefined(&self) -> bool {
        self.section == 0
    }

    /// Returns true if its value is a number and not an address (`SHN_ABS`).
    pub fn is_absolute(&self) -> bool {
        self.section == 0xfff1
    }
}

pub(crate) fn symbols<'a>(
    data: &'a [u8],
    headers: &Headers,
    source: SymbolSource,
) -> impl Iterator<Item = Symbol<'a>> + use<'a> {
    entries(table(data, headers, source).unwrap_or_default(), headers.is_64, headers.endian)
}

/// The symbols of a table.
pub(crate) fn entries(
    Table { entries, strings }: Table<'_>,
    is_64: bool,
    endian: Endianness,
) -> impl Iterator<Item = Symbol<'_>> {
    let (wide, narrow) = if is_64 { (entries, &[][..]) } else { (&[][..], entries) };
    let wide = table::entries::<Sym64<Endianness>>(wide).iter();
    let narrow = table::entries::<Sym32<Endianness>>(narrow).iter();
    let wide = wide.map(move |symbol| convert(symbol, endian, strings));
    wide.chain(narrow.map(move |symbol| convert(symbol, endian, strings)))
}

/// The string table that the names of a symbol table's symbols are in.
pub(crate) fn strings<'a>(data: &'a [u8], headers: &Headers, source: SymbolSource) -> &'a [u8] {
    table(data, headers, source).unwrap_or_default().strings
}

/// Returns true if a section has symbols besides the null symbol at index 0.
pub(crate) fn has_section(headers: &Headers, source: SymbolSource) -> bool {
    let entry_size =
        if headers.is_64 { size_of::<Sym64<Endianness>>() } else { size_of::<Sym32<Endianness>>() };
    section(headers, source).is_some_and(|section| section.size >= 2 * entry_size as u64)
}

pub(crate) fn section(headers: &Headers, source: SymbolSource) -> Option<&Section> {
    let kind = match source {
        SymbolSource::Full => elf::SHT_SYMTAB,
        SymbolSource::Dynamic => elf::SHT_DYNSYM,
    };
    headers.sections.iter().find(|section| section.kind == kind.0)
}

fn table<'a>(data: &'a [u8], headers: &Headers, source: SymbolSource) -> Option<Table<'a>> {
    let Some(section) = section(headers, source) else {
        return (source == SymbolSource::Dynamic).then(|| dynamic::symbol_table(data, headers))?;
    };
    let strings = headers.sections.get(usize::try_from(section.link).ok()?)?;
    Some(Table { entries: bytes_of(data, section)?, strings: bytes_of(data, strings)? })
}

/// The section's bytes, as far as the file goes: the symbols at the front of a table cut short are still good.
fn bytes_of<'a>(data: &'a [u8], section: &Section) -> Option<&'a [u8]> {
    let start = usize::try_from(section.file_offset.0).ok()?;
    let end = start.saturating_add(usize::try_from(section.size).ok()?).min(data.len());
    data.get(start..end)
}

fn convert<'a, S>(symbol: &S, endian: Endianness, strings: &'a [u8]) -> Symbol<'a>
where
    S: object::read::elf::Sym<Endian = Endianness>,
{
    use object::elf::*;
    let kind = match symbol.st_type() {
        STT_NOTYPE => SymbolKind::Untyped,
        STT_OBJECT | STT_TLS | STT_COMMON => SymbolKind::Data,
        STT_FUNC => SymbolKind::Function,
        STT_GNU_IFUNC => SymbolKind::IndirectFunction,
        _ => SymbolKind::Other,
    };
    let bind = symbol.st_bind();
    Symbol {
        name_offset: symbol.st_name(endian),
        strings,
        address: Svma(symbol.st_value(endian).into()),
        size: symbol.st_size(endian).into(),
        kind,
        is_global: bind == STB_GLOBAL || bind == STB_GNU_UNIQUE,
        is_weak: bind == STB_WEAK,
        is_hidden: matches!(symbol.st_visibility(), STV_HIDDEN | STV_INTERNAL),
        section: symbol.st_shndx(endian).0,
    }
}

/// The longest name of a symbol or entry that is looked at, in bytes: compilers write few mangled names of more than 10,000. All
/// names of a file may be the ends of one that is as long as the file.
pub const MAX_NAME_BYTES: usize = 1 << 14;

/// The bytes of a string table from an offset up to the next NUL; of a longer name than [`MAX_NAME_BYTES`] one byte more than
/// these, by which it is known.
pub fn name_at(strings: &[u8], offset: usize) -> &[u8] {
    let from = strings.get(offset..).unwrap_or_default();
    let near = from.get(..MAX_NAME_BYTES + 1).unwrap_or(from);
    near.split(|&byte| byte == 0).next().unwrap_or_default()
}
