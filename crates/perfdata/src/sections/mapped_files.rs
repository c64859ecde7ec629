//! The section of mapped files: what the recorder read of the files that MMAP2 records name by device, inode and generation.
//!
//! Layout: the version (u64), then the files: major, minor (u32 each), inode, generation, since when, size (u64 each), time of the last
//! modification (i64), length of the build id (u8), the build id padded to 20 bytes, 1 if it is foreign (u8), two zeros.

use decoder::Endian;
use model::{BuildId, FileIdentity, Timestamp};

use super::{VERSION, entries, of_version_1};

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
        let mut padded = [0; 20];
        padded.iter_mut().zip(id).for_each(|(to, from)| *to = *from);
        section.push(id.len() as u8);
        section.extend(padded);
        section.extend([u8::from(*is_foreign), 0, 0]);
    }
    section
}

/// Decodes the section. Leaves out what is cut off, and everything where it is of another version.
pub fn from_section(section: &[u8], endian: Endian) -> Vec<MappedFile> {
    entries(of_version_1(section, "mapped files", endian), usize::MAX, |bytes| {
        let (major, minor) = (bytes.u32("major")?, bytes.u32("minor")?);
        let (inode, generation) = (bytes.u64("inode")?, bytes.u64("generation")?);
        let (since, size) = (Timestamp(bytes.u64("since")?), bytes.u64("size")?);
        let modified = bytes.u64("modified")?.cast_signed();
        let [length, id @ .., foreign, _, _] = bytes.array::<24>("build id")?;
        let build_id = id.get(..usize::from(length)).and_then(BuildId::from_bytes);
        let file = FileIdentity { major, minor, inode, generation };
        Ok(MappedFile { file, since, build_id, size, modified, is_foreign: foreign != 0 })
    })
}

/// Decodes all such sections among `sections`.
pub fn in_sections(sections: &[(u32, Vec<u8>)], endian: Endian) -> impl Iterator<Item = MappedFile> {
    let of_files = sections.iter().filter(|(id, _)| *id == super::id::MAPPED_FILES);
    of_files.flat_map(move |(_, section)| from_section(section, endian))
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
