use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use model::{BuildId, FileOffset, Svma};
use object::Endianness;

use crate::headers::Headers;
use crate::link::{self, AltLink, DebugLink};
use crate::unpacked::{Contents, ObjectBudget, UnpackBudget, Unpacked};
use crate::{
    ElfError, Machine, ReadAt, Relocation, Section, Segment, Symbol, SymbolSource, compression, segment,
};
use crate::{relocation, symbol};

/// An object file: its bytes and its parsed headers.
///
/// Parsing reads the headers only. `D` owns or borrows the bytes: `&[u8]`, `Vec<u8>`, a mapped file.
pub struct Object<D> {
    data: D,
    headers: Headers,
    unpack_budget: ObjectBudget,
}

impl<D> Object<D> {
    /// Sets the memory budget of its compressed sections, which other objects may share.
    #[must_use]
    pub fn with_unpack_budget(self, budget: &UnpackBudget) -> Self {
        Self { unpack_budget: budget.for_object(), ..self }
    }

    pub(crate) fn headers(&self) -> &Headers {
        &self.headers
    }

    /// Returns the source of its bytes.
    pub fn source(&self) -> &D {
        &self.data
    }

    /// Returns the number of bytes that its parsed headers take in memory.
    pub fn headers_size(&self) -> usize {
        let names: usize = self.headers.sections.iter().map(|section| section.name.len()).sum();
        let segments = self.headers.segments.capacity() * size_of::<Segment>();
        self.headers.sections.capacity() * size_of::<Section>() + names + segments
    }

    /// Returns true if addresses are 64 bits wide (`ELFCLASS64`).
    pub fn is_64(&self) -> bool {
        self.headers.is_64
    }

    /// The byte order.
    pub fn endian(&self) -> Endianness {
        self.headers.endian
    }

    /// The instruction set.
    pub fn machine(&self) -> Machine {
        self.headers.machine
    }

    /// `e_entry`, where the program starts.
    pub fn entry(&self) -> Svma {
        self.headers.entry
    }

    /// The contents of the `NT_GNU_BUILD_ID` note.
    pub fn build_id(&self) -> Option<BuildId> {
        self.headers.build_id
    }

    /// The `PT_LOAD` program headers, in the order of the file.
    pub fn segments(&self) -> &[Segment] {
        &self.headers.segments
    }

    /// The stated address of a byte of the file, by the program header that covers it; `None` where none does.
    pub fn svma_of(&self, offset: FileOffset) -> Option<Svma> {
        segment::svma_of(&self.headers.segments, offset)
    }

    /// The stated address of a byte of data in the file, or of a variable that follows the last one in memory.
    pub fn svma_of_data(&self, offset: FileOffset) -> Option<Svma> {
        segment::svma_of_data(&self.headers.segments, offset)
    }

    /// The byte of the file that a stated address is loaded from; `None` outside every segment, and in `.bss`.
    pub fn file_offset_of(&self, address: Svma) -> Option<FileOffset> {
        self.headers.segments.iter().find_map(|segment| segment.file_offset_of(address))
    }

    /// The section headers, by index (the first is the null section).
    pub fn sections(&self) -> &[Section] {
        &self.headers.sections
    }

    /// The first section with this name.
    pub fn section(&self, name: &str) -> Option<&Section> {
        self.headers.sections.iter().find(|section| *section.name == *name.as_bytes())
    }

    /// Returns true if the object has code of Go: the sections that Go's linker makes and strip(1) keeps, the table of
    /// functions (`.gopclntab`) and, since Go 1.13, `.go.buildinfo`.
    pub fn has_go_code(&self) -> bool {
        let names: [&[u8]; 3] = [b".gopclntab", b".data.rel.ro.gopclntab", b".go.buildinfo"];
        self.headers.sections.iter().any(|section| names.contains(&&*section.name))
    }

    /// The section with this name, or where there is none with the name of its older compressed form, if it has bytes here.
    pub fn contents_section(&self, name: &str) -> Option<&Section> {
        let section = self.section(name).or_else(|| {
            let rest = name.strip_prefix(".debug_")?;
            self.headers
                .sections
                .iter()
                .find(|section| section.name.strip_prefix(b".zdebug_".as_slice()) == Some(rest.as_bytes()))
        });
        section.filter(|section| !section.is_without_bytes())
    }

    /// The bytes of the file that are loaded at `address` and further on, up to the end of their segment: where they begin, and
    /// how many there are.
    pub fn file_range_at(&self, address: Svma) -> Option<(FileOffset, u64)> {
        self.headers.segments.iter().find_map(|segment| {
            let offset = segment.file_offset_of(address)?;
            let end = segment.file_offset.0.saturating_add(segment.file_size);
            Some((offset, end.saturating_sub(offset.0)))
        })
    }

    /// Returns true if the section exists, compressed or not, and has bytes.
    pub fn has_contents(&self, name: &str) -> bool {
        self.contents_section(name).is_some_and(|section| section.size > 0)
    }

    /// `PT_GNU_EH_FRAME`: the address, the place in the file and the size in bytes of the table that finds `.eh_frame` entries,
    /// for objects without section headers.
    pub fn eh_frame_header(&self) -> Option<(Svma, FileOffset, u64)> {
        self.headers.eh_frame_header
    }

    /// Returns true if there is such a section, with at least one symbol beyond the null symbol.
    pub fn has_symbol_table(&self, source: SymbolSource) -> bool {
        symbol::has_section(&self.headers, source)
    }
}

impl<D: ReadAt> Object<D> {
    /// Reads the headers of an ELF file, which is read piece by piece: less than 64 KiB of most programs.
    ///
    /// # Errors
    /// As [`Object::parse`].
    pub fn read(data: D) -> Result<Self, ElfError> {
        let headers = Headers::read(&data)?;
        Ok(Self { data, headers, unpack_budget: UnpackBudget::default().for_object() })
    }

    /// The contents of a compressed section; `None` where it is not compressed: its bytes in the file are its contents then.
    ///
    /// # Errors
    /// As [`Object::section_contents`].
    pub fn unpacked(&self, section: &Section) -> Result<Option<Unpacked>, ElfError> {
        if !compression::is_packed(section) {
            return Ok(None);
        }
        let (start, packed) = (section.file_offset.0, self.unpack_budget.reserve(section.size));
        // The packed bytes take memory, too, while they are unpacked.
        let _packed = packed.map_err(|limit| compression::too_large(section, section.size, limit))?;
        let bytes = self.data.copy(start..start.saturating_add(section.size));
        let (is_64, endian) = (self.headers.is_64, self.headers.endian);
        match compression::unpack(section, &bytes, is_64, endian, &self.unpack_budget)? {
            Contents::Unpacked(unpacked) => Ok(Some(unpacked)),
            Contents::InFile(_) => Ok(None),
        }
    }

    /// `.gnu_debuglink`: the name of the separate debug file, and its checksum.
    pub fn debug_link(&self) -> Option<DebugLink> {
        link::debug_link(&self.link_bytes(".gnu_debuglink")?, self.headers.endian)
    }

    /// `.gnu_debugaltlink`: the supplementary debug file that dwz moved common entries to.
    pub fn alt_link(&self) -> Option<AltLink> {
        link::alt_link(&self.link_bytes(".gnu_debugaltlink")?)
    }

    fn link_bytes(&self, name: &str) -> Option<Vec<u8>> {
        /// A path, its NUL and what follows it, in bytes.
        const MAX_LINK_BYTES: u64 = 4096 + 64;
        let section = self.section(name)?;
        let start = section.file_offset.0;
        Some(self.data.copy(start..start.saturating_add(section.size.min(MAX_LINK_BYTES))))
    }
}

impl<D: AsRef<[u8]>> Object<D> {
    /// Reads the headers of an ELF file.
    ///
    /// # Errors
    /// Where the bytes are no ELF file or its program headers cannot be read. Unusable section headers are no
    /// error: the object has no sections then.
    pub fn parse(data: D) -> Result<Self, ElfError> {
        let headers = Headers::parse(data.as_ref())?;
        Ok(Self { data, headers, unpack_budget: UnpackBudget::default().for_object() })
    }

    /// All bytes of the file.
    pub fn data(&self) -> &[u8] {
        self.data.as_ref()
    }

    /// The bytes of the file that are loaded at `address` and further on, up to the end of their segment.
    pub fn bytes_at(&self, address: Svma) -> Option<&[u8]> {
        let (offset, size) = self.file_range_at(address)?;
        let data = self.data();
        let start = usize::try_from(offset.0).ok()?;
        let end = start.saturating_add(usize::try_from(size).unwrap_or(usize::MAX));
        data.get(start..end.min(data.len()))
    }

    /// The section's bytes as they are in the file.
    ///
    /// # Errors
    /// Where they reach beyond the file's end.
    pub fn section_bytes(&self, section: &Section) -> Result<&[u8], ElfError> {
        if section.is_without_bytes() {
            return Ok(&[]);
        }
        let data = self.data();
        let range = usize::try_from(section.file_offset.0).ok().and_then(|start| {
            let end = start.checked_add(usize::try_from(section.size).ok()?)?;
            data.get(start..end)
        });
        range.ok_or_else(|| ElfError::SectionRange {
            name: String::from_utf8_lossy(&section.name).into_owned(),
            offset: section.file_offset.0,
            size: section.size,
            file_size: data.len() as u64,
        })
    }

    /// The section's contents: unpacked where it is compressed (`SHF_COMPRESSED` with zlib or zstd, or the older
    /// `.zdebug_…` form), else borrowed from the file.
    ///
    /// # Errors
    /// Where its bytes reach beyond the file's end, cannot be unpacked, or would take more memory than they may; also where a
    /// compressed section is one that is loaded when the program runs, which no compiler writes.
    pub fn section_contents(&self, section: &Section) -> Result<Contents<'_>, ElfError> {
        let bytes = self.section_bytes(section)?;
        compression::unpack(section, bytes, self.headers.is_64, self.headers.endian, &self.unpack_budget)
    }

    /// The contents of the section with this name, unpacked; `None` where there is no such section, or it has no
    /// bytes here. `.debug_x` also finds `.zdebug_x`.
    ///
    /// # Errors
    /// As [`Object::section_contents`].
    pub fn contents(&self, name: &str) -> Result<Option<Contents<'_>>, ElfError> {
        self.contents_section(name).map(|section| self.section_contents(section)).transpose()
    }

    /// The symbols of one table, in its order. Empty where the table is absent or lies outside the file.
    pub fn symbols(&self, source: SymbolSource) -> impl Iterator<Item = Symbol<'_>> {
        symbol::symbols(self.data(), &self.headers, source)
    }

    /// The strings that the names of a table's symbols are in; empty where the table is absent.
    pub fn symbol_strings(&self, source: SymbolSource) -> &[u8] {
        symbol::strings(self.data(), &self.headers, source)
    }

    /// Returns true if there is a table with at least one symbol beyond the null symbol.
    pub fn has_symbols(&self, source: SymbolSource) -> bool {
        self.symbols(source).nth(1).is_some()
    }

    /// The relocations of a `SHT_REL` or `SHT_RELA` section; none for any other section.
    pub fn relocations(&self, section: &Section) -> impl Iterator<Item = Relocation> {
        let bytes = self.section_bytes(section).unwrap_or_default();
        relocation::relocations(bytes, section.kind, self.headers.is_64, self.headers.endian)
    }
}

impl<D> fmt::Debug for Object<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Object")
            .field("machine", &self.headers.machine)
            .field("build_id", &self.headers.build_id)
            .field("segments", &self.headers.segments)
            .finish_non_exhaustive()
    }
}
