#![doc = include_str!("../README.md")]
//!
//! # The caller supplies
//! - for an object: its [`elf::Object`], and those with the rest of its debug information ([`ObjectFiles`]). The
//!   objects name them ([`elf::Object::debug_link`], [`elf::Object::alt_link`], [`minidebug`]); split units are
//!   requested by name while their skeletons are read ([`SplitUnit`]);
//! - for the kernel: the text of `/proc/kallsyms` ([`Kallsyms`]);
//! - for a file that the recording itself describes: its functions ([`FunctionRanges`]).
//!
//! Keep the [`ObjectIndex`] of an object to resolve more of its addresses later without reading its tables again.
#![warn(missing_docs)]
#![cfg_attr(
    not(test),
    warn(clippy::indexing_slicing, clippy::string_slice, clippy::panic, clippy::unreachable)
)]

pub mod archived;
mod data_symbolizer;
mod dwarf;
mod function_end;
mod function_ranges;
mod function_symbol;
mod gopclntab;
mod kallsyms;
mod minidebug;
mod names;
mod near_functions;
mod object;
mod object_files;
mod object_index;
mod plt;
mod resolutions;
mod scoped_types;
mod string_tables;
mod symbol_table;

pub use data_symbolizer::DataSymbolizer;
pub use dwarf::SplitUnit;
pub use function_ranges::FunctionRanges;
pub use gopclntab::{GoFrame, GoLineTable};
pub use kallsyms::{Kallsyms, KernelSymbol};
pub use minidebug::minidebug;
pub use names::{NameStyle, display_name};
pub use object::{LookupAddress, ObjectSymbolizer, Options, Plan, WalkedUnit};
pub use object_files::ObjectFiles;
pub use object_index::ObjectIndex;
pub use resolutions::Resolutions;

// Public functions take and return types of these crates.
pub use elf;
pub use model;

/// Maximum number of entries that are read of a table of an object, of its functions above all. Chromium has 1.5 million.
pub(crate) const MAX_TABLE_ENTRIES: usize = 1 << 22;
