#![doc = include_str!("../README.md")]
#![no_std]
#![warn(missing_docs)]
#![cfg_attr(
    not(test),
    warn(clippy::indexing_slicing, clippy::string_slice, clippy::panic, clippy::unreachable)
)]

extern crate alloc;

mod compression;
mod dynamic;
mod error;
mod headers;
mod link;
mod machine;
mod mapped;
mod note;
mod object;
mod object_source;
mod read_at;
mod relocation;
mod section;
mod section_reader;
mod segment;
mod symbol;
mod symbol_table;
mod table;
mod unpacked;
pub mod x86_64;

pub use compression::{ALWAYS_UNPACKED_BYTES, MAX_RATIO};
pub use error::ElfError;
pub use link::{AltLink, DebugLink, debug_link_crc};
pub use machine::Machine;
pub use mapped::build_id_of_mapped;
pub use object::Object;
pub use object_source::{ObjectSource, OpenedObject};
pub use read_at::ReadAt;
pub use relocation::Relocation;
pub use section::Section;
pub use section_reader::SectionReader;
pub use segment::{Segment, svma_of};
pub use symbol::{MAX_NAME_BYTES, Symbol, SymbolKind, SymbolSource, name_at};
pub use symbol_table::{SymbolTable, may_export};
pub use unpacked::{Contents, UnpackBudget, UnpackLimit, Unpacked};

pub use ::object::Endianness;

// Types that appear in the signatures of this crate's functions.
pub use model;
