//! Names for the places of a profile: the driver between the files of this machine and the symbolizer.
//!
//! All unique places of a space are one job. Jobs run on all cores, the largest first; a job with much debug
//! information is helped by threads that have run out of jobs. Nothing is opened that no place lies in.

pub mod downloads;
mod generated;
mod kernel;
mod object_cache;
mod objects;
mod recorded;
mod remarks;
mod source_owners;
mod threads;

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::SystemTime;

use elf::UnpackBudget;
use host::objects::{ObjectLimits, ObjectStore, RecordedFiles, RetainedFiles, SearchPaths};
use host::sys::identity::NOBODY;
use host::sys::system;
use model::{
    FileOffset, Harm, Name, Pid, Reason, Resolution, SourceLocation, Space, SpaceId, SpaceTable, StackEntry,
    Symbolized, UNKNOWN_JAVASCRIPT,
};
use symbolizer::archived::ArchivedNames;
use symbolizer::{Options, Resolutions};

use generated::{Lookups, PerfMaps};
use kernel::{KernelNames, RunningKernel};
use object_cache::{Indexes, ObjectCache};
use recorded::RecordedNames;
use remarks::MissingUnits;
pub use remarks::Remarks;
pub use source_owners::SourceOwners;
use source_owners::locations;
use threads::{ThreadSource, Threads};

use crate::Notices;
use crate::embedded::sections;
use crate::generated_code::jit_dumps::JitDumps;
use crate::input::Input;
use crate::input::process_lifetimes::ProcessLifetimes;

/// The settings of a search for names.
pub struct SymbolSettings {
    /// The places in which files are looked for.
    pub paths: SearchPaths,
    /// The details that are wanted of each place.
    pub options: Options,
    /// True if source files will be read, for which root must know who answers for their names ([`Symbols::source_owners`]).
    pub reads_sources: bool,
}

/// Resolutions of stack entries, and remarks on files that were not used, or in part only.
#[derive(Default)]
pub struct Symbols {
    /// The resolution of each entry.
    pub resolutions: Resolutions,
    /// The users who answer for the source files of their lines.
    pub source_owners: SourceOwners,
    /// True if debug information may tell more of an address than its symbol.
    pub has_more_than_symbols: bool,
    remarks: Remarks,
}

impl Symbols {
    /// Returns the remarks on what was found and not used, or in part only: one sentence each.
    pub fn remarks(&self) -> Vec<String> {
        self.remarks.sentences()
    }

    /// The same, to be added to those of other lookups.
    pub fn into_remarks(self) -> Remarks {
        self.remarks
    }
}

/// Entries of one space.
struct Job<'a> {
    space: &'a Space,
    entries: &'a [StackEntry],
    pids: Vec<Pid>,
}

/// The resolutions that a job found.
#[derive(Default)]
struct Answers {
    resolutions: Vec<Resolution>,
    notes: Vec<String>,
    /// The object, where names in it were cut, and how many so far.
    cut_names: Option<(Name, usize)>,
    missing_units: Option<MissingUnits>,
    /// The users who answer for the files that the lines come from.
    authors: Vec<u32>,
    /// True if debug information may tell more than symbols do.
    has_more: bool,
}

impl Answers {
    /// No name for any of the entries.
    fn none(entries: &[StackEntry], reason: &Reason) -> Self {
        let resolutions = entries.iter().map(|_| Resolution::Unresolved(reason.clone())).collect();
        Self { resolutions, ..Self::default() }
    }
}

/// The most entries of a job. Until they are put with the others, answers take some 150 bytes each. What is known of an
/// object is found anew for each of its jobs: more than one needs a recording made for it, or very large.
const MAX_JOB_ENTRIES: usize = 1 << 18;

fn is_kernel(space: &Space) -> bool {
    matches!(space, Space::Kernel { .. } | Space::KernelModule { .. })
}

/// The files that names come from, opened when they are asked for and kept for the next time.
pub struct Symbolizing {
    store: ObjectStore,
    running_kernel: Arc<RunningKernel>,
    /// The time at which the file of the recording was written last.
    written: Option<SystemTime>,
    /// Made for the first place in the kernel: the recording has said by then which kernel that is.
    kernel: OnceLock<KernelNames>,
    perf_maps: PerfMaps,
    dumps: Arc<JitDumps>,
    recorded: RecordedNames,
    archived: ArchivedNames,
    /// The user who answers for lines in the recording.
    recording_author: u32,
    reads_sources: bool,
    options: Options,
    /// Indexes or objects that are kept between calls.
    kept: ObjectCache,
    threads: ThreadSource,
}

impl Symbolizing {
    /// Has read nothing yet.
    pub fn new(settings: &SymbolSettings) -> Self {
        Self {
            store: ObjectStore::new(settings.paths.clone()),
            running_kernel: Arc::default(),
            written: None,
            kernel: OnceLock::new(),
            perf_maps: PerfMaps::new(settings.paths.this_host, None),
            dumps: Arc::default(),
            recorded: RecordedNames::default(),
            archived: ArchivedNames::default(),
            recording_author: NOBODY,
            reads_sources: settings.reads_sources && system::effective_user() == 0,
            options: settings.options,
            kept: ObjectCache::Nothing,
            threads: ThreadSource::Fresh,
        }
    }

    /// Names the places of a recording: with the names that it carries, too, for what has none elsewhere. What is damaged of
    /// them is said. One that names no host may be of any.
    #[must_use]
    pub fn with_names_of(self, input: &Input, notices: &dyn Notices) -> Self {
        let recording = &input.reader;
        let names_host = recording.features().hostname.is_some();
        let store = if names_host { self.store } else { self.store.without_own_images() };
        let (recorded, error) = RecordedNames::new(recording, self.options.names);
        if let Some(error) = error {
            notices.warn(Harm::Names, &format!("names in the recording: {error}"));
        }
        let (archived, damage) = sections::names(recording, self.options.names);
        if let Some(damage) = damage {
            notices.warn(Harm::Names, &format!("names in the recording: {damage}"));
        }
        Self { store, recorded, archived, recording_author: input.author, ..self }
    }

    /// Sets when the file of the recording was written last. A recording that names no kernel may then be found to be of the
    /// running system.
    #[must_use]
    pub fn with_writing_time(self, written: Option<SystemTime>) -> Self {
        Self { written, ..self }
    }

    /// Judges perf maps by when the processes of a recording lived, instead of by those that run now.
    #[must_use]
    pub fn with_lifetimes(self, lifetimes: &Arc<ProcessLifetimes>) -> Self {
        let perf_maps = PerfMaps::new(self.store.paths().this_host, Some(Arc::clone(lifetimes)));
        Self { perf_maps, ..self }
    }

    /// Takes files that were kept open while recording before it looks for others, and only files that are as `recorded`.
    #[must_use]
    pub fn with_files(self, held: &Arc<RetainedFiles>, recorded: &Arc<RecordedFiles>) -> Self {
        let store =
            self.store.with_retained_files(Arc::clone(held)).with_recorded_files(Arc::clone(recorded));
        Self { store, ..self }
    }

    /// Names generated code by the jitdump files that were found when the records were played.
    #[must_use]
    pub fn with_dumps(self, dumps: &Arc<JitDumps>) -> Self {
        Self { dumps: Arc::clone(dumps), ..self }
    }

    /// Keeps objects, their files and their symbols, for those who will resolve many times and then end.
    #[must_use]
    pub fn keeping_objects(self) -> Self {
        Self { kept: ObjectCache::Files(Mutex::default()), ..self }
    }

    /// Keeps up to so many bytes of what was read of objects, and opens their files anew each time, for those who will
    /// resolve now and then for days.
    #[must_use]
    pub fn keeping_indexes(self, most: usize) -> Self {
        // Objects whose debug sections take more unpacked have the names of their symbols alone. With 96 MiB, `prof watch` had 130 MB
        // resident beside builds, browsers and Python, 32 of them in unpacked sections.
        let limits =
            ObjectLimits { unpacked: UnpackBudget::new(24 << 20, 24 << 20), checksummed_bytes: 256 << 20 };
        let store = self.store.with_limits(limits);
        Self { kept: ObjectCache::Indexes(Mutex::new(Indexes::new(most))), store, ..self }
    }

    /// Works with a few threads that stay, for those who will resolve now and then for days.
    #[must_use]
    pub fn with_few_threads(self) -> Self {
        Self { threads: ThreadSource::small_pool(), ..self }
    }

    /// Starts to read the running kernel's names, for those who will ask for them when they have done something else.
    pub fn read_kernel_ahead(&self) {
        self.running_kernel.read_ahead();
    }

    /// Waits anew for file systems that did not answer, for those that watch processes while they run.
    pub fn reset_timeouts(&self) {
        self.perf_maps.reset_timeouts();
    }

    /// Returns true if an address that lies in no mapping of its process (`unmapped`) may have a name all the same: an archive or a
    /// perf map may have one. Looks for files; may wait for a file system that does not answer.
    pub(crate) fn may_name_unmapped(&self, unmapped: &Space) -> bool {
        let Space::Unmapped { pid, .. } = unmapped else { return true };
        self.archived.names_space(unmapped) || self.perf_maps.may_exist(*pid)
    }

    /// Resolves entries, and adds the answers to `symbols`. They may come in any order and more than once. `pids` tells
    /// processes that a space was mapped in: a file is then seen as they see it, while they live.
    pub fn resolve(
        &self,
        entries: impl IntoIterator<Item = StackEntry>,
        spaces: &SpaceTable,
        pids: impl Fn(SpaceId) -> Vec<Pid>,
        symbols: &mut Symbols,
    ) {
        self.resolve_as(self.options, entries, spaces, pids, symbols);
    }

    /// As [`Self::resolve`], by symbols alone where an address has one: debug information takes longer to read.
    pub fn resolve_without_inlines(
        &self,
        entries: impl IntoIterator<Item = StackEntry>,
        spaces: &SpaceTable,
        pids: impl Fn(SpaceId) -> Vec<Pid>,
        symbols: &mut Symbols,
    ) {
        self.resolve_as(Options { inlines: false, ..self.options }, entries, spaces, pids, symbols);
    }

    fn resolve_as(
        &self,
        options: Options,
        entries: impl IntoIterator<Item = StackEntry>,
        spaces: &SpaceTable,
        pids: impl Fn(SpaceId) -> Vec<Pid>,
        symbols: &mut Symbols,
    ) {
        let mut entries: Vec<StackEntry> = entries.into_iter().collect();
        entries.sort_unstable_by_key(|entry| (entry.space, *entry));
        entries.dedup();
        symbols.resolutions.reserve(entries.len());
        let mut archived = Resolutions::default();
        if !self.archived.is_empty() {
            // Archived names are not looked up again: a file of the same name may be another one on this machine.
            entries.retain(|entry| {
                let space = spaces.get(entry.space);
                let Some(found) = self.archived.resolve(space, entry) else { return true };
                // A recording may name any source file: root relies on the object that has the line table, if there is one.
                let has_object = self.reads_sources && matches!(space, Space::Object(_));
                if has_object {
                    archived.insert(*entry, found.clone());
                } else {
                    symbols.source_owners.add(&found, &[self.recording_author]);
                }
                symbols.resolutions.insert(*entry, found);
                has_object
            });
        }
        let mut jobs: Vec<Job<'_>> = Vec::new();
        let of_spaces = entries.chunk_by(|one, next| one.space == next.space);
        for entries in of_spaces.flat_map(|of_space| of_space.chunks(MAX_JOB_ENTRIES)) {
            let Some(first) = entries.first() else { continue };
            jobs.push(Job { space: spaces.get(first.space), entries, pids: pids(first.space) });
        }
        // The kernel's list takes long to read, and is one piece: it comes first, or when there is nothing left to do
        // but to wait for the thread that reads it.
        let kernel_last = self.running_kernel.is_read_ahead();
        jobs.sort_by_key(|job| (is_kernel(job.space) == kernel_last, std::cmp::Reverse(job.entries.len())));
        let threads = Threads::new(&self.threads, jobs.len());
        let lookups = self.perf_maps.lookups(&jobs);
        let answered = Mutex::new(&mut *symbols);
        threads.run(&jobs, |job| {
            let mut answers = self.job(job, spaces, options, &threads, &lookups);
            self.recorded.complete(job.space, job.entries, &mut answers.resolutions);
            self.archived.complete(job.space, job.entries, &mut answers.resolutions);
            // Each answer is stored whole, so those of a thread that has panicked since are usable.
            let mut symbols = answered.lock().unwrap_or_else(PoisonError::into_inner);
            for (&entry, resolution) in job.entries.iter().zip(answers.resolutions) {
                let Some(archived) = archived.get(&entry) else {
                    symbols.source_owners.add(&resolution, &answers.authors);
                    symbols.resolutions.insert(entry, resolution);
                    continue;
                };
                let names = |file: &str| locations(&resolution).any(|location| *location.file == *file);
                let is_named = locations(archived).all(|location| names(&location.file));
                let authors = if is_named { &answers.authors[..] } else { &[self.recording_author] };
                symbols.source_owners.add(archived, authors);
            }
            symbols.has_more_than_symbols |= answers.has_more;
            symbols.remarks.notes.extend(answers.notes);
            if let Some((path, cut)) = answers.cut_names {
                symbols.remarks.add_cut_names(path, cut);
            }
            if let Some(missing) = answers.missing_units {
                symbols.remarks.add_missing_units(missing);
            }
        });
        lookups.remark(&mut symbols.remarks);
        symbols.remarks.maps.add_dumps(self.dumps.remarks());
    }

    /// Names variables of an object, each by the offset of code in the file and the distance of the variable to it.
    pub(crate) fn variables(
        &self,
        space: &Space,
        pids: &[Pid],
        wanted: &[(FileOffset, u64)],
    ) -> Vec<Option<String>> {
        let Space::Object(identity) = space else { return Vec::new() };
        let found = objects::resolve_variables(&self.store, identity, pids, wanted, self.options);
        let name = |resolution: Resolution| {
            let Resolution::Resolved(Symbolized { frames, symbol_offset }) = resolution else { return None };
            let name = frames.first()?.function.to_string();
            // Locks, conditions and semaphores of pthreads have up to 56 bytes, and several words that are waited for.
            Some(match symbol_offset.filter(|&offset| offset >= 56) {
                Some(offset) => format!("{name}+{offset:#x}"),
                None => name,
            })
        };
        found.into_iter().map(name).collect()
    }

    fn job(
        &self,
        job: &Job<'_>,
        spaces: &SpaceTable,
        options: Options,
        threads: &Threads<'_>,
        lookups: &Lookups<'_>,
    ) -> Answers {
        let each = |answer: &dyn Fn(&StackEntry) -> Resolution| Answers {
            resolutions: job.entries.iter().map(answer).collect(),
            ..Answers::default()
        };
        let kernel = || {
            self.kernel.get_or_init(|| {
                let running = Arc::clone(&self.running_kernel);
                KernelNames::new(self.store.paths(), running, spaces, self.written)
            })
        };
        match job.space {
            Space::Object(identity) => {
                let (store, kept) = (&self.store, &self.kept);
                objects::resolve_file(store, kept, identity, &job.pids, job.entries, options, threads)
            }
            Space::Vdso { build_id } => {
                objects::resolve_vdso(&self.store, *build_id, job.entries, options, threads)
            }
            Space::Kernel { .. } => each(&|entry| kernel().resolve(entry)),
            Space::KernelModule { name, .. } => each(&|entry| kernel().resolve_in_module(name, entry)),
            Space::KernelSymbol { name } => each(&|entry| named(&name.to_string(), Some(entry.offset))),
            Space::Jit { pid, .. } => each(&|entry| lookups.resolve(*pid, job.space, entry)),
            Space::JitDump { .. } => Answers {
                authors: job
                    .entries
                    .first()
                    .and_then(|entry| self.dumps.author(entry.space))
                    .into_iter()
                    .collect(),
                ..each(&|entry| self.dumps.resolve(entry))
            },
            Space::JavaScript { name } if name.as_bytes() == UNKNOWN_JAVASCRIPT.as_bytes() => {
                Answers::none(job.entries, &Reason::JavaScriptNotFound)
            }
            Space::JavaScript { name } => {
                let name = name.to_string();
                let (function, file) = (Arc::from(&*Name::cut(&name)), Name::from(javascript_file(&name)));
                each(&|entry| line_of_function(&function, &file, entry))
            }
            Space::TaskLabel { name } => each(&|_| named(&name.to_string(), None)),
            Space::Python { file, .. } if file.is_empty() => {
                Answers::none(job.entries, &Reason::PythonNotFound)
            }
            Space::Python { file, function } => {
                let function = python_name(file, function);
                each(&|entry| line_of_function(&function, file, entry))
            }
            Space::Unmapped { pid, .. } => each(&|entry| match lookups.resolve(*pid, job.space, entry) {
                resolved @ Resolution::Resolved(_) => resolved,
                _ => Resolution::Unresolved(Reason::Unmapped),
            }),
            Space::Truncated(reason) => each(&|_| Resolution::Unresolved(Reason::Truncated(*reason))),
            // The state of a thread is no code; the view names it.
            Space::State(_) => each(&|_| Resolution::Unresolved(Reason::Unmapped)),
            Space::Foreign(reason) => each(&|_| Resolution::Unresolved(reason.clone())),
        }
    }
}

/// Returns the name of a Python function. One without a name of its own (`<module>`, `<lambda>`) has its file's.
fn python_name(file: &Name, function: &Name) -> Arc<str> {
    let has_name = !function.as_bytes().starts_with(b"<");
    let name =
        if has_name { function.to_string() } else { format!("{function} ({})", Name::new(file.base_name())) };
    Name::cut(&name).into()
}

/// Returns the path in V8's name of a function: `JS:*handle /srv/app.js:4:16`.
fn javascript_file(name: &str) -> &str {
    let place = name.split_once(' ').map_or("", |(_, place)| place);
    // A name of two words, such as `get x`, has another blank before the path.
    let path = [" /", " node:", " file:"].iter().find_map(|start| place.get(place.find(start)? + 1..));
    let place = path.unwrap_or(place);
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let mut path = place;
    for _ in 0..2 {
        match path.rsplit_once(':') {
            Some((before, number)) if is_number(number) => path = before,
            _ => break,
        }
    }
    path
}

/// A place in a function whose offsets are lines.
fn line_of_function(function: &Arc<str>, file: &Name, entry: &StackEntry) -> Resolution {
    let location = SourceLocation {
        file: Name::cut(&file.to_string()).into(),
        line: u32::try_from(entry.lookup_offset()).unwrap_or(0),
        column: 0,
        discriminator: 0,
        start_line: 0,
    };
    let frame = model::Frame { function: Arc::clone(function), location: Some(location), inlined: false };
    Resolution::Resolved(Symbolized { frames: [frame].into(), symbol_offset: None })
}

/// A place with one function, of which no line is known.
fn named(function: &str, symbol_offset: Option<u64>) -> Resolution {
    let frame = model::Frame { function: function.into(), location: None, inlined: false };
    Resolution::Resolved(Symbolized { frames: [frame].into(), symbol_offset })
}
