//! Notes: the build id.

use model::BuildId;
use object::ReadRef;
use object::read::elf::{FileHeader, ProgramHeader as _, SectionHeader as _};

use crate::table::MAX_ENTRIES;

/// The owner and type of a build id's note: `NT_GNU_BUILD_ID`.
const OWNER: &[u8] = b"GNU";

/// The build id. Sections are asked before program headers: in a separate debug file the program headers still
/// speak of the original's layout, and its notes are moved.
pub(crate) fn build_id<'a, Elf: FileHeader, R: ReadRef<'a>>(
    header: &Elf,
    endian: Elf::Endian,
    data: R,
) -> Option<BuildId> {
    let mut left = MAX_ENTRIES;
    let in_sections =
        header.section_headers(endian, data).unwrap_or_default().iter().find_map(|section| {
            build_id_among(section.notes(endian, data).ok().flatten()?, endian, &mut left)
        });
    in_sections.or_else(|| build_id_in_segments(header, endian, data, &mut left))
}

/// Returns the build id in the notes of the program headers.
pub(crate) fn build_id_in_segments<'a, Elf: FileHeader, R: ReadRef<'a>>(
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
