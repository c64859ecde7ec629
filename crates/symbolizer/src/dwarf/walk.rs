//! One walk through a unit, for all of its addresses together.
//!
//! Entries come in the order of the file: a function, then all that lies in it. So a stack of open functions and
//! inlined calls says at each entry what it lies in, and nothing has to be kept but what covers an address. Where the
//! compiler says where an entry's part ends (`DW_AT_sibling`, as GCC does), parts that can hardly hold code that is asked
//! for are not read.

use gimli::{Abbreviation, AttributeValue, EntriesRaw, UnitOffset, UnitRef};

use super::Reader;
use super::functions::UnitFunctions;
use super::ranges::RangeAttributes;

/// A function or inlined call that covers an address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct DwarfFrame {
    /// The entry, in its unit.
    pub(crate) entry: UnitOffset,
    /// The place of the call, of an inlined one.
    pub(crate) call: Option<CallSite>,
}

/// `DW_AT_call_file`, `DW_AT_call_line`, `DW_AT_call_column`: a place in the caller.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct CallSite {
    /// An index into the files of the unit's line table.
    pub(crate) file: Option<u64>,
    pub(crate) line: u32,
    pub(crate) column: u32,
}

/// The functions and inlined calls that the walk of a unit found.
pub(crate) struct UnitWalk {
    /// For each address the frames that cover it, outermost first; none where no function does.
    pub(crate) frames: Vec<Vec<DwarfFrame>>,
}

/// Calls nested deeper than this no compiler makes.
const MAX_INLINED: usize = 512;

/// Functions nested deeper than this no compiler makes.
const MAX_OPEN: usize = 1 << 12;

/// Range lists may be shared; a hostile file shares a long one between all entries. So many of their entries are read for each
/// byte of the unit, for each address, and in any case.
const STEPS: (usize, usize, usize) = (4, 1 << 10, 1 << 12);

/// A function on the way from the root to the current entry.
struct OpenFunction {
    depth: isize,
    number: u32,
    /// True if it covers an address at all.
    hit: bool,
    /// Inlined calls that are open in it: depth and number.
    calls: Vec<(isize, u32)>,
}

/// The functions found at one address so far.
#[derive(Default)]
struct Hit {
    function: u32,
    /// The length of the range that covers it: of two functions the more precise one counts.
    length: u64,
    frames: Vec<DwarfFrame>,
    /// The number of the innermost inlined call.
    innermost: u32,
}

impl UnitWalk {
    /// Looks through a unit. `addresses` are sorted. A unit that is damaged somewhere is read up to there.
    pub(crate) fn new(unit: UnitRef<'_, Reader<'_>>, addresses: &[u64]) -> Self {
        let mut walk = Walk::new(unit, addresses);
        walk.may_skip = true;
        let end = walk.run(None);
        if walk.has_skipped && (end.is_err() || walk.hits.iter().any(|hit| hit.frames.is_empty())) {
            // A function in a function (Ada, Fortran, GNU C) has code outside of that one's.
            walk = Walk::new(unit, addresses);
            // What has been found before a damaged entry is true all the same.
            let _ = walk.run(None);
        }
        walk.found()
    }

    /// As [`Self::new`], with all functions that were met.
    pub(crate) fn with_functions(unit: UnitRef<'_, Reader<'_>>, addresses: &[u64]) -> (Self, UnitFunctions) {
        let mut walk = Walk::new(unit, addresses);
        let mut all = UnitFunctions::default();
        walk.all = Some(&mut all);
        let _ = walk.run(None);
        (walk.found(), all)
    }

    /// As [`Self::new`], reading only those of the unit's functions that may matter.
    pub(crate) fn of_functions(
        unit: UnitRef<'_, Reader<'_>>,
        addresses: &[u64],
        functions: &UnitFunctions,
    ) -> Self {
        let mut walk = Walk::new(unit, addresses);
        let mut end = UnitOffset(0);
        for entry in functions.covering(addresses) {
            // One that lies in another one has been read with it.
            if entry >= end {
                match walk.run(Some(entry)) {
                    Ok(after) => end = after,
                    Err(_) => break,
                }
            }
        }
        walk.found()
    }
}

struct Walk<'w, 'a> {
    unit: UnitRef<'w, Reader<'a>>,
    addresses: &'w [u64],
    hits: Vec<Hit>,
    functions: Vec<OpenFunction>,
    next_number: u32,
    /// The number of ranges, and addresses in them, that may still be looked at.
    steps: usize,
    /// A list that gets all functions that are met.
    all: Option<&'w mut UnitFunctions>,
    /// True if parts may be left out that should not matter; `has_skipped` says that one was.
    may_skip: bool,
    has_skipped: bool,
}

impl<'w, 'a> Walk<'w, 'a> {
    fn new(unit: UnitRef<'w, Reader<'a>>, addresses: &'w [u64]) -> Self {
        let (for_byte, for_address, always) = STEPS;
        let bytes = unit.header.unit_length().saturating_mul(for_byte);
        let steps = bytes.saturating_add(addresses.len().saturating_mul(for_address)).saturating_add(always);
        Self {
            unit,
            addresses,
            hits: addresses.iter().map(|_| Hit::default()).collect(),
            functions: Vec::new(),
            next_number: 1,
            steps,
            all: None,
            may_skip: false,
            has_skipped: false,
        }
    }

    fn found(self) -> UnitWalk {
        UnitWalk { frames: self.hits.into_iter().map(|hit| hit.frames).collect() }
    }

    /// Reads one entry with all that lies in it, or the unit; returns where what was read ends.
    fn run(&mut self, start: Option<UnitOffset>) -> gimli::Result<UnitOffset> {
        let unit = self.unit;
        let mut entries = unit.entries_raw(start)?;
        // The depth of the entry that they start with.
        let mut base = 0;
        // Whatever was open belongs to another part.
        self.functions.clear();
        while !entries.is_empty() {
            let offset = entries.next_offset();
            let depth = base + entries.next_depth();
            if start.is_some_and(|start| depth <= 0 && offset != start) {
                break;
            }
            let Some(abbreviation) = entries.read_abbreviation()? else { continue };
            self.close(depth);
            let behind = match abbreviation.tag() {
                gimli::DW_TAG_subprogram => {
                    let mut ranges = RangeAttributes::default();
                    let mut sibling = None;
                    for specification in abbreviation.attributes() {
                        let attribute = entries.read_attribute(*specification)?;
                        match attribute.name() {
                            gimli::DW_AT_sibling => sibling = Some(attribute.value()),
                            _ => ranges.take(&attribute, unit),
                        }
                    }
                    let hit = self.function(offset, depth, &ranges);
                    sibling.filter(|_| !hit)
                }
                gimli::DW_TAG_inlined_subroutine
                    if self.functions.last().is_some_and(|function| function.hit) =>
                {
                    let mut ranges = RangeAttributes::default();
                    let mut call = CallSite::default();
                    let mut sibling = None;
                    for specification in abbreviation.attributes() {
                        let attribute = entries.read_attribute(*specification)?;
                        let number = || attribute.udata_value().unwrap_or(0);
                        match attribute.name() {
                            gimli::DW_AT_call_file => call.file = self.file_index(attribute.value()),
                            gimli::DW_AT_call_line => call.line = u32::try_from(number()).unwrap_or(0),
                            gimli::DW_AT_call_column => call.column = u32::try_from(number()).unwrap_or(0),
                            gimli::DW_AT_sibling => sibling = Some(attribute.value()),
                            _ => ranges.take(&attribute, unit),
                        }
                    }
                    let hit = self.inlined(offset, depth, &ranges, call);
                    sibling.filter(|_| !hit)
                }
                gimli::DW_TAG_structure_type
                | gimli::DW_TAG_class_type
                | gimli::DW_TAG_union_type
                | gimli::DW_TAG_enumeration_type
                | gimli::DW_TAG_subroutine_type
                | gimli::DW_TAG_array_type => read_sibling(&mut entries, abbreviation)?,
                _ => {
                    entries.skip_attributes(abbreviation.attributes())?;
                    None
                }
            };
            if let Some(AttributeValue::UnitRef(behind)) = behind
                && self.may_skip
                && behind > entries.next_offset()
            {
                self.has_skipped = true;
                entries = unit.entries_raw(Some(behind))?;
                base = depth;
            }
        }
        Ok(entries.next_offset())
    }

    /// Before DWARF 5 the file number 0 means "none".
    fn file_index(&self, value: gimli::AttributeValue<Reader<'a>>) -> Option<u64> {
        let index = match value {
            gimli::AttributeValue::FileIndex(index) => index,
            value => value.udata_value()?,
        };
        (index > 0 || self.unit.header.version() >= 5).then_some(index)
    }

    /// Leaves the functions and calls that an entry at `depth` is no part of.
    fn close(&mut self, depth: isize) {
        while self.functions.pop_if(|function| depth <= function.depth).is_some() {}
        if let Some(function) = self.functions.last_mut() {
            while function.calls.pop_if(|&mut (call_depth, _)| depth <= call_depth).is_some() {}
        }
    }

    fn number(&mut self) -> u32 {
        let number = self.next_number;
        self.next_number = self.next_number.saturating_add(1);
        number
    }

    /// Takes a function, and says whether it covers an address.
    fn function(&mut self, entry: UnitOffset, depth: isize, ranges: &RangeAttributes) -> bool {
        let number = self.number();
        if let Some(all) = &mut self.all {
            ranges.for_each(self.unit, &mut self.steps, |begin, end| {
                all.push(entry, begin, end);
                true
            });
        }
        let mut hit = false;
        self.for_each_covered(ranges, |known, length| {
            if known.function == 0 || length < known.length {
                known.function = number;
                known.length = length;
                known.innermost = 0;
                known.frames.clear();
                known.frames.push(DwarfFrame { entry, call: None });
                hit = true;
            }
        });
        if self.functions.len() < MAX_OPEN {
            self.functions.push(OpenFunction { depth, number, hit, calls: Vec::new() });
        }
        hit
    }

    /// Takes an inlined call of the innermost function, and says whether it covers an address.
    fn inlined(&mut self, entry: UnitOffset, depth: isize, ranges: &RangeAttributes, call: CallSite) -> bool {
        let number = self.number();
        let Some(mut function) = self.functions.pop() else { return false };
        let mut hit = false;
        self.for_each_covered(ranges, |known, _| {
            let nested =
                known.innermost == 0 || function.calls.iter().any(|&(_, open)| open == known.innermost);
            if known.function == function.number && nested && known.frames.len() < MAX_INLINED {
                known.innermost = number;
                known.frames.push(DwarfFrame { entry, call: Some(call) });
                hit = true;
            }
        });
        if hit {
            function.calls.push((depth, number));
        }
        self.functions.push(function);
        hit
    }

    fn for_each_covered(&mut self, ranges: &RangeAttributes, mut found: impl FnMut(&mut Hit, u64)) {
        let Self { unit, addresses, hits, steps, .. } = self;
        let mut left = *steps;
        if left == 0 {
            return;
        }
        ranges.for_each(*unit, steps, |begin, end| {
            let first = addresses.partition_point(|&address| address < begin);
            let covered = addresses.iter().zip(hits.iter_mut()).skip(first);
            for (_, hit) in covered.take_while(|&(&address, _)| address < end) {
                left = left.saturating_sub(1);
                found(hit, end - begin);
            }
            left > 0
        });
        self.steps = self.steps.min(left);
    }
}

/// Reads where the entry behind all that lies in this one is, if that is stated.
fn read_sibling<'a>(
    entries: &mut EntriesRaw<'_, Reader<'a>>,
    abbreviation: &Abbreviation,
) -> gimli::Result<Option<AttributeValue<Reader<'a>>>> {
    let attributes = abbreviation.attributes();
    let sibling = attributes.iter().position(|specification| specification.name() == gimli::DW_AT_sibling);
    let (before, rest) = attributes.split_at(sibling.unwrap_or(attributes.len()));
    entries.skip_attributes(before)?;
    let Some((sibling, rest)) = rest.split_first() else { return Ok(None) };
    let sibling = entries.read_attribute(*sibling)?;
    entries.skip_attributes(rest)?;
    Ok(Some(sibling.value()))
}
