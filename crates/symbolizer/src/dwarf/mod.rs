//! DWARF: the function, the inlined calls and the source line of an address.
//!
//! Every unit states the address ranges that it covers ([`units`]). A unit that covers a wanted address is read from end
//! to end, once for all of its wanted addresses ([`walk`]). Names are read for entries that cover one of them only
//! ([`names`]). The walk for functions and inlined calls is our own: addr2line's recurses as deep as the file nests
//! entries, and reads line tables that a flame graph does not need. Lines come from addr2line ([`lines`]).

mod lines;
mod names;
mod ranges;
mod scopes;
mod sections;
mod split;
mod unit;
mod unit_walks;
mod units;
mod walk;
mod work_budget;

pub(crate) use lines::{Lines, call_location, discriminators};
pub(crate) use names::{DwarfFile, EntryNames};
pub(crate) use sections::{Sections, Unpacked};
pub use split::SplitUnit;
pub(crate) use split::{PackageSections, SplitObject, find_split, split_unit, unit_of_package};
pub(crate) use unit::read_unit;
pub(crate) use unit_walks::UnitWalks;
pub(crate) use units::{UnitIndex, UnitRanges};
pub(crate) use walk::MAX_INLINED;
pub(crate) use walk::UnitFrames;
pub(crate) use work_budget::WorkBudget;

pub(crate) type Reader<'a> = gimli::EndianSlice<'a, gimli::RunTimeEndian>;
pub(crate) type Dwarf<'a> = gimli::Dwarf<Reader<'a>>;
pub(crate) type Unit<'a> = gimli::Unit<Reader<'a>>;
