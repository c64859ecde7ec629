//! The section of mapped files: what the recorder read of the files that MMAP2 records name by device, inode and generation.

use decoder::Endian;
use model::{BuildId, FileIdentity, Timestamp};

/// The layout of the section: this number (u64), then the files.
const VERSION: u64 = 1;
/// Bytes of a file: major, minor (u32 each), inode, generation, since when, size (u64 each), time of the last modification (i64),
/// length of the build id (u8), the build id padded to 20 bytes, 1 if it is foreign (u8), two zeros.
const ENTRY: usize = 72;
/// Position of the length of the build id in it, and of the mark of foreign files.
const LENGTH: usize = 48;
const FOREIGN: usize = 69;

/// A file that was mapped, as it was from some moment on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MappedFile {
    /// The file, as MMAP2 records have it. The generation is 0 where the recorder found the mapping in `/proc/PID/maps`.
    pub file: FileIdentity,
    /// The first moment for which this holds, in the recording's clock: a file that is written in place stays the same inode. 0 for
    /// what was so when the file was first mapped.
    pub since: Timestamp,
    /// The build id; `None` if the file has none.
    pub build_id: Option<BuildId>,
    /// The size in bytes.
    pub size: u64,
    /// The time of the last modification (`st_mtim` of stat(3type)), in nanoseconds since 1970.
    pub modified: i64,
    /// True if an unprivileged user may have made the recorded path lead to this file (in a mount namespace of another user namespace,
    /// for instance): then only its inode says what it is, not path and build id.
    pub is_foreign: bool,
}

/// Encodes the section ([`super::id::MAPPED_FILES`]).
pub fn to_section<'a>(files: impl IntoIterator<Item = &'a MappedFile>) -> Vec<u8> {
    let mut section = VERSION.to_ne_bytes().to_vec();
    for MappedFile { file, since, build_id, size, modified, is_foreign } in files {
        section.extend(file.major.to_ne_bytes());
        section.extend(file.minor.to_ne_bytes());
        for word in [file.inode, file.generation, since.0, *size] {
            section.extend(word.to_ne_bytes());
        }
        section.extend(modified.to_ne_bytes());
        let id = build_id.as_ref().map_or(&[][..], BuildId::as_bytes);
        let mut padded = [0; 24];
        let bytes = std::iter::once(id.len() as u8).chain(id.iter().copied());
        padded.iter_mut().zip(bytes).for_each(|(to, from)| *to = from);
        padded[FOREIGN - LENGTH] = u8::from(*is_foreign);
        section.extend(padded);
    }
    section
}

/// Decodes the section. Leaves out what is cut off, and everything where it is of another version.
pub fn from_section(section: &[u8], endian: Endian) -> Vec<MappedFile> {
    let Some((version, files)) = section.split_first_chunk::<8>() else { return Vec::new() };
    if endian.u64(*version) != VERSION {
        return Vec::new();
    }
    files.as_chunks::<ENTRY>().0.iter().map(|bytes| parse(bytes, endian)).collect()
}

/// Decodes all such sections among `sections`.
pub fn in_sections(sections: &[(u32, Vec<u8>)], endian: Endian) -> impl Iterator<Item = MappedFile> {
    let of_files = sections.iter().filter(|(id, _)| *id == super::id::MAPPED_FILES);
    of_files.flat_map(move |(_, section)| from_section(section, endian))
}

fn parse(bytes: &[u8; ENTRY], endian: Endian) -> MappedFile {
    let word = |at: usize| {
        let bytes = bytes.get(at..).and_then(|bytes| bytes.first_chunk());
        endian.u64(bytes.copied().unwrap_or_default())
    };
    let half = |at: usize| {
        let bytes = bytes.get(at..).and_then(|bytes| bytes.first_chunk());
        endian.u32(bytes.copied().unwrap_or_default())
    };
    let length = usize::from(bytes[LENGTH]);
    let id = bytes[LENGTH + 1..FOREIGN].get(..length);
    MappedFile {
        file: FileIdentity { major: half(0), minor: half(4), inode: word(8), generation: word(16) },
        since: Timestamp(word(24)),
        build_id: id.and_then(BuildId::from_bytes),
        size: word(32),
        modified: word(40).cast_signed(),
        is_foreign: bytes[FOREIGN] != 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_reads_as_it_was_written() {
        let file = |inode, id: &[u8]| MappedFile {
            file: FileIdentity { major: 254, minor: 1, inode, generation: 7 },
            since: Timestamp(inode - 2),
            build_id: BuildId::from_bytes(id),
            size: 1 << 40,
            modified: -5,
            is_foreign: inode == 3,
        };
        let files = [file(2, &[3; 20]), file(3, &[]), file(4, &[1, 0])];
        let section = to_section(&files);
        assert_eq!(from_section(&section, Endian::NATIVE), files);
        for cut in 0..section.len() {
            assert!(files.starts_with(&from_section(&section[..cut], Endian::NATIVE)));
        }
        let mut long = section.clone();
        long[8 + 48] = 21;
        assert_eq!(from_section(&long, Endian::NATIVE)[0].build_id, None);
        let other = [&2_u64.to_ne_bytes(), &section[8..]].concat();
        assert_eq!(from_section(&other, Endian::NATIVE), []);
    }
}
