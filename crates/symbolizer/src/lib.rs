//! Places to names: what function, inlined chain and source line a place in a [`model::Space`] belongs to.
//!
//! Pure: bytes in, [`model::Resolution`]s out. The caller opens files and supplies
//! - for an object: its [`elf::Object`] and those that hold the rest of its debug information ([`ObjectFiles`]);
//!   which these are, the objects themselves say ([`elf::Object::debug_link`], [`elf::Object::alt_link`],
//!   [`minidebug`]), and split DWARF is asked for by name while it is read ([`SplitUnit`]);
//! - for the kernel: the text of `/proc/kallsyms` ([`Kallsyms`]);
//! - for generated code: the lines of a `/tmp/perf-PID.map` ([`PerfMapSearch`]).
//!
//! Work is done per unique place, never per sample: [`ObjectSymbolizer::plan`] takes all places of an object at
//! once, each compilation unit that one of them lies in is walked once ([`ObjectSymbolizer::walk`], on any
//! thread), and [`ObjectSymbolizer::finish`] puts the answers together. What is worth keeping of an object between two
//! lots of places is its [`ObjectIndex`].
//!
//! Not handled: Mach-O, PE, and DWARF 1.
#![warn(missing_docs)]
#![cfg_attr(
    not(test),
    warn(clippy::indexing_slicing, clippy::string_slice, clippy::panic, clippy::unreachable)
)]

pub mod archived;
mod data;
mod dwarf;
mod function_ranges;
mod gopclntab;
mod kallsyms;
mod minidebug;
mod names;
mod object;
mod object_index;
mod plt;
mod resolutions;
mod strings;
mod symbol_table;

pub use data::DataSymbolizer;
pub use dwarf::SplitUnit;
pub use function_ranges::FunctionRanges;
pub use kallsyms::{Kallsyms, KernelSymbol};
pub use minidebug::minidebug;
pub use names::{NameStyle, display_name};
pub use object::{ObjectFiles, ObjectSymbolizer, Options, Place, Plan, Walked};
pub use object_index::ObjectIndex;
pub use resolutions::Resolutions;
