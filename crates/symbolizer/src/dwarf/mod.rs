//! DWARF: which function and which inlined calls an address belongs to, and at which line.
//!
//! The way taken: every unit says which addresses it covers ([`units`]); a unit that covers one that is asked for
//! is read from end to end, once, for all of its addresses together ([`walk`]); names are looked up for what was
//! hit only ([`names`]). Functions and inlined calls come from an own walk, since addr2line's recurses as deep as the
//! file says, and reads line tables that a flame graph does not need; lines come from addr2line ([`lines`]).

mod functions;
mod lines;
mod names;
mod ranges;
mod sections;
mod split;
mod unit;
mod units;
mod walk;
mod work;

pub(crate) use functions::Walks;
pub(crate) use lines::{Lines, call_location};
pub(crate) use names::{EntryNames, File};
pub(crate) use sections::{Sections, Unpacked};
pub use split::SplitUnit;
pub(crate) use split::{PackageSections, SplitObject, find_split, split_unit, unit_of_package};
pub(crate) use unit::read_unit;
pub(crate) use units::{UnitIndex, UnitRanges};
pub(crate) use walk::UnitWalk;
pub(crate) use work::WorkBudget;

pub(crate) type Reader<'a> = gimli::EndianSlice<'a, gimli::RunTimeEndian>;
pub(crate) type Dwarf<'a> = gimli::Dwarf<Reader<'a>>;
pub(crate) type Unit<'a> = gimli::Unit<Reader<'a>>;
