//! Object files: what an ELF image says about its code, without reading a file or trusting a byte.
//!
//! [`Object`] takes the bytes of an ELF file (32 or 64 bit, either byte order) and answers for its build id, its
//! program headers (the only place of the project where a [`model::FileOffset`] becomes a [`model::Svma`]), its
//! sections with their contents decompressed, its symbols, and the names of the files that hold the rest of its
//! debug information. What the caller must supply: all of the file's bytes, unchanged while the object lives; or a way
//! to read them piece by piece ([`ReadAt`]), for what is known by the headers and for single sections.
//!
//! Not handled: core dumps and relocatable objects beyond their sections, and archives.
#![no_std]
#![warn(missing_docs)]
#![cfg_attr(
    not(test),
    warn(clippy::indexing_slicing, clippy::string_slice, clippy::panic, clippy::unreachable)
)]

extern crate alloc;

mod call;
mod compression;
mod dynamic;
mod error;
mod headers;
mod link;
mod machine;
mod note;
mod object;
mod read_at;
mod relocation;
mod section;
mod section_reader;
mod segment;
mod symbol;
mod unpacked;

pub use error::ElfError;
pub use link::{AltLink, DebugLink, debug_link_crc};
pub use machine::Machine;
pub use object::Object;
pub use read_at::ReadAt;
pub use relocation::Relocation;
pub use section::Section;
pub use section_reader::SectionReader;
pub use segment::{Segment, svma_of};
pub use symbol::{MAX_NAME_BYTES, Symbol, SymbolKind, SymbolSource, name_at};
pub use unpacked::{Contents, UnpackBudget, UnpackLimit, Unpacked};

pub use ::object::Endianness;
