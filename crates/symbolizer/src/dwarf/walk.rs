//! Reads a unit once for all of its wanted addresses.
//!
//! Entries come in the order of the file: a function, followed by its children. The walk keeps a stack of the functions
//! and inlined calls that enclose the current entry, and stores only entries that cover a wanted address. Where an entry
//! states the end of its children (`DW_AT_sibling`, as GCC writes it), the walk skips children that are unlikely to cover
//! one.

use gimli::{Abbreviation, AttributeValue, EntriesRaw, UnitOffset, UnitRef};

use super::Reader;
use super::ranges::RangeAttributes;

/// A function or inlined call that covers an address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct DwarfFrame {
    /// The offset of the entry in its unit.
    pub(crate) entry: UnitOffset,
    /// The location of an inlined call in its caller; `None` for a function.
    pub(crate) call: Option<CallSite>,
}

/// The location of an inlined call in its caller (`DW_AT_call_file`, `DW_AT_call_line`, `DW_AT_call_column`,
/// `DW_AT_GNU_discriminator`).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct CallSite {
    /// An index into the files of the unit's line table.
    pub(crate) file: Option<u64>,
    pub(crate) line: u32,
    pub(crate) column: u32,
    /// `DW_AT_GNU_discriminator`.
    pub(crate) discriminator: u32,
}

/// Maximum number of address ranges recorded of one unit. More are a sign of a hostile file.
pub(super) const MAX_RANGES: usize = 1 << 20;

/// The address ranges of a unit's functions, in the order of the file.
#[derive(Default)]
pub(crate) struct UnitFunctions(Vec<FunctionRange>);

struct FunctionRange {
    begin: u64,
    end: u64,
    entry: UnitOffset,
}

impl UnitFunctions {
    /// Adds a range of the function at `entry`, unless there are too many.
    fn push(&mut self, entry: UnitOffset, begin: u64, end: u64) {
        if self.0.len() <= MAX_RANGES {
            self.0.push(FunctionRange { begin, end, entry });
        }
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.0.capacity() * size_of::<FunctionRange>()
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.0.len() <= MAX_RANGES
    }

    /// Returns the entries of functions that cover one of `addresses` (sorted), in the order of the file.
    fn covering(&self, addresses: &[u64]) -> Vec<UnitOffset> {
        let covers = |range: &&FunctionRange| {
            let first = addresses.partition_point(|&address| address < range.begin);
            addresses.get(first).is_some_and(|&address| address < range.end)
        };
        let mut entries: Vec<UnitOffset> = self.0.iter().filter(covers).map(|range| range.entry).collect();
        entries.dedup();
        entries
    }
}

/// The functions and inlined calls of a unit that cover the wanted addresses.
pub(crate) struct UnitFrames {
    /// For each address the frames that cover it, outermost first; empty where no function covers it.
    pub(crate) frames: Vec<Vec<DwarfFrame>>,
}

/// The greatest depth of inlined calls that is recorded; no compiler nests deeper.
pub(crate) const MAX_INLINED: usize = 512;

/// The greatest depth of nested functions that is recorded; no compiler nests deeper.
const MAX_OPEN_FUNCTIONS: usize = 1 << 12;

/// Bounds of the range list entries that a walk reads: so many for each byte of the unit and for each address, and at
/// least `MIN_RANGE_STEPS`. In a hostile file all entries of a unit may share one long list.
const RANGE_STEPS_PER_BYTE: usize = 4;
const RANGE_STEPS_PER_ADDRESS: usize = 1 << 10;
const MIN_RANGE_STEPS: usize = 1 << 12;

/// A function that encloses the current entry.
struct OpenFunction {
    depth: isize,
    number: u32,
    /// True if it covers a wanted address.
    hit: bool,
    /// Depth and number of the inlined calls in it that enclose the current entry.
    calls: Vec<(isize, u32)>,
}

/// The frames found for one address so far.
#[derive(Default)]
struct Hit {
    function: u32,
    /// The length of the function's range that covers the address: the function with the shorter range wins.
    length: u64,
    frames: Vec<DwarfFrame>,
    /// The number of the innermost inlined call.
    innermost: u32,
}

impl UnitFrames {
    /// Reads a unit and finds the frames of `addresses` (sorted). Reads a damaged unit up to the first damaged entry.
    pub(crate) fn new(unit: UnitRef<'_, Reader<'_>>, addresses: &[u64]) -> Self {
        let mut walk = UnitWalker::new(unit, addresses);
        walk.may_skip = true;
        let end = walk.run(None);
        if walk.has_skipped && (end.is_err() || walk.hits.iter().any(|hit| hit.frames.is_empty())) {
            // Reads without skipping: nested functions (Ada, Fortran, GNU C) have code outside of their parents' ranges.
            walk = UnitWalker::new(unit, addresses);
            // Frames found before a damaged entry stay valid.
            let _ = walk.run(None);
        }
        walk.into_frames()
    }

    /// As [`Self::new`]; returns the ranges of all functions of the unit as well.
    pub(crate) fn with_functions(unit: UnitRef<'_, Reader<'_>>, addresses: &[u64]) -> (Self, UnitFunctions) {
        let mut walk = UnitWalker::new(unit, addresses);
        let mut all = UnitFunctions::default();
        walk.all = Some(&mut all);
        let _ = walk.run(None);
        (walk.into_frames(), all)
    }

    /// As [`Self::new`], but reads only the functions that cover one of the addresses.
    pub(crate) fn of_functions(
        unit: UnitRef<'_, Reader<'_>>,
        addresses: &[u64],
        functions: &UnitFunctions,
    ) -> Self {
        let mut walk = UnitWalker::new(unit, addresses);
        let mut end = UnitOffset(0);
        for entry in functions.covering(addresses) {
            // Skips a function that lies in the one read before.
            if entry >= end {
                match walk.run(Some(entry)) {
                    Ok(after) => end = after,
                    Err(_) => break,
                }
            }
        }
        walk.into_frames()
    }
}

struct UnitWalker<'w, 'a> {
    unit: UnitRef<'w, Reader<'a>>,
    addresses: &'w [u64],
    hits: Vec<Hit>,
    functions: Vec<OpenFunction>,
    next_number: u32,
    /// The number of ranges, and of addresses in them, that may still be visited.
    steps: usize,
    /// Receives the ranges of all functions, if given.
    all: Option<&'w mut UnitFunctions>,
    /// True if children may be skipped; `has_skipped` is true once some were.
    may_skip: bool,
    has_skipped: bool,
}

impl<'w, 'a> UnitWalker<'w, 'a> {
    fn new(unit: UnitRef<'w, Reader<'a>>, addresses: &'w [u64]) -> Self {
        let for_bytes = unit.header.unit_length().saturating_mul(RANGE_STEPS_PER_BYTE);
        let for_addresses = addresses.len().saturating_mul(RANGE_STEPS_PER_ADDRESS);
        let steps = for_bytes.saturating_add(for_addresses).saturating_add(MIN_RANGE_STEPS);
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

    fn into_frames(self) -> UnitFrames {
        UnitFrames { frames: self.hits.into_iter().map(|hit| hit.frames).collect() }
    }

    /// Reads the entry at `start` with its children, or the whole unit; returns the offset behind them.
    fn run(&mut self, start: Option<UnitOffset>) -> gimli::Result<UnitOffset> {
        let unit = self.unit;
        let mut entries = unit.entries_raw(start)?;
        // The depth of the entry at which `entries` started.
        let mut base = 0;
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
                            _ => ranges.record(&attribute, unit),
                        }
                    }
                    let hit = self.open_function(offset, depth, &ranges);
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
                            gimli::DW_AT_GNU_discriminator => {
                                call.discriminator = u32::try_from(number()).unwrap_or(0);
                            }
                            gimli::DW_AT_sibling => sibling = Some(attribute.value()),
                            _ => ranges.record(&attribute, unit),
                        }
                    }
                    let hit = self.open_inlined(offset, depth, &ranges, call);
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

    /// Returns the file number of a call; `None` for 0 before DWARF 5, where it means "no file".
    fn file_index(&self, value: gimli::AttributeValue<Reader<'a>>) -> Option<u64> {
        let index = match value {
            gimli::AttributeValue::FileIndex(index) => index,
            value => value.udata_value()?,
        };
        (index > 0 || self.unit.header.version() >= 5).then_some(index)
    }

    /// Closes the functions and calls that do not enclose an entry at `depth`.
    fn close(&mut self, depth: isize) {
        while self.functions.pop_if(|function| depth <= function.depth).is_some() {}
        if let Some(function) = self.functions.last_mut() {
            while function.calls.pop_if(|&mut (call_depth, _)| depth <= call_depth).is_some() {}
        }
    }

    fn next_number(&mut self) -> u32 {
        let number = self.next_number;
        self.next_number = self.next_number.saturating_add(1);
        number
    }

    /// Opens a function. Returns true if it covers an address.
    fn open_function(&mut self, entry: UnitOffset, depth: isize, ranges: &RangeAttributes) -> bool {
        let number = self.next_number();
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
        if self.functions.len() < MAX_OPEN_FUNCTIONS {
            self.functions.push(OpenFunction { depth, number, hit, calls: Vec::new() });
        }
        hit
    }

    /// Opens an inlined call in the innermost function. Returns true if it covers an address.
    fn open_inlined(
        &mut self,
        entry: UnitOffset,
        depth: isize,
        ranges: &RangeAttributes,
        call: CallSite,
    ) -> bool {
        let number = self.next_number();
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

/// Reads the attributes of an entry, and returns its `DW_AT_sibling`: where its children end.
pub(super) fn read_sibling<'a>(
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
