//! Resolves addresses in an object file to functions, inlined calls and source lines.

use std::sync::Arc;

use elf::Object;
use gimli::UnitRef;
use model::{FileOffset, Frame, Reason, Resolution, SourceLocation, StackEntry, Symbolized};

use crate::dwarf::{
    self, Dwarf, DwarfFile, EntryNames, Lines, PackageSections, Sections, SplitObject, SplitUnit, UnitFrames,
    UnitIndex, UnitRanges,
};
use crate::gopclntab::{GoFunctionTable, GoLineTable};
use crate::names::{NameStyle, NameTable};
use crate::object_files::ObjectFiles;
use crate::object_index::ObjectIndex;
use crate::string_tables::StringTables;
use crate::symbol_table::{FunctionId, OrderedLookup, SymbolTable};

/// The options of symbolization: the style of names, and whether to resolve inlined calls and source lines.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The style of names.
    pub names: NameStyle,
    /// True to resolve inlined calls.
    pub inlines: bool,
    /// True to resolve source files and lines, with the start lines of functions.
    pub locations: bool,
    /// True to resolve what compilers match profiles with code by, beside lines: discriminators, and the names and lines that Go's
    /// runtime has for a Go program, even where there is debug information. Addresses in wrappers that Go's compiler generated have no
    /// frames then.
    pub for_compilers: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { names: NameStyle::Demangled, inlines: true, locations: false, for_compilers: false }
    }
}

/// An address to symbolize, as an offset in an object's file (for an image in memory: in the image).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LookupAddress {
    /// The address on the stack: an instruction pointer or a return address.
    pub address: FileOffset,
    /// The address that is looked up: one less than `address` for a return address, so that it lies in the call.
    pub lookup: FileOffset,
}

impl From<&StackEntry> for LookupAddress {
    fn from(entry: &StackEntry) -> Self {
        Self { address: FileOffset(entry.offset), lookup: FileOffset(entry.lookup_offset()) }
    }
}

/// Symbolizes addresses of one object.
pub struct ObjectSymbolizer<'a, D> {
    object: &'a Object<D>,
    package: Option<&'a Object<D>>,
    package_sections: Option<PackageSections<'a>>,
    index: Arc<ObjectIndex>,
    /// The functions near the addresses to look up, where the index leaves symbols out.
    near: Option<SymbolTable>,
    names: StringTables<'a>,
    sections: Option<Sections<'a>>,
    supplementary: Option<Sections<'a>>,
    /// The number to add to an address of the debug file to get one of the object. Not 0 where the object was
    /// prelinked.
    debug_bias: u64,
    /// The line table of a Go program without debug information.
    go: Option<GoLineTable<'a>>,
    /// True if the object has no symbols but the dynamic ones.
    only_exports: bool,
    options: Options,
}

/// The units of debug information to read to resolve a list of addresses.
pub struct Plan<'s> {
    /// For each lookup address the index into `addresses`, and its address on the stack. `None` where no segment
    /// covers it.
    lookups: Vec<Option<(u32, u64)>>,
    /// Addresses of the object, sorted and unique, each with its symbol.
    addresses: Vec<(u64, Option<FunctionId>)>,
    /// The same addresses as the debug file states them.
    debug_addresses: Vec<u64>,
    debug: Option<DebugFiles<'s>>,
    /// Units to read in this pass, each with the indices of the addresses to look for in it.
    units: Vec<(u32, Vec<u32>)>,
    /// Units to read in the next pass: further ones that claim addresses, which are read for those that the first
    /// unit did not know.
    further: Vec<(u32, Vec<u32>)>,
}

struct DebugFiles<'s> {
    dwarf: Dwarf<'s>,
    units: UnitIndex<'s>,
    ranges: &'s UnitRanges,
    supplementary: Option<(Dwarf<'s>, UnitIndex<'s>)>,
}

/// The functions and inlined calls that the walk of one unit found at addresses.
#[derive(Default)]
pub struct WalkedUnit {
    /// The index of each address, and the frames that cover it, innermost first. The innermost frame has no location
    /// yet. The outermost has no name where the address has a symbol.
    frames: Vec<(u32, Vec<WalkedFrame>)>,
    missing: Option<SplitUnit>,
}

impl WalkedUnit {
    /// Returns the reference to the rest of the unit, if it is a skeleton whose rest was not found: what is inlined in its
    /// functions is unknown.
    pub fn missing_split_unit(&self) -> Option<&SplitUnit> {
        self.missing.as_ref()
    }
}

struct WalkedFrame {
    name: Option<Arc<str>>,
    /// The location of the call in this frame; `None` for the innermost frame.
    location: Option<SourceLocation>,
    /// The line at which its function starts; 0 if unknown.
    start_line: u32,
    /// For the innermost frame: the discriminator of the address.
    discriminator: u32,
}

/// The frames of an address, and where its symbol starts.
struct AddressFrames {
    frames: Option<Arc<[Frame]>>,
    symbol_start: Option<u64>,
}

impl<'a, D: AsRef<[u8]>> ObjectSymbolizer<'a, D> {
    /// Reads the symbol tables, and unpacks compressed debug sections.
    pub fn new(files: &ObjectFiles<'a, D>, options: Options) -> Self {
        Self::with_index(files, Arc::new(ObjectIndex::new(files, options.names)), options)
    }

    /// As [`ObjectSymbolizer::new`], with the index of an earlier symbolizer of the same files.
    pub fn with_index(files: &ObjectFiles<'a, D>, index: Arc<ObjectIndex>, options: Options) -> Self {
        let &ObjectFiles { object, debug, minidebug, supplementary, package } = files;
        let with_dwarf = debug.filter(|debug| debug.has_contents(".debug_info")).unwrap_or(object);
        let beyond_symbols = options.inlines || options.locations;
        let described = with_dwarf.has_contents(".debug_info");
        // Full symbols suffice where neither inlined calls nor lines are wanted.
        let sections = (beyond_symbols || index.is_stripped)
            .then(|| Sections::of_object(with_dwarf, options.locations, &index.unpacked))
            .flatten();
        let reads_go = beyond_symbols && (options.for_compilers || !described);
        let go = if reads_go { GoFunctionTable::of_object(object) } else { None };
        let only_exports = index.is_stripped && !index.has_go_functions && minidebug.is_none() && !described;
        let needed = |_: &&'a Object<D>| sections.is_some();
        let package = package.filter(needed);
        Self {
            only_exports,
            object,
            package,
            package_sections: package.and_then(PackageSections::new),
            names: StringTables::new(files),
            supplementary: supplementary
                .filter(needed)
                .and_then(|file| Sections::of_object(file, options.locations, &index.supplementary_unpacked)),
            index,
            near: None,
            sections,
            debug_bias: files.bias_of(with_dwarf),
            go: go.map(|table| GoLineTable::new(table, object)).map(|lines| match options.for_compilers {
                true => lines.with_wrappers(),
                false => lines,
            }),
            options,
        }
    }

    /// As [`ObjectSymbolizer::with_index`], for these addresses alone: those that [`ObjectSymbolizer::plan`] will be given.
    pub fn for_addresses(
        files: &ObjectFiles<'a, D>,
        index: Arc<ObjectIndex>,
        options: Options,
        wanted: &[LookupAddress],
    ) -> Self {
        let near = index.leaves_symbols_out.then(|| {
            let both = wanted.iter().flat_map(|wanted| [wanted.lookup, wanted.address]);
            let mut addresses: Vec<u64> =
                both.filter_map(|offset| files.object.svma_of(offset)).map(|address| address.0).collect();
            // The address on the stack may lie behind the segment of the one that is looked up.
            addresses.extend(wanted.iter().filter_map(|wanted| {
                let lookup = files.object.svma_of(wanted.lookup)?.0;
                lookup.checked_add(wanted.address.checked_offset_from(wanted.lookup)?)
            }));
            addresses.sort_unstable();
            addresses.dedup();
            SymbolTable::near(files, &addresses)
        });
        Self { near, ..Self::with_index(files, index, options) }
    }

    fn symbols(&self) -> &SymbolTable {
        self.near.as_ref().unwrap_or(&self.index.symbols)
    }

    /// Returns the address of the object to look up, and the one on the stack; `None` where no segment covers them.
    fn object_addresses(
        &self,
        wanted: &LookupAddress,
        symbols: &mut OrderedLookup<'_, '_>,
    ) -> Option<(u64, u64)> {
        let lookup = self.object.svma_of(wanted.lookup)?.0;
        // A return address lies one byte behind the address that is looked up.
        let found = lookup.checked_add(wanted.address.checked_offset_from(wanted.lookup)?)?;
        if found == lookup {
            return Some((lookup, found));
        }
        // If a function starts exactly at the return address, and the byte before it belongs to no function, to a label
        // of unknown size, or to no call instruction, then no call pushed this address: a signal frame, hand-written
        // code or a wrong caller of an unwinder without frame pointers did. The function that starts here is the better
        // answer.
        let mut function = |address| symbols.find(address).and_then(|id| self.symbols().get(id));
        let starts_here = function(found).is_some_and(|function| function.start == found)
            && (function(lookup).is_none_or(|function| !function.is_sized())
                || !self.may_follow_call(wanted.address));
        Some(if starts_here { (found, found) } else { (lookup, found) })
    }

    /// Returns true if a call instruction may end at this return address, or if the file has no code there.
    fn may_follow_call(&self, return_address: FileOffset) -> bool {
        let end = usize::try_from(return_address.0).unwrap_or(usize::MAX);
        let before = end.checked_sub(8).and_then(|start| self.object.data().get(start..end));
        before.and_then(|before| self.object.machine().ends_in_call(before)) != Some(false)
    }

    /// Looks the addresses up in the symbol tables, and selects the units of debug information to read for them.
    pub fn plan(&self, wanted: &[LookupAddress]) -> Plan<'_> {
        let mut symbols = OrderedLookup::new(self.symbols(), &self.names);
        let found: Vec<Option<(u64, u64)>> =
            wanted.iter().map(|wanted| self.object_addresses(wanted, &mut symbols)).collect();
        let mut unique: Vec<u64> = found.iter().flatten().map(|&(lookup, _)| lookup).collect();
        unique.sort_unstable();
        unique.dedup();
        let addresses: Vec<_> = unique.into_iter().map(|address| (address, symbols.find(address))).collect();
        let index_of = |address: u64| addresses.binary_search_by_key(&address, |known| known.0).ok();
        let lookups = found.into_iter().map(|found| {
            let (lookup, address) = found?;
            Some((index_of(lookup)? as u32, address))
        });
        let lookups = lookups.collect();
        let debug_addresses: Vec<u64> =
            addresses.iter().map(|&(address, _)| address.wrapping_sub(self.debug_bias)).collect();
        let debug = self.sections.as_ref().filter(|_| {
            self.options.inlines
                || self.options.locations
                || addresses.iter().any(|(_, symbol)| symbol.is_none())
        });
        let debug = debug.map(|sections| {
            let dwarf = sections.dwarf(self.supplementary.as_ref());
            let units = UnitIndex::read_headers(&dwarf);
            let ranges = self.index.units.get_or_init(|| units.ranges(&dwarf));
            let supplementary = self.supplementary.as_ref().map(|sections| {
                let dwarf = sections.dwarf(None);
                let units = UnitIndex::read_headers(&dwarf);
                (dwarf, units)
            });
            DebugFiles { dwarf, units, ranges, supplementary }
        });
        let mut units = debug.as_ref().map(|debug| debug.ranges.claims(&debug_addresses)).unwrap_or_default();
        if !self.options.inlines {
            // Without inlined calls an address that has a symbol needs no debug information.
            for (_, claimed) in &mut units {
                claimed.retain(|&index| {
                    addresses.get(index as usize).is_some_and(|(_, symbol)| symbol.is_none())
                });
            }
            units.retain(|(_, claimed)| !claimed.is_empty());
        }
        // The longest units come first, so that no thread still reads one of them when the others are done.
        if let Some(debug) = &debug {
            units.sort_by_key(|&(unit, _)| std::cmp::Reverse(debug.units.size_of(unit)));
        }
        // Many units have copies of the same inline function, of which the linker kept one. Any of them describes it.
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
        Plan { lookups, addresses, debug_addresses, debug, units, further }
    }

    /// Reads one of the plan's units. `task` is below [`Plan::tasks`]. Several threads may call it at the same time
    /// for different tasks. `split` opens the file that holds the rest of a split unit, and returns `None` where it
    /// cannot be found.
    pub fn walk<'s>(
        &'s self,
        plan: &Plan<'s>,
        task: usize,
        split: &dyn Fn(&SplitUnit) -> Option<Object<D>>,
    ) -> WalkedUnit {
        let walked =
            plan.units.get(task).and_then(|(unit, indices)| self.walk_unit(plan, *unit, indices, split));
        walked.unwrap_or_default()
    }

    fn walk_unit<'s>(
        &'s self,
        plan: &Plan<'s>,
        number: u32,
        indices: &[u32],
        split: &dyn Fn(&SplitUnit) -> Option<Object<D>>,
    ) -> Option<WalkedUnit> {
        let debug = plan.debug.as_ref()?;
        let addresses: Vec<u64> =
            indices.iter().filter_map(|&index| plan.debug_addresses.get(index as usize).copied()).collect();
        let unit = debug.units.unit(&debug.dwarf, number, self.options.locations)?;
        let unit_ref = UnitRef::new(&debug.dwarf, &unit);
        let main = DwarfFile { dwarf: &debug.dwarf, units: &debug.units };
        let supplementary = debug.supplementary.as_ref().map(|(dwarf, units)| DwarfFile { dwarf, units });
        let Some(wanted) = dwarf::find_split(unit_ref) else {
            let names = EntryNames::new(main, supplementary);
            let walk = self.index.walks.walk(number, unit_ref, &addresses);
            let frames = self.describe(plan, indices, walk, number, unit_ref, names);
            return Some(WalkedUnit { frames, missing: None });
        };
        let frames = self.walk_rest(plan, number, indices, &addresses, (&wanted, unit_ref), split);
        let missing = frames.is_none().then_some(wanted);
        Some(WalkedUnit { frames: frames.unwrap_or_default(), missing })
    }

    /// Reads the rest of a skeleton unit; `None` where it is not found.
    fn walk_rest<'s>(
        &'s self,
        plan: &Plan<'s>,
        number: u32,
        indices: &[u32],
        addresses: &[u64],
        (wanted, skeleton): (&SplitUnit, UnitRef<'_, dwarf::Reader<'s>>),
        split: &dyn Fn(&SplitUnit) -> Option<Object<D>>,
    ) -> Option<Vec<(u32, Vec<WalkedFrame>)>> {
        let debug = plan.debug.as_ref()?;
        if let (Some(package), Some(sections)) = (self.package, &self.package_sections)
            && let Some(dwarf) = dwarf::unit_of_package(package, sections, wanted.id, &debug.dwarf)
        {
            return self.walk_split(plan, indices, addresses, wanted, skeleton, &dwarf);
        }
        let object = split(wanted)?;
        let sections = SplitObject::new(&object)?;
        // gimli's types are invariant in their lifetime: the skeleton is read again with that of the split file.
        let skeleton = self.sections.as_ref()?.dwarf(None);
        let unit = UnitIndex::read_headers(&skeleton).unit(&skeleton, number, self.options.locations)?;
        let dwarf = sections.dwarf(&skeleton);
        self.walk_split(plan, indices, addresses, wanted, UnitRef::new(&skeleton, &unit), &dwarf)
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
        let units = UnitIndex::read_headers(dwarf);
        let names = EntryNames::new(DwarfFile { dwarf, units: &units }, None);
        let walk = UnitFrames::new(UnitRef::new(dwarf, &unit), addresses);
        Some(self.describe(plan, indices, walk, number, skeleton, names))
    }

    /// Finds the names and call locations of the frames that a walk found. `lines` is the unit whose line table has
    /// the files of calls.
    fn describe<'u>(
        &self,
        plan: &Plan<'_>,
        indices: &[u32],
        walk: UnitFrames,
        unit: u32,
        lines: UnitRef<'_, dwarf::Reader<'u>>,
        mut names: EntryNames<'_, 'u>,
    ) -> Vec<(u32, Vec<WalkedFrame>)> {
        let table = &self.index.names;
        let discriminators = if self.options.for_compilers {
            let address =
                |&index: &u32| plan.debug_addresses.get(index as usize).copied().unwrap_or(u64::MAX);
            dwarf::discriminators(lines, &indices.iter().map(address).collect::<Vec<_>>())
        } else {
            Vec::new()
        };
        let mut described = Vec::with_capacity(indices.len());
        for (number, (&index, frames)) in indices.iter().zip(&walk.frames).enumerate() {
            if frames.is_empty() {
                continue;
            }
            let has_symbol = plan.addresses.get(index as usize).is_some_and(|(_, symbol)| symbol.is_some());
            let inlined = if self.options.inlines { frames.len() - 1 } else { 0 };
            let mut result: Vec<WalkedFrame> = Vec::with_capacity(inlined + 1);
            let mut location = None;
            for (depth, frame) in frames.iter().enumerate().rev() {
                if depth <= inlined {
                    let name =
                        if depth == 0 && has_symbol { None } else { names.display(unit, frame.entry, table) };
                    // An inlined call without a name is left out, and the location of the call in it goes to its caller.
                    if depth == 0 || name.is_some() {
                        let start_line =
                            if self.options.locations { names.start_line(unit, frame.entry) } else { 0 };
                        let innermost = discriminators.get(number).filter(|_| result.is_empty());
                        let discriminator = innermost.copied().unwrap_or(0);
                        result.push(WalkedFrame {
                            name,
                            location: location.take(),
                            start_line,
                            discriminator,
                        });
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

    /// Combines the symbols and the frames that the walks found: one resolution for each address given to
    /// [`ObjectSymbolizer::plan`], in its order.
    pub fn finish(&self, plan: &Plan<'_>, walks: Vec<WalkedUnit>) -> Vec<Resolution> {
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
        let resolved: Vec<_> = (plan.addresses.iter().zip(&plan.debug_addresses).zip(walked))
            .map(|((&(address, symbol), &debug_address), frames)| {
                let (frames, location) = match &self.go {
                    Some(go) => match self.go_frames(go, address, table) {
                        Some((frames, location)) => (Some(frames), location),
                        None => return AddressFrames { frames: Some(Arc::from([])), symbol_start: None },
                    },
                    None => (frames, lines.as_mut().and_then(|lines| lines.find(debug_address))),
                };
                // Symbols of a Go program have suffixes that the names in its runtime's table have not: `.abi0`.
                let is_named = self.options.for_compilers
                    && self.go.is_some()
                    && frames.as_ref().is_some_and(|frames| !frames.is_empty());
                let symbol_name = symbol.filter(|_| !is_named);
                let name = symbol_name.and_then(|id| match &last {
                    Some((known, name)) if *known == id => Some(Arc::clone(name)),
                    _ => {
                        let name = match &self.near {
                            Some(near) => self.index.display(near.get(id)?.name(), &self.names),
                            None => self.index.shown(id, &self.names)?,
                        };
                        last = Some((id, Arc::clone(&name)));
                        Some(name)
                    }
                });
                let symbol_start = symbol.and_then(|id| self.symbols().get(id)).map(|symbol| symbol.start);
                let frames = assemble(name, frames, location);
                if frames.as_deref() != last_frames.as_deref() {
                    last_frames = frames.map(Arc::from);
                }
                AddressFrames { frames: last_frames.clone(), symbol_start }
            })
            .collect();
        self.resolutions(&plan.lookups, &resolved)
    }

    /// Returns the resolution of each lookup, in their order.
    fn resolutions(&self, lookups: &[Option<(u32, u64)>], resolved: &[AddressFrames]) -> Vec<Resolution> {
        let unresolved = self.reason();
        let resolution = |lookup: &Option<(u32, u64)>| {
            let Some((index, found)) = *lookup else {
                return Resolution::Unresolved(Reason::NoSegmentCovers);
            };
            match resolved.get(index as usize) {
                Some(AddressFrames { frames: Some(frames), symbol_start }) => {
                    Resolution::Resolved(Symbolized {
                        frames: Arc::clone(frames),
                        symbol_offset: symbol_start.and_then(|start| found.checked_sub(start)),
                    })
                }
                _ => Resolution::Unresolved(unresolved.clone()),
            }
        };
        lookups.iter().map(resolution).collect()
    }

    /// Returns the frames that a Go program's line table has for an address, and the location of the innermost. `None` if they are
    /// wrappers, which do not count for compilers.
    fn go_frames(
        &self,
        go: &GoLineTable<'_>,
        address: u64,
        names: &NameTable,
    ) -> Option<(Vec<WalkedFrame>, Option<SourceLocation>)> {
        let mut innermost = None;
        let mut frames = Vec::new();
        let mut found = go.find(address);
        if self.options.for_compilers && !found.is_empty() {
            found.retain(|frame| !frame.is_wrapper);
            if found.is_empty() {
                return None;
            }
        }
        for frame in found {
            let mut location = frame.location.filter(|_| self.options.locations);
            if frames.is_empty() {
                innermost = location.take();
            }
            let (name, start_line) = (Some(names.display(frame.name)), frame.start_line);
            frames.push(WalkedFrame { name, location, start_line, discriminator: 0 });
        }
        if !self.options.inlines {
            frames.drain(..frames.len().saturating_sub(1));
        }
        Some((frames, innermost))
    }

    /// Returns the debug sections that cannot be read, each with what is wrong with it.
    pub fn damaged_sections(&self) -> impl Iterator<Item = &str> {
        let files = self.sections.iter().chain(&self.supplementary);
        files.flat_map(Sections::damaged).map(String::as_str)
    }

    /// Returns the reason why an address of this object has no name.
    fn reason(&self) -> Reason {
        let damaged =
            self.sections.iter().chain(&self.supplementary).find_map(|sections| sections.damaged().first());
        match damaged {
            Some(damaged) => Reason::Malformed(damaged.clone()),
            None if self.index.symbols.is_empty()
                && !self.index.leaves_symbols_out
                && self.sections.is_none() =>
            {
                Reason::NoSymbols
            }
            None if self.only_exports => Reason::Stripped,
            None => Reason::NoSymbolCovers,
        }
    }
}

impl Plan<'_> {
    /// Replaces the tasks of the plan by those of the next pass: further units that claim the addresses that none of
    /// `walks` knows. Call it when all tasks are done. Returns false if no unit is left to read.
    pub fn next_pass(&mut self, walks: &[WalkedUnit]) -> bool {
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

    /// Returns the number of units to read in this pass.
    pub fn tasks(&self) -> usize {
        self.units.len()
    }

    /// Returns the bytes of debug information in these units, by which a caller can decide how many threads to start.
    pub fn bytes(&self) -> usize {
        let size =
            |debug: &DebugFiles<'_>| self.units.iter().map(|&(unit, _)| debug.units.size_of(unit)).sum();
        self.debug.as_ref().map_or(0, size)
    }
}

/// Combines the symbol, the frames of debug information and the location of an address to frames, innermost first.
///
/// The outermost frame has the name of the symbol, as in perf and LLVM: it tells aliases and clones apart, and exists
/// where the debug information has no linkage name.
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
        // The innermost frame has the location of the line table, each further one that of the call in it.
        let own = frame.location.clone().or_else(|| location.take());
        let own = own.map(|own| within(own, &frame));
        frames.push(Frame { function: frame.name?, location: own, inlined: true });
    }
    let own = if frames.is_empty() { location } else { outermost.location.clone() };
    let own = own.map(|own| within(own, &outermost));
    frames.push(Frame { function: symbol.or(outermost.name)?, location: own, inlined: false });
    Some(frames)
}

/// Completes a location with what is known of the frame that it lies in.
fn within(location: SourceLocation, frame: &WalkedFrame) -> SourceLocation {
    SourceLocation {
        start_line: frame.start_line,
        discriminator: location.discriminator.max(frame.discriminator),
        ..location
    }
}
