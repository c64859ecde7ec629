//! Notes: the build id.

use model::BuildId;
use object::elf::{FileHeader32, FileHeader64};
use object::read::elf::{FileHeader, ProgramHeader as _, SectionHeader as _};
use object::{Endianness, ReadRef};

use crate::headers::Headers;
use crate::read_at::{Pieces, ReadAt};

/// The owner and type of a build id's note: `NT_GNU_BUILD_ID`.
const OWNER: &[u8] = b"GNU";

/// The maximum number of notes that are read. Programs have a few; sections of a hostile file may all be the same long list.
const MAX_NOTES: usize = 1 << 12;

/// The build id. Sections are asked before program headers: in a separate debug file the program headers still
/// speak of the original's layout, and its notes are moved.
pub(crate) fn build_id<'a, Elf: FileHeader, R: ReadRef<'a>>(
    header: &Elf,
    endian: Elf::Endian,
    data: R,
) -> Option<BuildId> {
    let mut left = MAX_NOTES;
    let in_sections =
        header.section_headers(endian, data).unwrap_or_default().iter().find_map(|section| {
            build_id_among(section.notes(endian, data).ok().flatten()?, endian, &mut left)
        });
    in_sections.or_else(|| build_id_in_segments(header, endian, data, &mut left))
}

/// Returns the build id of a program or library that a process has mapped. Linkers put it behind the program headers, so that one read
/// of the first 4096 bytes does; the rest is read as by [`Object::read`](crate::Object::read) where that is not so. Not for separate
/// debug files.
pub fn build_id_of_mapped(file: &impl ReadAt) -> Option<BuildId> {
    let pieces = Pieces::from_start(file);
    let of_class = match pieces.read_bytes_at(4, 1) {
        Ok([1]) => in_first_piece::<FileHeader32<Endianness>>(&pieces),
        Ok([2]) => in_first_piece::<FileHeader64<Endianness>>(&pieces),
        _ => None,
    };
    of_class.or_else(|| Headers::read(file).ok()?.build_id)
}

fn in_first_piece<Elf: FileHeader<Endian = Endianness>>(pieces: &Pieces) -> Option<BuildId> {
    let header = Elf::parse(pieces).ok()?;
    build_id_in_segments(header, header.endian().ok()?, pieces, &mut { MAX_NOTES })
}

fn build_id_in_segments<'a, Elf: FileHeader, R: ReadRef<'a>>(
    header: &Elf,
    endian: Elf::Endian,
    data: R,
    left: &mut usize,
) -> Option<BuildId> {
    let segments = header.program_headers(endian, data).unwrap_or_default();
    segments
        .iter()
        .find_map(|segment| build_id_among(segment.notes(endian, data).ok().flatten()?, endian, left))
}

fn build_id_among<Elf: FileHeader>(
    mut notes: object::read::elf::NoteIterator<'_, Elf>,
    endian: Elf::Endian,
    left: &mut usize,
) -> Option<BuildId> {
    while let Ok(Some(note)) = notes.next() {
        *left = left.checked_sub(1)?;
        if note.name() == OWNER && note.n_type(endian) == object::elf::NT_GNU_BUILD_ID {
            return BuildId::from_bytes(note.desc());
        }
    }
    None
}
