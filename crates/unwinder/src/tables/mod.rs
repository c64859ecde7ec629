//! The unwind tables of one object, and finding the row for an address in them.

mod code;
mod entry;
mod fde_index;
mod search_table;
mod sections;

use alloc::vec::Vec;
use core::ops::Range;

use elf::{ElfError, ReadAt, Segment};
use gimli::{BaseAddresses, DebugFrame, EhFrame, EndianSlice, LittleEndian, UnwindContext, UnwindSection};
use model::{FileOffset, Svma};

use self::code::Code;
use self::entry::{Entry, SectionKind, remove_all_marks};
use self::fde_index::FdeIndex;
use self::search_table::SearchTable;
pub use self::sections::ObjectSections;
use crate::Architecture;
use crate::row::Row;

/// A section's bytes, and the address that the file states for the first of them (0 for a section that is never loaded).
#[derive(Clone, Debug)]
pub struct Section<S> {
    /// `sh_addr`.
    pub address: Svma,
    /// The bytes, unpacked where the section is compressed.
    pub bytes: S,
}

impl<S: ReadAt> ReadAt for Section<S> {
    fn size(&self) -> u64 {
        self.bytes.size()
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> usize {
        self.bytes.read_at(offset, into)
    }
}

/// The unwind tables of one object.
///
/// Both `.eh_frame` and `.debug_frame` are consulted, in this order. An FDE is found by the linker's search table,
/// else by an own sorted index.
#[derive(Debug)]
pub struct UnwindTables<S> {
    architecture: Architecture,
    file: S,
    segments: Vec<Segment>,
    entry: Svma,
    eh_frame: Option<Section<S>>,
    /// `.eh_frame_hdr`, where it is a table of this `.eh_frame`.
    search_table: Option<(SearchTable, Section<S>)>,
    eh_frame_index: FdeIndex,
    debug_frame: Option<Section<S>>,
    debug_frame_index: FdeIndex,
    /// The addresses that those in the tables may be relative to, but for `.eh_frame` itself.
    bases: BaseAddresses,
    is_go: bool,
    refused: Vec<ElfError>,
}

/// The row for an address, or why there is none.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Lookup {
    /// The row, and where else it holds.
    Row(Row, Extent),
    /// No FDE covers the address.
    NoFde,
    /// An FDE covers it, but cannot be read.
    Malformed,
}

/// The range of addresses for which a row holds (Svma).
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Extent {
    /// The addresses for which it is the answer.
    pub(crate) row: Range<u64>,
    /// Those that its FDE covers.
    pub(crate) function: Range<u64>,
    /// True if the FDE is in `.eh_frame`.
    pub(crate) in_eh_frame: bool,
}

impl Lookup {
    /// The same, where a row is not the answer outside `range`.
    fn holding_in(mut self, range: Range<u64>) -> Self {
        if let Self::Row(_, Extent { row, .. }) = &mut self {
            *row = row.start.max(range.start)..row.end.min(range.end);
        }
        self
    }
}

/// The maximum size of a section that is indexed, since it has to be read as a whole. `.debug_frame` of large programs in Go has 5 MB.
const MAX_INDEXED_BYTES: u64 = 32 << 20;

type Slice<'a> = EndianSlice<'a, LittleEndian>;

impl<S: ReadAt> UnwindTables<S> {
    /// Takes the sections of an object, and indexes those without a search table of the linker.
    pub fn new(sections: ObjectSections<S>) -> Self {
        let table = sections.eh_frame_hdr.and_then(|header| Some((SearchTable::parse(&header)?, header)));
        // A table for another `.eh_frame` than this one would lead astray.
        let has_entries = |table: &SearchTable| {
            sections.eh_frame.as_ref().is_some_and(|eh_frame| table.eh_frame_address() == eh_frame.address.0)
        };
        let search_table = table.filter(|(table, _)| has_entries(table));
        let mut bases = BaseAddresses::default();
        if let Some(text) = sections.text {
            bases = bases.set_text(text.0);
        }
        if let Some(got) = sections.got {
            bases = bases.set_got(got.0);
        }
        let mut tables = Self {
            architecture: sections.architecture,
            file: sections.file,
            segments: sections.segments,
            entry: sections.entry,
            eh_frame: sections.eh_frame,
            search_table,
            eh_frame_index: FdeIndex::default(),
            debug_frame: sections.debug_frame,
            debug_frame_index: FdeIndex::default(),
            bases,
            is_go: sections.is_go,
            refused: sections.refused,
        };
        let indexed = |section: &&Section<S>| section.size() <= MAX_INDEXED_BYTES;
        if tables.search_table.is_none()
            && let Some(section) = tables.eh_frame.as_ref().filter(indexed)
        {
            let (mut bytes, address) = (section.copy(0..section.size()), section.address.0);
            remove_all_marks(&mut bytes, SectionKind::EhFrame);
            tables.eh_frame_index = FdeIndex::build(&tables.as_eh_frame(&bytes), &tables.bases_of(address));
        }
        if let Some(section) = tables.debug_frame.as_ref().filter(indexed) {
            let mut bytes = section.copy(0..section.size());
            remove_all_marks(&mut bytes, SectionKind::DebugFrame);
            tables.debug_frame_index = FdeIndex::build(&tables.as_debug_frame(&bytes), &tables.bases);
        }
        tables
    }

    /// The architecture of the code.
    pub fn architecture(&self) -> Architecture {
        self.architecture
    }

    /// Returns the errors of sections with tables that exist and could not be read.
    pub fn refused(&self) -> &[ElfError] {
        &self.refused
    }

    /// Returns the number of bytes that its own indices take in memory, beside what `S` holds.
    pub fn indices_size(&self) -> usize {
        self.eh_frame_index.size() + self.debug_frame_index.size()
    }

    /// Returns true if there is any unwind table at all.
    pub fn has_tables(&self) -> bool {
        self.eh_frame.is_some() || self.debug_frame.is_some()
    }

    /// Returns true if two bytes of the file are code of one function, as the tables have it.
    pub fn share_function(&self, one: FileOffset, other: FileOffset) -> bool {
        let fde = |offset| {
            let address = self.address_of(offset)?;
            let in_debug_frame = || self.debug_frame_index.find(address.0).map(|(fde, _)| (true, fde));
            self.find_in_eh_frame(address).map(|(fde, _)| (false, fde)).or_else(in_debug_frame)
        };
        fde(one).is_some_and(|function| fde(other) == Some(function))
    }

    /// The function that a byte of the file is code of, as the tables have it: its first address, and the one behind its last.
    pub fn function_at(&self, offset: FileOffset) -> Option<Range<Svma>> {
        let address = self.address_of(offset)?;
        let in_eh_frame = self.find_in_eh_frame(address).and_then(|(fde, _)| {
            let Entry { bytes, fde, address: start } =
                Entry::read(self.eh_frame.as_ref()?, SectionKind::EhFrame, fde as u64)?;
            covered(&self.as_eh_frame(&bytes), &self.bases_of(start), fde.into(), address)
        });
        in_eh_frame.or_else(|| {
            let (fde, _) = self.debug_frame_index.find(address.0)?;
            let Entry { bytes, fde, .. } =
                Entry::read(self.debug_frame.as_ref()?, SectionKind::DebugFrame, fde as u64)?;
            covered(&self.as_debug_frame(&bytes), &self.bases, fde.into(), address)
        })
    }

    /// Returns true if Go's linker made the code.
    pub(crate) fn is_go(&self) -> bool {
        self.is_go
    }

    /// Returns true if a return address at `address` is that of the first call which the object's entry point makes: nobody
    /// called that. C libraries without unwind tables say it in no other way.
    pub(crate) fn returns_to_entry(&self, address: Svma) -> bool {
        const MAX_ENTRY_BYTES: u64 = 64;
        self.entry != Svma(0)
            && address
                .checked_offset_from(self.entry)
                .is_some_and(|distance| (1..=MAX_ENTRY_BYTES).contains(&distance))
    }

    /// The stated address of a byte of the file, by the program header that holds it.
    pub(crate) fn address_of(&self, offset: FileOffset) -> Option<Svma> {
        elf::svma_of(&self.segments, offset)
    }

    /// The code from `offset` on, as much as is looked at for one frame.
    pub(crate) fn code_from(&self, offset: FileOffset) -> Code {
        Code::read(&self.file, offset.0)
    }

    /// Up to 8 bytes of code that end at `offset`.
    pub(crate) fn code_before(&self, offset: FileOffset) -> Code {
        let start = offset.0.saturating_sub(8);
        Code::read(&self.file, start).up_to(offset.0 - start)
    }

    /// The code in a range of the file, as far as there is any.
    pub(crate) fn code_in(&self, range: Range<u64>) -> Vec<u8> {
        self.file.copy(range)
    }

    /// The row for the instruction at `address`.
    pub(crate) fn lookup(&self, address: Svma, context: &mut UnwindContext<usize>) -> Lookup {
        let from_eh_frame = match self.find_in_eh_frame(address) {
            Some((offset, next)) => {
                self.row(SectionKind::EhFrame, offset as u64, address, context).holding_in(0..next)
            }
            None => Lookup::NoFde,
        };
        if let Lookup::Row(..) = from_eh_frame {
            return from_eh_frame;
        }
        let from_debug_frame = match self.debug_frame_index.find(address.0) {
            // `.eh_frame` may have an FDE for other addresses in the function.
            Some((offset, _)) => {
                let only_there = address.0..address.0.saturating_add(1);
                self.row(SectionKind::DebugFrame, offset as u64, address, context).holding_in(only_there)
            }
            None => Lookup::NoFde,
        };
        if from_debug_frame == Lookup::NoFde { from_eh_frame } else { from_debug_frame }
    }

    /// The offset of the FDE in `.eh_frame`, and where the next one's code begins.
    fn find_in_eh_frame(&self, address: Svma) -> Option<(usize, u64)> {
        let Some((table, section)) = &self.search_table else { return self.eh_frame_index.find(address.0) };
        let eh_frame = self.eh_frame.as_ref()?.address;
        let (fde, next) = table.find(section, address.0)?;
        Some((usize::try_from(fde.checked_sub(eh_frame.0)?).ok()?, next))
    }

    /// The row for `address` of the FDE at an offset.
    fn row(
        &self,
        kind: SectionKind,
        offset: u64,
        address: Svma,
        context: &mut UnwindContext<usize>,
    ) -> Lookup {
        let section = match kind {
            SectionKind::EhFrame => self.eh_frame.as_ref(),
            SectionKind::DebugFrame => self.debug_frame.as_ref(),
        };
        let entry = section.and_then(|section| Entry::read(section, kind, offset));
        let Some(Entry { bytes, fde, address: start }) = entry else { return Lookup::Malformed };
        match kind {
            SectionKind::EhFrame => {
                let bases = self.bases_of(start);
                let mut lookup = self.row_of(&self.as_eh_frame(&bytes), &bases, fde.into(), address, context);
                if let Lookup::Row(_, extent) = &mut lookup {
                    extent.in_eh_frame = true;
                }
                lookup
            }
            SectionKind::DebugFrame => {
                self.row_of(&self.as_debug_frame(&bytes), &self.bases, fde.into(), address, context)
            }
        }
    }

    fn row_of<'a, T>(
        &self,
        section: &T,
        bases: &BaseAddresses,
        offset: T::Offset,
        address: Svma,
        context: &mut UnwindContext<usize>,
    ) -> Lookup
    where
        T: UnwindSection<Slice<'a>>,
    {
        let Ok(fde) = section.fde_from_offset(bases, offset, T::cie_from_offset) else {
            return Lookup::Malformed;
        };
        // The end of an FDE that lies may overflow; gimli's `contains` does not check that.
        let Some(within) = address.0.checked_sub(fde.initial_address()) else { return Lookup::NoFde };
        if within >= fde.len() {
            return Lookup::NoFde;
        }
        let Ok(row) = fde.unwind_info_for_address(section, bases, context, address.0) else {
            return Lookup::Malformed;
        };
        let function = fde.initial_address()..fde.initial_address().saturating_add(fde.len());
        let holds = row.start_address().max(function.start)..row.end_address().min(function.end);
        match Row::from_gimli(self.architecture, section, fde.cie(), row) {
            Ok(row) => Lookup::Row(row, Extent { row: holds, function, in_eh_frame: false }),
            Err(_) => Lookup::Malformed,
        }
    }

    fn as_eh_frame<'a>(&self, bytes: &'a [u8]) -> EhFrame<Slice<'a>> {
        let mut eh_frame = EhFrame::new(bytes, LittleEndian);
        eh_frame.set_address_size(8);
        eh_frame.set_vendor(self.vendor());
        eh_frame
    }

    fn as_debug_frame<'a>(&self, bytes: &'a [u8]) -> DebugFrame<Slice<'a>> {
        let mut debug_frame = DebugFrame::new(bytes, LittleEndian);
        debug_frame.set_address_size(8);
        debug_frame.set_vendor(self.vendor());
        debug_frame
    }

    /// With `.eh_frame` at `address`.
    fn bases_of(&self, address: u64) -> BaseAddresses {
        self.bases.clone().set_eh_frame(address)
    }

    fn vendor(&self) -> gimli::Vendor {
        match self.architecture {
            Architecture::X86_64 => gimli::Vendor::Default,
            Architecture::Aarch64 => gimli::Vendor::AArch64,
        }
    }
}

/// The range that the FDE at an offset covers, where that has `address` in it.
fn covered<'a, S>(section: &S, bases: &BaseAddresses, offset: S::Offset, address: Svma) -> Option<Range<Svma>>
where
    S: UnwindSection<Slice<'a>>,
{
    let fde = section.fde_from_offset(bases, offset, S::cie_from_offset).ok()?;
    let start = fde.initial_address();
    let covers = address.0.checked_sub(start).is_some_and(|within| within < fde.len());
    covers.then(|| Svma(start)..Svma(start.saturating_add(fde.len())))
}
