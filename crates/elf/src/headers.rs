//! Parses headers of any class and byte order into plain tables.

use alloc::string::ToString;
use alloc::vec::Vec;

use model::{BuildId, FileOffset, Svma};
use object::read::elf::{FileHeader, ProgramHeader as _, SectionHeader as _};
use object::{Endianness, ReadRef};

use crate::read_at::{Pieces, ReadAt};
use crate::table::MAX_ENTRIES;
use crate::{ElfError, Machine, Section, Segment, note};

/// The maximum number of sections; further ones are left out. No linked program has a thousand, a relocatable object some ten thousand.
const MAX_SECTIONS: usize = 1 << 16;

/// The maximum length of a section name; longer ones are cut. No name that is looked up is longer, and the names of a hostile file may all
/// be parts of one as long as the file.
const MAX_SECTION_NAME_BYTES: usize = 64;

/// The parsed headers, from which all other answers are made.
pub(crate) struct Headers {
    pub(crate) is_64: bool,
    pub(crate) endian: Endianness,
    pub(crate) machine: Machine,
    pub(crate) entry: Svma,
    pub(crate) build_id: Option<BuildId>,
    pub(crate) segments: Vec<Segment>,
    pub(crate) dynamic: Option<(FileOffset, u64)>,
    pub(crate) eh_frame_header: Option<(Svma, FileOffset, u64)>,
    pub(crate) sections: Vec<Section>,
}

impl Headers {
    /// Reads the headers of a file piece by piece.
    ///
    /// # Errors
    /// As [`Self::parse`].
    pub(crate) fn read(file: &impl ReadAt) -> Result<Self, ElfError> {
        let mut pieces = Pieces::from_start(file);
        loop {
            let headers = Self::parse(&pieces);
            if !pieces.complete(file) {
                return headers;
            }
        }
    }

    /// Reads the headers.
    ///
    /// # Errors
    /// Where there is no ELF header, or where program headers are announced and cannot be read. Section headers
    /// are optional (`sstrip`, files cut short): without usable ones the object has no sections.
    pub(crate) fn parse<'a, R: ReadRef<'a>>(data: R) -> Result<Self, ElfError> {
        let length = data.len().unwrap_or(0).min(5);
        let beginning = data.read_bytes_at(0, length).unwrap_or_default();
        let magic = beginning.get(..4).unwrap_or(beginning);
        if magic != b"\x7fELF" {
            return Err(ElfError::NotElf { found: magic.into() });
        }
        match beginning.get(4) {
            Some(1) => read::<object::elf::FileHeader32<Endianness>, R>(data),
            Some(2) => read::<object::elf::FileHeader64<Endianness>, R>(data),
            _ => Err(ElfError::Header { what: "e_ident[EI_CLASS] says neither 32 nor 64 bit".to_string() }),
        }
    }
}

fn read<'a, Elf: FileHeader<Endian = Endianness>, R: ReadRef<'a>>(data: R) -> Result<Headers, ElfError> {
    let header = Elf::parse(data).map_err(|error| ElfError::Header { what: error.to_string() })?;
    let endian = header.endian().map_err(|error| ElfError::Header { what: error.to_string() })?;
    let program_headers = header.program_headers(endian, data).map_err(|error| ElfError::ProgramHeaders {
        offset: header.e_phoff(endian).into(),
        what: error.to_string(),
    })?;
    let place = |kind| program_headers.iter().find(|segment| segment.p_type(endian) == kind);
    Ok(Headers {
        is_64: header.is_type_64(),
        endian,
        machine: Machine(header.e_machine(endian).0),
        entry: Svma(header.e_entry(endian).into()),
        build_id: note::build_id(header, endian, data),
        segments: program_headers
            .iter()
            .filter(|segment| segment.p_type(endian) == object::elf::PT_LOAD)
            .take(MAX_ENTRIES)
            .map(|segment| Segment {
                file_offset: FileOffset(segment.p_offset(endian).into()),
                address: Svma(segment.p_vaddr(endian).into()),
                file_size: segment.p_filesz(endian).into(),
                memory_size: segment.p_memsz(endian).into(),
                executable: segment.p_flags(endian).contains(object::elf::PF_X),
                writable: segment.p_flags(endian).contains(object::elf::PF_W),
            })
            .collect(),
        dynamic: place(object::elf::PT_DYNAMIC)
            .map(|segment| (FileOffset(segment.p_offset(endian).into()), segment.p_filesz(endian).into())),
        eh_frame_header: place(object::elf::PT_GNU_EH_FRAME).map(|segment| {
            (
                Svma(segment.p_vaddr(endian).into()),
                FileOffset(segment.p_offset(endian).into()),
                segment.p_filesz(endian).into(),
            )
        }),
        sections: sections(header, endian, data),
    })
}

fn sections<'a, Elf: FileHeader<Endian = Endianness>, R: ReadRef<'a>>(
    header: &Elf,
    endian: Endianness,
    data: R,
) -> Vec<Section> {
    let Ok(headers) = header.section_headers(endian, data) else { return Vec::new() };
    let section_strings = header
        .section_strings_index(endian, data)
        .ok()
        .and_then(|index| headers.get(index.0)?.data(endian, data).ok())
        .unwrap_or_default();
    let name = |section: &Elf::SectionHeader| {
        let (strings, offset) = (section_strings, section.sh_name(endian) as usize);
        let near = strings.get(offset..).unwrap_or_default();
        let near = near.get(..MAX_SECTION_NAME_BYTES).unwrap_or(near);
        near.split(|&byte| byte == 0).next().unwrap_or_default().into()
    };
    headers
        .iter()
        .take(MAX_SECTIONS)
        .map(|section| Section {
            name: name(section),
            address: Svma(section.sh_addr(endian).into()),
            file_offset: FileOffset(section.sh_offset(endian).into()),
            size: section.sh_size(endian).into(),
            kind: section.sh_type(endian).0,
            flags: section.sh_flags(endian).0,
            link: section.sh_link(endian),
            info: section.sh_info(endian),
            entry_size: section.sh_entsize(endian).into(),
        })
        .collect()
}
