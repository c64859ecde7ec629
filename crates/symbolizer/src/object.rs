//! From places in an object file to functions.

use std::sync::Arc;

use elf::Object;
use gimli::UnitRef;
use model::{FileOffset, Frame, Reason, Resolution, SourceLocation, StackEntry, Symbolized};

use crate::dwarf::{
    self, Dwarf, EntryNames, File, Lines, PackageSections, Sections, SplitObject, SplitUnit, UnitIndex,
    UnitRanges, UnitWalk,
};
use crate::gopclntab::{GoPlaces, Table as GoTable};
use crate::names::{NameStyle, NameTable};
use crate::object_index::ObjectIndex;
use crate::strings::Names;
use crate::symbol_table::{FunctionId, Neighbours};

/// The files that describe one object. Each but the first is optional, and must be checked to belong to it.
pub struct ObjectFiles<'a, D> {
    /// The object that was mapped.
    pub object: &'a Object<D>,
    /// Its separate debug file (build-id folder, `.gnu_debuglink`, debuginfod).
    pub debug: Option<&'a Object<D>>,
    /// The object in its `.gnu_debugdata`: see [`crate::minidebug`].
    pub minidebug: Option<&'a Object<D>>,
    /// The file that `.gnu_debugaltlink` (of the debug file, else of the object) names.
    pub supplementary: Option<&'a Object<D>>,
    /// The package of its split units (`.dwp`).
    pub package: Option<&'a Object<D>>,
}

impl<'a, D: AsRef<[u8]>> ObjectFiles<'a, D> {
    /// Returns the bias that prelink(8) added to the addresses of the object after one of its files was split off.
    pub(crate) fn bias_of(&self, file: &Object<D>) -> u64 {
        match (self.object.section(".text"), file.section(".text")) {
            (Some(text), Some(file_text)) => text.address.0.wrapping_sub(file_text.address.0),
            _ => 0,
        }
    }
}

/// The style of names, and whether inlined calls and lines are wanted.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The style of names.
    pub names: NameStyle,
    /// True to tell inlined calls.
    pub inlines: bool,
    /// True to tell files and lines.
    pub locations: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { names: NameStyle::Demangled, inlines: true, locations: false }
    }
}

/// A place in an object's file (for an image in memory: in the image).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// The address as it was found.
    pub found: FileOffset,
    /// The address to look up: one less for a return address.
    pub lookup: FileOffset,
}

impl From<&StackEntry> for Place {
    fn from(entry: &StackEntry) -> Self {
        Self { found: FileOffset(entry.offset), lookup: FileOffset(entry.lookup_offset()) }
    }
}

/// Finds the functions of one object.
pub struct ObjectSymbolizer<'a, D> {
    object: &'a Object<D>,
    package: Option<&'a Object<D>>,
    package_sections: Option<PackageSections<'a>>,
    index: Arc<ObjectIndex>,
    names: Names<'a>,
    sections: Option<Sections<'a>>,
    supplementary: Option<Sections<'a>>,
    /// The number to add to an address of the debug file to get one of the object: not 0 where the object was prelinked.
    debug_bias: u64,
    /// The table that a Go program without debug information has itself.
    go: Option<GoPlaces<'a>>,
    /// True if there is nothing but the dynamic symbols.
    only_exports: bool,
    options: Options,
}

/// The plan of units to read to resolve some places.
pub struct Plan<'s> {
    places: Vec<Option<(u32, u64)>>,
    /// Addresses of the object, sorted, each once, with its symbol.
    addresses: Vec<(u64, Option<FunctionId>)>,
    /// The same as the debug information states them.
    debug_addresses: Vec<u64>,
    debug: Option<DebugFiles<'s>>,
    /// Units to read, with the indices of the addresses to look for in each.
    units: Vec<(u32, Vec<u32>)>,
    /// Further units that claim addresses of these: read where the first did not know them.
    further: Vec<(u32, Vec<u32>)>,
}

struct DebugFiles<'s> {
    dwarf: Dwarf<'s>,
    units: UnitIndex<'s>,
    ranges: &'s UnitRanges,
    supplementary: Option<(Dwarf<'s>, UnitIndex<'s>)>,
}

/// The functions and inlined calls that the walk of one unit found at addresses.
pub struct Walked {
    /// Index of the address, and the frames that cover it, innermost first. The location of the innermost frame is
    /// not known yet; the name of the outermost is missing where a symbol has it.
    frames: Vec<(u32, Vec<WalkedFrame>)>,
}

struct WalkedFrame {
    name: Option<Arc<str>>,
    /// The line of the call in this frame, for all but the innermost.
    location: Option<SourceLocation>,
}

/// The frames and the symbol of an address.
struct Answer {
    frames: Option<Arc<[Frame]>>,
    /// The start of its symbol.
    start: Option<u64>,
}

impl<'a, D: AsRef<[u8]>> ObjectSymbolizer<'a, D> {
    /// Reads symbol tables, and unpacks debug sections that are compressed.
    pub fn new(files: &ObjectFiles<'a, D>, options: Options) -> Self {
        Self::with_index(files, Arc::new(ObjectIndex::new(files, options.names)), options)
    }

    /// As [`ObjectSymbolizer::new`], with what was kept of the same files.
    pub fn with_index(files: &ObjectFiles<'a, D>, index: Arc<ObjectIndex>, options: Options) -> Self {
        let &ObjectFiles { object, debug, minidebug, supplementary, package } = files;
        let with_dwarf = debug.filter(|debug| debug.has_contents(".debug_info")).unwrap_or(object);
        let beyond_symbols = options.inlines || options.locations;
        let described = with_dwarf.has_contents(".debug_info");
        // Where neither inlined calls nor lines are wanted, full symbols say all there is to say.
        let sections = (beyond_symbols || index.is_stripped)
            .then(|| Sections::of_object(with_dwarf, options.locations, &index.unpacked))
            .flatten();
        let go = if beyond_symbols && !described { GoTable::of_object(object) } else { None };
        let only_exports = index.is_stripped && !index.has_go_functions && minidebug.is_none() && !described;
        let needed = |_: &&'a Object<D>| sections.is_some();
        let package = package.filter(needed);
        Self {
            only_exports,
            object,
            package,
            package_sections: package.and_then(PackageSections::new),
            names: Names::new(files),
            supplementary: supplementary
                .filter(needed)
                .and_then(|file| Sections::of_object(file, options.locations, &index.supplementary_unpacked)),
            index,
            sections,
            debug_bias: files.bias_of(with_dwarf),
            go: go.map(|table| GoPlaces::new(table, object)),
            options,
        }
    }

    /// The address to look a place up at, and the one that was found there.
    fn addresses(&self, place: &Place, symbols: &mut Neighbours<'_, '_>) -> Option<(u64, u64)> {
        let lookup = self.object.svma_of(place.lookup)?.0;
        // A return address lies one behind the place that is looked up.
        let found = lookup.checked_add(place.found.checked_offset_from(place.lookup)?)?;
        if found == lookup {
            return Some((lookup, found));
        }
        // Where a function starts just here, and the byte before belongs to none, to a label whose end is unknown, or
        // to no call, then a made-up frame or hand-written code led here: the function here says more. What callers are
        // taken for without frame pointers are pointers to functions as often as not.
        let mut function = |address| symbols.find(address).and_then(|id| self.index.symbols.get(id));
        let starts_here = function(found).is_some_and(|function| function.start == found)
            && (function(lookup).is_none_or(|function| !function.sized)
                || !self.may_follow_call(place.found));
        Some(if starts_here { (found, found) } else { (lookup, found) })
    }

    /// Returns true if a call can have left this return address; also where there is no code to look at.
    fn may_follow_call(&self, place: FileOffset) -> bool {
        let end = usize::try_from(place.0).unwrap_or(usize::MAX);
        let before = end.checked_sub(8).and_then(|start| self.object.data().get(start..end));
        before.and_then(|before| self.object.machine().ends_in_call(before)) != Some(false)
    }

    /// Looks the places up in the symbol tables, and finds out which units of the debug information have to be read.
    pub fn plan(&self, places: &[Place]) -> Plan<'_> {
        let mut symbols = Neighbours::new(&self.index.symbols, &self.names);
        let places: Vec<Option<(u64, u64)>> =
            places.iter().map(|place| self.addresses(place, &mut symbols)).collect();
        let mut unique: Vec<u64> = places.iter().flatten().map(|&(lookup, _)| lookup).collect();
        unique.sort_unstable();
        unique.dedup();
        let addresses: Vec<_> = unique.into_iter().map(|address| (address, symbols.find(address))).collect();
        let index_of = |address: u64| addresses.binary_search_by_key(&address, |known| known.0).ok();
        let places = places.into_iter().map(|place| {
            let (lookup, found) = place?;
            Some((index_of(lookup)? as u32, found))
        });
        let places = places.collect();
        let debug_addresses: Vec<u64> =
            addresses.iter().map(|&(address, _)| address.wrapping_sub(self.debug_bias)).collect();
        let debug = self.sections.as_ref().filter(|_| {
            self.options.inlines
                || self.options.locations
                || addresses.iter().any(|(_, symbol)| symbol.is_none())
        });
        let debug = debug.map(|sections| {
            let dwarf = sections.dwarf(self.supplementary.as_ref());
            let units = UnitIndex::headers_only(&dwarf);
            let ranges = self.index.units.get_or_init(|| units.ranges(&dwarf));
            let supplementary = self.supplementary.as_ref().map(|sections| {
                let dwarf = sections.dwarf(None);
                let units = UnitIndex::headers_only(&dwarf);
                (dwarf, units)
            });
            DebugFiles { dwarf, units, ranges, supplementary }
        });
        let mut units = debug.as_ref().map(|debug| debug.ranges.claims(&debug_addresses)).unwrap_or_default();
        if !self.options.inlines {
            // The symbol is all that is wanted of an address that has one.
            for (_, claimed) in &mut units {
                claimed.retain(|&index| {
                    addresses.get(index as usize).is_some_and(|(_, symbol)| symbol.is_none())
                });
            }
            units.retain(|(_, claimed)| !claimed.is_empty());
        }
        // The longest first, so that no thread is left with one of them at the end.
        if let Some(debug) = &debug {
            units.sort_by_key(|&(unit, _)| std::cmp::Reverse(debug.units.size_of(unit)));
        }
        // Programs have copies of the same code from many units, of which the linker kept one: any of them describes it.
        let mut claimed = vec![false; addresses.len()];
        let mut further = Vec::new();
        for (unit, indices) in &mut units {
            let is_first = |index: &u32| {
                let known = claimed.get_mut(*index as usize);
                known.is_some_and(|known| !std::mem::replace(known, true))
            };
            let (first, rest) = indices.iter().copied().partition(is_first);
            *indices = first;
            further.push((*unit, rest));
        }
        units.retain(|(_, indices)| !indices.is_empty());
        Plan { places, addresses, debug_addresses, debug, units, further }
    }

    /// Reads one of the plan's units, `task` counting from 0 to [`Plan::tasks`]. May be called on any thread, for
    /// different tasks at the same time. `split` opens the file that holds the rest of a unit, where there is one,
    /// and answers with `None` where it cannot be found.
    pub fn walk<'s>(
        &'s self,
        plan: &Plan<'s>,
        task: usize,
        split: &dyn Fn(&SplitUnit) -> Option<Object<D>>,
    ) -> Walked {
        let frames =
            plan.units.get(task).and_then(|(unit, indices)| self.walk_unit(plan, *unit, indices, split));
        Walked { frames: frames.unwrap_or_default() }
    }

    fn walk_unit<'s>(
        &'s self,
        plan: &Plan<'s>,
        number: u32,
        indices: &[u32],
        split: &dyn Fn(&SplitUnit) -> Option<Object<D>>,
    ) -> Option<Vec<(u32, Vec<WalkedFrame>)>> {
        let debug = plan.debug.as_ref()?;
        let addresses: Vec<u64> =
            indices.iter().filter_map(|&index| plan.debug_addresses.get(index as usize).copied()).collect();
        let unit = debug.units.unit(&debug.dwarf, number, self.options.locations)?;
        let unit_ref = UnitRef::new(&debug.dwarf, &unit);
        let main = File { dwarf: &debug.dwarf, units: &debug.units };
        let supplementary = debug.supplementary.as_ref().map(|(dwarf, units)| File { dwarf, units });
        let Some(wanted) = dwarf::find_split(unit_ref) else {
            let names = EntryNames::new(main, supplementary);
            let walk = self.index.walks.walk(number, unit_ref, &addresses);
            return Some(self.describe(plan, indices, walk, number, unit_ref, names));
        };
        if let (Some(package), Some(sections)) = (self.package, &self.package_sections)
            && let Some(dwarf) = dwarf::unit_of_package(package, sections, wanted.id, &debug.dwarf)
        {
            return self.walk_split(plan, indices, &addresses, &wanted, unit_ref, &dwarf);
        }
        let object = split(&wanted)?;
        let sections = SplitObject::new(&object)?;
        // gimli's types are invariant: the skeleton has to be seen with the lifetime of the split file.
        let skeleton = self.sections.as_ref()?.dwarf(None);
        let unit = UnitIndex::headers_only(&skeleton).unit(&skeleton, number, self.options.locations)?;
        let dwarf = sections.dwarf(&skeleton);
        self.walk_split(plan, indices, &addresses, &wanted, UnitRef::new(&skeleton, &unit), &dwarf)
    }

    fn walk_split<'u>(
        &self,
        plan: &Plan<'_>,
        indices: &[u32],
        addresses: &[u64],
        wanted: &SplitUnit,
        skeleton: UnitRef<'_, dwarf::Reader<'u>>,
        dwarf: &Dwarf<'u>,
    ) -> Option<Vec<(u32, Vec<WalkedFrame>)>> {
        let (number, unit) = dwarf::split_unit(dwarf, wanted.id, skeleton.unit)?;
        let units = UnitIndex::headers_only(dwarf);
        let names = EntryNames::new(File { dwarf, units: &units }, None);
        let walk = UnitWalk::new(UnitRef::new(dwarf, &unit), addresses);
        Some(self.describe(plan, indices, walk, number, skeleton, names))
    }

    /// Finds the names of what a walk found. Files of calls are numbers in the line table of `lines`.
    fn describe<'u>(
        &self,
        plan: &Plan<'_>,
        indices: &[u32],
        walk: UnitWalk,
        unit: u32,
        lines: UnitRef<'_, dwarf::Reader<'u>>,
        mut names: EntryNames<'_, 'u>,
    ) -> Vec<(u32, Vec<WalkedFrame>)> {
        let table = &self.index.names;
        let mut described = Vec::with_capacity(indices.len());
        for (&index, frames) in indices.iter().zip(&walk.frames) {
            if frames.is_empty() {
                continue;
            }
            let has_symbol = plan.addresses.get(index as usize).is_some_and(|(_, symbol)| symbol.is_some());
            let inlined = if self.options.inlines { frames.len() - 1 } else { 0 };
            let mut result: Vec<WalkedFrame> = Vec::with_capacity(inlined + 1);
            let mut location = None;
            for (depth, frame) in frames.iter().enumerate().rev() {
                if depth <= inlined {
                    let name = if depth == 0 && has_symbol {
                        None
                    } else {
                        names.name(unit, frame.entry).map(|name| table.display(name))
                    };
                    // An inlined call without a name says nothing: the call in it is told of its caller.
                    if depth == 0 || name.is_some() {
                        result.push(WalkedFrame { name, location: location.take() });
                    }
                }
                if self.options.locations
                    && let Some(call) = frame.call
                {
                    location = dwarf::call_location(lines, call);
                }
            }
            described.push((index, result));
        }
        described
    }

    /// Puts together what the symbol tables and the walks found: one answer for each place of the plan, in order.
    pub fn finish(&self, plan: &Plan<'_>, walks: Vec<Walked>) -> Vec<Resolution> {
        let mut walked: Vec<Option<Vec<WalkedFrame>>> = plan.addresses.iter().map(|_| None).collect();
        for (index, frames) in walks.into_iter().flat_map(|walk| walk.frames) {
            if let Some(slot) = walked.get_mut(index as usize) {
                slot.get_or_insert(frames);
            }
        }
        let table = &self.index.names;
        let mut lines = self
            .sections
            .as_ref()
            .filter(|_| self.options.locations)
            .map(|sections| Lines::new(sections.dwarf(self.supplementary.as_ref())));
        // Neighbours mostly belong to the same function, and often have the same inlined calls.
        let mut last: Option<(FunctionId, Arc<str>)> = None;
        let mut last_frames: Option<Arc<[Frame]>> = None;
        let answers: Vec<_> = (plan.addresses.iter().zip(&plan.debug_addresses).zip(walked))
            .map(|((&(address, symbol), &debug_address), frames)| {
                let (frames, location) = match &self.go {
                    Some(go) => self.go_frames(go, address, table),
                    None => (frames, lines.as_mut().and_then(|lines| lines.find(debug_address))),
                };
                let name = symbol.and_then(|id| match &last {
                    Some((known, name)) if *known == id => Some(Arc::clone(name)),
                    _ => {
                        let name = self.index.shown(id, &self.names)?;
                        last = Some((id, Arc::clone(&name)));
                        Some(name)
                    }
                });
                let start = symbol.and_then(|id| self.index.symbols.get(id)).map(|symbol| symbol.start);
                let frames = assemble(name, frames, location);
                if frames.as_deref() != last_frames.as_deref() {
                    last_frames = frames.map(Arc::from);
                }
                Answer { frames: last_frames.clone(), start }
            })
            .collect();
        self.answer(&plan.places, &answers)
    }

    /// Gives each place its answer.
    fn answer(&self, places: &[Option<(u32, u64)>], answers: &[Answer]) -> Vec<Resolution> {
        let unresolved = self.reason();
        let place = |place: &Option<(u32, u64)>| {
            let Some((index, found)) = *place else { return Resolution::Unresolved(Reason::NoSegmentCovers) };
            match answers.get(index as usize) {
                Some(Answer { frames: Some(frames), start }) => Resolution::Resolved(Symbolized {
                    frames: Arc::clone(frames),
                    symbol_offset: start.and_then(|start| found.checked_sub(start)),
                }),
                _ => Resolution::Unresolved(unresolved.clone()),
            }
        };
        places.iter().map(place).collect()
    }

    /// The frames that a Go program's own table has for an address, and the line of the innermost.
    fn go_frames(
        &self,
        go: &GoPlaces<'_>,
        address: u64,
        names: &NameTable,
    ) -> (Option<Vec<WalkedFrame>>, Option<SourceLocation>) {
        let mut innermost = None;
        let mut frames = Vec::new();
        for frame in go.find(address) {
            let mut location = frame.location.filter(|_| self.options.locations);
            if frames.is_empty() {
                innermost = location.take();
            }
            frames.push(WalkedFrame { name: Some(names.display(frame.name)), location });
        }
        if !self.options.inlines {
            frames.drain(..frames.len().saturating_sub(1));
        }
        (Some(frames), innermost)
    }

    /// Debug sections that are there and are not read, with what is wrong.
    pub fn damaged_sections(&self) -> impl Iterator<Item = &str> {
        let files = self.sections.iter().chain(&self.supplementary);
        files.flat_map(Sections::damaged).map(String::as_str)
    }

    /// The reason why an address of this object has no name.
    fn reason(&self) -> Reason {
        let damaged =
            self.sections.iter().chain(&self.supplementary).find_map(|sections| sections.damaged().first());
        match damaged {
            Some(damaged) => Reason::Malformed(damaged.clone()),
            None if self.index.symbols.is_empty() && self.sections.is_none() => Reason::NoSymbols,
            None if self.only_exports => Reason::Stripped,
            None => Reason::NoSymbolCovers,
        }
    }
}

impl Plan<'_> {
    /// To be asked when all tasks are done: whether more units have to be read for addresses that `walks` do not know.
    /// The plan's tasks are these then.
    pub fn go_on(&mut self, walks: &[Walked]) -> bool {
        let mut found = vec![false; self.addresses.len()];
        for (index, _) in walks.iter().flat_map(|walk| &walk.frames) {
            if let Some(found) = found.get_mut(*index as usize) {
                *found = true;
            }
        }
        self.units = std::mem::take(&mut self.further);
        for (_, indices) in &mut self.units {
            indices.retain(|&index| found.get(index as usize) == Some(&false));
        }
        self.units.retain(|(_, indices)| !indices.is_empty());
        !self.units.is_empty()
    }

    /// Returns the number of units that have to be read.
    pub fn tasks(&self) -> usize {
        self.units.len()
    }

    /// The bytes of debug information in them: tells whether several threads are worth it.
    pub fn bytes(&self) -> usize {
        let size =
            |debug: &DebugFiles<'_>| self.units.iter().map(|&(unit, _)| debug.units.size_of(unit)).sum();
        self.debug.as_ref().map_or(0, size)
    }
}

/// The symbol's name stands for the function, as in perf and LLVM: it tells aliases and clones apart, and is there
/// also where the debug information has no linkage name.
fn assemble(
    symbol: Option<Arc<str>>,
    walked: Option<Vec<WalkedFrame>>,
    mut location: Option<SourceLocation>,
) -> Option<Vec<Frame>> {
    let Some(mut walked) = walked.filter(|walked| !walked.is_empty()) else {
        return Some(vec![Frame { function: symbol?, location, inlined: false }]);
    };
    let outermost = walked.pop()?;
    let mut frames = Vec::with_capacity(walked.len() + 1);
    for frame in walked {
        // The first frame's line comes from the line table, the next ones' from the calls in them.
        let own = frame.location.or_else(|| location.take());
        frames.push(Frame { function: frame.name?, location: own, inlined: true });
    }
    let own = if frames.is_empty() { location } else { outermost.location };
    frames.push(Frame { function: symbol.or(outermost.name)?, location: own, inlined: false });
    Some(frames)
}
