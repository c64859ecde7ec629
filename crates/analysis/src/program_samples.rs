//! The samples of one build of a program, from one or several recordings, with what compilers match profiles with code by.
//!
//! Names and lines come from the program itself, not from names that a recording carries: those lack discriminators and the start lines
//! of functions.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use elf::{Object, Symbol, SymbolKind, SymbolSource};
use export::exchange::compilers::{CompilerFormat, LinkedFunction, ProgramPlace, ProgramSamples, bolt_name};
use host::objects::{HostObject, ObjectStore, RecordedFiles, RetainedFiles};
use model::{
    AddressKind, BuildId, FileOffset, Frame, Name, ObjectIdentity, Pid, Reason, Resolution, Space, SpaceId,
    SpaceTable, StackEntry, Svma, Symbolized,
};
use profile::{Count, PlaceId, StackId, StackTable, Weight};
use symbolizer::{NameStyle, Options};
use thiserror::Error;

use crate::Analysis;
use crate::notices::MAX_LISTED;
use crate::report::is_library;
use crate::samples::events::weight_of;
use crate::symbols::{SymbolSettings, Symbolizing, Symbols};

/// The reason why there is no profile of a program for a compiler.
#[derive(Error, Debug)]
#[non_exhaustive]
pub enum ProgramError {
    /// No sample was taken in the own code of a program.
    #[error(
        "no sample of {recording} is in the own code of a program; the samples are in {modules}; try: --module NAME for a library"
    )]
    NoProgram {
        /// The name of the recording.
        recording: String,
        /// Modules with samples.
        modules: String,
    },
    /// The chosen program has no samples.
    #[error("no sample of {recording} is in {wanted}; the samples are in {modules}; try: --module NAME")]
    NotSampled {
        /// The name of the recording.
        recording: String,
        /// The program that was asked for, as it was typed.
        wanted: String,
        /// Modules with samples.
        modules: String,
    },
    /// A recording has samples of another build.
    #[error(
        "{recording} is of another build of {path} ({found}) than those before ({wanted}); try each build alone"
    )]
    OtherBuild {
        /// The name of the recording.
        recording: String,
        /// The path of the program.
        path: String,
        /// The build id in this recording.
        found: String,
        /// The build id in the others.
        wanted: String,
    },
    /// The program cannot be read.
    #[error("cannot read {path}: {reason}; try: --symfs DIR with the build that was recorded")]
    Unreadable {
        /// The path of the program.
        path: Name,
        /// The reason why its file cannot be read.
        reason: Reason,
    },
    /// The program has no debug information, or it covers no sample.
    #[error(
        "{path} has no debug information for the sampled code, which {format} needs; try: clang -O2 -gline-tables-only -fdebug-info-for-profiling, or --debug-dir DIR"
    )]
    NoLines {
        /// The path of the program.
        path: Name,
        /// The name of the format, which needs lines.
        format: &'static str,
    },
    /// The debug information does not say where functions start.
    #[error(
        "the debug information of {path} does not say at which lines functions start; try: clang -O2 -gline-tables-only -fdebug-info-for-profiling, or rustc -Cdebuginfo=1"
    )]
    NoStartLines {
        /// The path of the program.
        path: Name,
    },
    /// The program is not written in Go.
    #[error(
        "{path} is not a Go program; try: --module NAME for another program, or --format autofdo or bolt"
    )]
    NotGo {
        /// The path of the program.
        path: Name,
    },
    /// The program was built by an old Go.
    #[error(
        "{path} does not say at which lines functions start: go-pgo needs a program built by Go 1.20 or newer"
    )]
    OldGo {
        /// The path of the program.
        path: Name,
    },
    /// The program has no symbol table.
    #[error(
        "{path} has no symbol table, in which BOLT finds functions; do not strip it (neither -s nor strip)"
    )]
    NoSymbols {
        /// The path of the program.
        path: Name,
    },
}

/// The program whose samples are collected.
struct Program {
    identity: ObjectIdentity,
    pids: Vec<Pid>,
    held: Arc<RetainedFiles>,
    files: Arc<RecordedFiles>,
    event: String,
    started_unix_ns: Option<u64>,
}

/// Collects the samples of a program from recordings.
pub struct ProgramCollector<'w> {
    /// The program's name or path, as the user gave it.
    wanted: Option<&'w str>,
    program: Option<Program>,
    stacks: StackTable,
    counts: HashMap<StackId, Count>,
    weight: Weight,
    duration_ns: u64,
    /// The space of the program, and of all other code.
    program_space: SpaceId,
    elsewhere: SpaceId,
    spaces: SpaceTable,
    totals: SampleTotals,
}

/// The numbers of samples that were read, and of those that are of the program.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct SampleTotals {
    /// All samples of the recordings.
    pub all: u64,
    /// The sum of their periods.
    pub period: u64,
    /// Those that were taken in the program's own code.
    pub inside: u64,
    /// Those whose event is a clock.
    pub of_clocks: u64,
    /// Those of other builds of the same program, which are left out.
    pub of_other_builds: u64,
}

impl<'w> ProgramCollector<'w> {
    /// Collects nothing yet. `wanted` is the program's file name or path; without it, the program with most samples is taken.
    pub fn new(wanted: Option<&'w str>) -> Self {
        let mut spaces = SpaceTable::default();
        let elsewhere = spaces.intern(Space::Foreign(Reason::Foreign));
        Self {
            wanted,
            program: None,
            stacks: StackTable::default(),
            counts: HashMap::new(),
            weight: Weight::Samples,
            duration_ns: 0,
            program_space: elsewhere,
            elsewhere,
            spaces,
            totals: SampleTotals::default(),
        }
    }

    /// Adds the samples of a recording's first event.
    ///
    /// # Errors
    /// [`ProgramError::NoProgram`], [`ProgramError::NotSampled`], [`ProgramError::OtherBuild`].
    pub fn add(&mut self, analysis: &Analysis) -> Result<(), ProgramError> {
        let Some(event) = analysis.events.first() else { return Ok(()) };
        let presence = presence(analysis);
        let chosen = match &self.program {
            None => self.choose(analysis, &presence)?,
            Some(program) => program.identity.clone(),
        };
        let mut is_program: HashMap<SpaceId, bool> = HashMap::new();
        let mut other_build = None;
        for &space in presence.keys() {
            let Space::Object(identity) = analysis.spaces.get(space) else { continue };
            let same = is_same_build(identity, &chosen);
            is_program.insert(space, same);
            if !same && file_name(&identity.path) == file_name(&chosen.path) {
                other_build = Some(identity.clone());
            }
        }
        if !is_program.values().any(|&same| same) {
            let recording = analysis.name.clone();
            return Err(match other_build {
                Some(other) => ProgramError::OtherBuild {
                    recording,
                    path: chosen.path.to_string(),
                    found: text_of(other.build_id.as_ref()),
                    wanted: text_of(chosen.build_id.as_ref()),
                },
                None => ProgramError::NotSampled {
                    recording,
                    wanted: chosen.path.to_string(),
                    modules: modules(analysis, &presence),
                },
            });
        }
        if self.program.is_none() {
            self.program_space = self.spaces.intern(Space::Object(chosen.clone()));
            let spaces = is_program.iter().filter(|&(_, &same)| same).map(|(&space, _)| space);
            self.program = Some(Program {
                pids: spaces.flat_map(|space| analysis.pids(space)).collect(),
                identity: chosen.clone(),
                held: Arc::clone(&analysis.held),
                files: Arc::clone(&analysis.files),
                event: event.event.name.to_string(),
                started_unix_ns: analysis.time().0,
            });
            self.weight = weight_of(&event.event.attr);
        }
        self.duration_ns = self.duration_ns.saturating_add(analysis.time().1);
        let is_clock = event.is_time || event.event.attr.is_cpu_clock();
        let profile = &event.profile;
        let mut entries: Vec<StackEntry> = Vec::new();
        for (_, stack, count) in profile.counts() {
            add(&mut self.totals.all, count.samples);
            add(&mut self.totals.period, count.period);
            if is_clock {
                add(&mut self.totals.of_clocks, count.samples);
            }
            entries.clear();
            let mut is_of_other_build = false;
            for place in profile.stacks.entries(stack) {
                let Some(entry) = profile.stacks.places().get(place.index()) else { continue };
                let is_inside = is_program.get(&entry.space).copied();
                is_of_other_build |= is_inside == Some(false)
                    && matches!(analysis.spaces.get(entry.space), Space::Object(identity)
                        if identity.path == chosen.path);
                let entry = match is_inside {
                    Some(true) => StackEntry { space: self.program_space, ..*entry },
                    _ => StackEntry {
                        offset: 0,
                        space: self.elsewhere,
                        kind: AddressKind::InstructionPointer,
                        in_kernel: false,
                    },
                };
                // Code elsewhere is one place, however many functions of it are on the stack.
                if entries.last() != Some(&entry) || entry.space == self.program_space {
                    entries.push(entry);
                }
            }
            match entries.first() {
                Some(innermost) if innermost.space == self.program_space => {
                    add(&mut self.totals.inside, count.samples);
                }
                _ if is_of_other_build => add(&mut self.totals.of_other_builds, count.samples),
                _ => {}
            }
            if entries.iter().any(|entry| entry.space == self.program_space) {
                let known = self.counts.entry(self.stacks.intern(&entries)).or_default();
                add(&mut known.samples, count.samples);
                add(&mut known.period, count.period);
            }
        }
        Ok(())
    }

    /// Chooses the program of the first recording.
    fn choose(
        &self,
        analysis: &Analysis,
        presence: &BTreeMap<SpaceId, Presence>,
    ) -> Result<ObjectIdentity, ProgramError> {
        let matches = |identity: &ObjectIdentity| match self.wanted {
            Some(wanted) => is_named(&identity.path, wanted),
            None => identity.path.as_bytes().starts_with(b"/") && !is_library(identity.path.as_bytes()),
        };
        let objects = presence.iter().filter_map(|(&space, &samples)| match analysis.spaces.get(space) {
            Space::Object(identity) => Some((samples, identity)),
            _ => None,
        });
        let heaviest = objects.filter(|(_, identity)| matches(identity)).max_by_key(|(samples, _)| *samples);
        heaviest
            .filter(|(samples, _)| self.wanted.is_some() || samples.inside > 0)
            .map(|(_, identity)| identity.clone())
            .ok_or_else(|| {
                let (recording, modules) = (analysis.name.clone(), modules(analysis, presence));
                match self.wanted {
                    Some(wanted) => ProgramError::NotSampled {
                        recording,
                        wanted: Name::from(wanted).to_string(),
                        modules,
                    },
                    None => ProgramError::NoProgram { recording, modules },
                }
            })
    }

    /// Resolves the places of the program.
    ///
    /// # Errors
    /// The program cannot be read, is not the build that was recorded, or lacks what `format` needs.
    pub fn finish(
        self,
        format: CompilerFormat,
        settings: &SymbolSettings,
    ) -> Result<(ProgramSamples, SampleTotals, ProgramFacts), ProgramError> {
        let Some(program) = &self.program else {
            return Err(ProgramError::NoProgram { recording: String::new(), modules: String::new() });
        };
        let path = program.identity.path.clone();
        let store = ObjectStore::new(settings.paths.clone())
            .with_retained_files(Arc::clone(&program.held))
            .with_recorded_files(Arc::clone(&program.files));
        let object = store
            .open(&program.identity, &program.pids)
            .map_err(|reason| ProgramError::Unreadable { path: path.clone(), reason })?;
        if format == CompilerFormat::GoPgo && !object.has_go_code() {
            return Err(ProgramError::NotGo { path });
        }
        let symbols = match format {
            CompilerFormat::Bolt => linked_functions(&object),
            CompilerFormat::GoPgo | CompilerFormat::AutoFdo => Vec::new(),
        };
        if format == CompilerFormat::Bolt && symbols.is_empty() {
            return Err(ProgramError::NoSymbols { path });
        }
        let options =
            Options { names: NameStyle::Linkage, inlines: true, locations: true, for_compilers: true };
        let of_compilers = SymbolSettings { paths: settings.paths.clone(), options, reads_sources: false };
        let symbolizing = Symbolizing::new(&of_compilers).with_files(&program.held, &program.files);
        let mut resolved = Symbols::default();
        let is_own = |entry: &StackEntry| entry.space == self.program_space;
        let pids = |_: SpaceId| program.pids.clone();
        if format != CompilerFormat::Bolt {
            let places = self.stacks.places().iter().copied().filter(is_own);
            symbolizing.resolve(places, &self.spaces, pids, &mut resolved);
        }
        let nameless: Arc<[Frame]> = Arc::new([]);
        let places = self.stacks.places().iter().map(|entry| {
            if !is_own(entry) {
                return None;
            }
            let address = object.svma_of(FileOffset(entry.lookup_offset()))?.0;
            match resolved.resolutions.get(entry) {
                Some(Resolution::Resolved(of)) => {
                    Some(ProgramPlace { address, frames: Arc::clone(&of.frames) })
                }
                _ if format == CompilerFormat::Bolt => {
                    Some(ProgramPlace { address, frames: Arc::clone(&nameless) })
                }
                _ => None,
            }
        });
        let places: Vec<Option<ProgramPlace>> = places.collect();
        let mut entries = HashMap::new();
        if format == CompilerFormat::AutoFdo {
            entries = self.entries(&object, &symbolizing, &resolved, &program.pids);
        }
        let frames = || places.iter().flatten().flat_map(|place| place.frames.iter());
        let locations = || frames().filter_map(|frame| frame.location.as_ref());
        match format {
            CompilerFormat::AutoFdo if locations().next().is_none() => {
                return Err(ProgramError::NoLines { path, format: "autofdo" });
            }
            CompilerFormat::AutoFdo if locations().all(|location| location.start_line == 0) => {
                return Err(ProgramError::NoStartLines { path });
            }
            CompilerFormat::GoPgo if locations().all(|location| location.start_line == 0) => {
                return Err(ProgramError::OldGo { path });
            }
            _ => {}
        }
        let facts = ProgramFacts {
            has_relocations: object.sections().iter().any(|section| *section.name == *b".rela.text"),
        };
        // The same recordings make the same file: hash maps have another order in each run.
        let address = |place: PlaceId| {
            let entry = self.stacks.places().get(place.index())?;
            Some((is_own(entry), entry.offset, entry.lookup_offset()))
        };
        let mut counts: Vec<(StackId, Count)> =
            self.counts.iter().map(|(&stack, &count)| (stack, count)).collect();
        counts.sort_by_cached_key(|&(stack, _)| self.stacks.entries(stack).map(address).collect::<Vec<_>>());
        let samples = ProgramSamples {
            path: path.to_string(),
            build_id: program
                .identity
                .build_id
                .or(object.build_id())
                .as_ref()
                .map_or_else(String::new, ToString::to_string),
            event: program.event.clone(),
            stacks: self.stacks,
            counts,
            weight: self.weight,
            places,
            entries,
            symbols,
            started_unix_ns: program.started_unix_ns,
            duration_ns: self.duration_ns,
        };
        Ok((samples, self.totals, facts))
    }

    /// Returns the source location of the first instruction of each sampled function that is not inlined.
    fn entries(
        &self,
        object: &HostObject,
        symbolizing: &Symbolizing,
        resolved: &Symbols,
        pids: &[Pid],
    ) -> HashMap<Arc<str>, model::SourceLocation> {
        let starts = self.stacks.places().iter().filter_map(|entry| {
            let Some(Resolution::Resolved(Symbolized { symbol_offset, .. })) =
                resolved.resolutions.get(entry)
            else {
                return None;
            };
            let address = object.svma_of(FileOffset(entry.offset))?.0.checked_sub((*symbol_offset)?)?;
            let offset = object.file_offset_of(Svma(address))?.0;
            Some(StackEntry { offset, kind: AddressKind::InstructionPointer, ..*entry })
        });
        let starts: Vec<StackEntry> = starts.collect();
        let mut found = Symbols::default();
        symbolizing.resolve(starts.iter().copied(), &self.spaces, |_| pids.to_vec(), &mut found);
        let entry = |start: &StackEntry| match found.resolutions.get(start) {
            // An inlined call's samples are not those of the function that is entered.
            Some(Resolution::Resolved(Symbolized { frames, .. })) => match &**frames {
                [Frame { function, location: Some(location), .. }] => {
                    Some((Arc::clone(function), location.clone()))
                }
                _ => None,
            },
            _ => None,
        };
        starts.iter().filter_map(entry).collect()
    }
}

/// Properties of the program's file that limit what a profile is good for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProgramFacts {
    /// True if the linker kept the relocations of the code (`--emit-relocs`).
    pub has_relocations: bool,
}

fn add(sum: &mut u64, count: u64) {
    *sum = sum.saturating_add(count);
}

/// The samples that a space has a part in. The greater one has more samples in its own code.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
struct Presence {
    /// Those that were taken in its code.
    inside: u64,
    /// Those with its code anywhere on their stack.
    anywhere: u64,
}

/// Returns the samples that each space has a part in.
fn presence(analysis: &Analysis) -> BTreeMap<SpaceId, Presence> {
    let mut presence: BTreeMap<SpaceId, Presence> = BTreeMap::new();
    let Some(event) = analysis.events.first() else { return presence };
    let mut spaces = Vec::new();
    for (_, stack, count) in event.profile.counts() {
        spaces.clear();
        let places = event.profile.stacks.places();
        spaces
            .extend(event.profile.stacks.entries(stack).filter_map(|at| Some(places.get(at.index())?.space)));
        if let Some(&innermost) = spaces.first() {
            add(&mut presence.entry(innermost).or_default().inside, count.samples);
        }
        spaces.sort_unstable();
        spaces.dedup();
        for &space in &spaces {
            add(&mut presence.entry(space).or_default().anywhere, count.samples);
        }
    }
    presence
}

/// Names the files with most samples.
fn modules(analysis: &Analysis, presence: &BTreeMap<SpaceId, Presence>) -> String {
    let objects = presence.iter().filter_map(|(&space, &samples)| match analysis.spaces.get(space) {
        Space::Object(identity) => Some((samples, identity.path.to_string())),
        Space::Kernel { .. } => Some((samples, String::from("the kernel"))),
        _ => None,
    });
    let mut objects: Vec<_> = objects.collect();
    objects.sort_by(|one, other| (other.0, &one.1).cmp(&(one.0, &other.1)));
    objects.truncate(MAX_LISTED);
    if objects.is_empty() {
        return String::from("no file");
    }
    objects.into_iter().map(|(_, path)| path).collect::<Vec<_>>().join(", ")
}

/// Returns true if both are the same build: by build id, or without one by path.
fn is_same_build(one: &ObjectIdentity, other: &ObjectIdentity) -> bool {
    match (&one.build_id, &other.build_id) {
        (Some(one), Some(other)) => one.same_object(other),
        (None, None) => one.path == other.path && one.file == other.file,
        _ => false,
    }
}

fn file_name(path: &Name) -> &[u8] {
    path.as_bytes().rsplit(|&byte| byte == b'/').next().unwrap_or_default()
}

/// Returns true if the user means this path: by its file name, by its whole path, or by the end of it.
fn is_named(path: &Name, wanted: &str) -> bool {
    let wanted = wanted.as_bytes();
    let wanted = wanted.strip_prefix(b"./").unwrap_or(wanted);
    let path = path.as_bytes();
    path == wanted
        || path.strip_suffix(wanted).is_some_and(|folder| folder.ends_with(b"/") || wanted.starts_with(b"/"))
}

fn text_of(build_id: Option<&BuildId>) -> String {
    build_id.map_or_else(|| String::from("no build id"), ToString::to_string)
}

/// Returns the functions of the symbol table by ascending address, one for each address, by the names that BOLT gives them.
fn linked_functions(object: &Object<impl AsRef<[u8]>>) -> Vec<LinkedFunction> {
    let is_listed = |symbol: &Symbol<'_>| {
        !symbol.is_undefined()
            && !symbol.is_absolute()
            && symbol.address.0 > 0
            && !matches!(symbol.kind, SymbolKind::Other)
    };
    let mut symbols: Vec<Symbol<'_>> = object.symbols(SymbolSource::Full).filter(is_listed).collect();
    // BOLT numbers symbols of one name in this order.
    symbols.sort_by_key(|symbol| symbol.address.0);
    let mut numbers: HashMap<&[u8], usize> = HashMap::new();
    let mut functions: Vec<LinkedFunction> = Vec::new();
    for symbol in symbols {
        let name = symbol.name();
        let is_local = !symbol.is_global && !symbol.is_weak;
        let number = numbers.entry(name).or_default();
        if is_local {
            *number += 1;
        }
        if symbol.kind != SymbolKind::Function || symbol.size == 0 || name.is_empty() {
            continue;
        }
        let text = String::from_utf8_lossy(name);
        let start = symbol.address.0;
        let function = LinkedFunction {
            start,
            end: start.saturating_add(symbol.size),
            name: if is_local { bolt_name(&text, *number) } else { text.into_owned() },
        };
        match functions.last_mut() {
            // Of several names, BOLT knows all.
            Some(last) if last.start == start => {
                if !is_local {
                    *last = function;
                }
            }
            _ => functions.push(function),
        }
    }
    functions
}
