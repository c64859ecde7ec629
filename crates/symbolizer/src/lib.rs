#![doc = include_str!("../README.md")]
//!
//! # The caller supplies
//! - for an object: its [`elf::Object`] and those that hold the rest of its debug information ([`ObjectFiles`]);
//!   which these are, the objects themselves say ([`elf::Object::debug_link`], [`elf::Object::alt_link`],
//!   [`minidebug`]), and split DWARF is asked for by name while it is read ([`SplitUnit`]);
//! - for the kernel: the text of `/proc/kallsyms` ([`Kallsyms`]);
//! - for generated code: the functions of a `/tmp/perf-PID.map` ([`FunctionRanges`]).
//!
//! What is worth keeping of an object between two resolutions is its [`ObjectIndex`].
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

// Their types are those of the functions here.
pub use elf;
pub use model;
