//! The build id of a file that a process has mapped, by one read.

use model::BuildId;
use object::elf::{FileHeader32, FileHeader64};
use object::read::elf::FileHeader;
use object::{Endianness, ReadRef};

use crate::headers::Headers;
use crate::note;
use crate::read_at::{Pieces, ReadAt};
use crate::table::MAX_ENTRIES;

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
    note::build_id_in_segments(header, header.endian().ok()?, pieces, &mut { MAX_ENTRIES })
}
