use alloc::string::String;

use crate::UnpackLimit;

/// The reason why an image, or a part of it, cannot be used.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ElfError {
    /// The first four bytes are not `\x7fELF`.
    #[error("not an ELF file: it starts with {found:02x?}")]
    NotElf {
        /// Up to four bytes.
        found: alloc::vec::Vec<u8>,
    },
    /// A class, byte order or version that the ELF specification does not define, or a header that is cut off.
    #[error("unusable ELF header: {what}")]
    Header {
        /// The parser's error.
        what: String,
    },
    /// The program headers lie outside the file or have a strange size.
    #[error("unusable program headers at {offset:#x}: {what}")]
    ProgramHeaders {
        /// `e_phoff`.
        offset: u64,
        /// The parser's error.
        what: String,
    },
    /// A section's bytes lie outside the file.
    #[error("section {name} at {offset:#x} with {size:#x} bytes reaches beyond the file's {file_size:#x}")]
    SectionRange {
        /// The section.
        name: String,
        /// `sh_offset`.
        offset: u64,
        /// `sh_size`.
        size: u64,
        /// The length of the file.
        file_size: u64,
    },
    /// A compressed section that cannot be unpacked.
    #[error("compressed section {name} at {offset:#x}: {what}")]
    Compression {
        /// The section.
        name: String,
        /// `sh_offset`.
        offset: u64,
        /// The damage, in words.
        what: &'static str,
    },
    /// A compressed section that would take more memory than it may.
    #[error(
        "compressed section {name} at {offset:#x} is not unpacked: it says that it has {unpacked} bytes, {limit}"
    )]
    UnpackedSize {
        /// The section.
        name: String,
        /// `sh_offset`.
        offset: u64,
        /// The size that its header states.
        unpacked: u64,
        /// The limit that this exceeds.
        limit: UnpackLimit,
    },
}
