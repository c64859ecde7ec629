//! jitdump files of a recording's processes: found when a process maps one, and played beside the records, so that an address
//! that was used twice belongs to the code which lay there when the sample was taken.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use decoder::{Attr, AttrFlags};
pub use generated::is_dump;
use generated::{Function, JitDump, Placement, READ_INTERVAL};
use host::perf_map::{self, MapFile, RefusedMap};
use host::procfs;
use host::timed_worker::{CALL_TIMEOUT, Outcome, TOTAL_TIMEOUT, TimedWorker};
use model::ProcessLifetime;
use model::{
    Avma, Frame, MapRefusal, Name, Pid, Reason, Resolution, SourceLocation, Space, SpaceId, SpaceTable,
    StackEntry, Symbolized, Timestamp,
};
use tracker::Tracker;

use crate::embedded::jit_placements::EmbeddedPlacements;
use crate::input::process_lifetimes::ProcessLifetimes;

/// Maximum number of dumps that are read, because each takes memory. Later dumps of a recording are ignored.
const MAX_DUMPS: usize = 4096;

/// The dumps of a recording, or of running processes. Shared by the replay of records and the lookup of names.
#[derive(Default)]
pub struct JitDumps {
    /// The lifetimes of processes; `None` where `/proc` alone tells.
    lifetimes: Option<Arc<ProcessLifetimes>>,
    /// True if the processes are, or were, of this machine.
    this_host: bool,
    dumps: Mutex<HashMap<SpaceId, Arc<Dump>>>,
    /// What the recording itself tells of them.
    embedded: EmbeddedPlacements,
}

/// One dump.
struct Dump {
    pid: Pid,
    content: Result<DumpContent, RefusedMap>,
}

struct DumpContent {
    file: Arc<MapFile>,
    parsed: Arc<Mutex<JitDump>>,
    /// The error in it, in words.
    error: Mutex<Option<String>>,
    /// True if its times are those of the recording.
    has_times: bool,
}

impl DumpContent {
    /// A placement by the clock of the recording.
    fn at(&self, placement: &Placement) -> Placement {
        Placement { time: if self.has_times { placement.time } else { Timestamp(0) }, ..*placement }
    }
}

/// The remarks on dumps that were read.
#[derive(Default)]
pub(crate) struct DumpRemarks {
    /// Those that are not used.
    pub(crate) refused: Vec<RefusedMap>,
    /// Sentences.
    pub(crate) sentences: Vec<String>,
}

impl JitDumps {
    /// Of a recording; without `lifetimes`, of processes that are watched while they run.
    pub fn new(this_host: bool, lifetimes: Option<Arc<ProcessLifetimes>>) -> Self {
        Self { lifetimes, this_host, dumps: Mutex::default(), embedded: EmbeddedPlacements::default() }
    }

    /// The same of a recording that carries what it needs of them, for when they cannot be had.
    pub(crate) fn with_embedded(self, embedded: EmbeddedPlacements) -> Self {
        Self { embedded, ..self }
    }

    /// Returns the placements of the functions that these entries lie in, by the jitdump that tells of them. Entries outside of
    /// jitdumps are ignored.
    pub fn sampled_placements<'a, 's>(
        &self,
        entries: impl IntoIterator<Item = &'a StackEntry>,
        spaces: &'s SpaceTable,
    ) -> Vec<(&'s Space, Vec<Placement>)> {
        let mut sampled: BTreeMap<_, BTreeSet<u64>> = BTreeMap::new();
        for entry in entries {
            if let Space::JitDump { .. } = spaces.get(entry.space) {
                sampled.entry(entry.space).or_default().insert(entry.lookup_offset());
            }
        }
        let placements = sampled.iter().map(|(id, offsets)| {
            let space = spaces.get(*id);
            (space, self.placements_of(*id, space, offsets))
        });
        placements.collect()
    }

    /// Returns the placements of the functions that have bytes at these offsets of a dump, in the order of the dump.
    fn placements_of(&self, id: SpaceId, space: &Space, offsets: &BTreeSet<u64>) -> Vec<Placement> {
        let is_wanted = |placement: &Placement| {
            offsets.range(placement.offset..placement.offset.saturating_add(placement.size)).next().is_some()
        };
        let dump = self.dump(id);
        let Some(Ok(content)) = dump.as_deref().map(|dump| &dump.content) else {
            let embedded = self.embedded.get(space).into_iter().flatten();
            return embedded.filter(|placement| is_wanted(placement)).copied().collect();
        };
        let parsed = lock(&content.parsed);
        parsed.placements().iter().map(|placement| content.at(placement)).filter(is_wanted).collect()
    }

    pub(crate) fn life(&self, pid: Pid) -> Option<ProcessLifetime> {
        match &self.lifetimes {
            _ if !self.this_host || pid.0 <= 0 => None,
            Some(lifetimes) => Some(lifetimes.lifetime(pid)),
            None => procfs::life(pid).ok(),
        }
    }

    fn dump(&self, space: SpaceId) -> Option<Arc<Dump>> {
        lock(&self.dumps).get(&space).cloned()
    }

    /// Returns the user who answers for the contents of a dump; `None` if it is not used.
    pub(crate) fn author(&self, space: SpaceId) -> Option<u32> {
        Some(self.dump(space)?.content.as_ref().ok()?.file.author())
    }

    /// The function at a place of a dump.
    pub(crate) fn resolve(&self, entry: &StackEntry) -> Resolution {
        let none = |reason| Resolution::Unresolved(reason);
        let Some(dump) = self.dump(entry.space) else { return none(Reason::NoJitMap) };
        let content = match &dump.content {
            Ok(content) => content,
            Err(refused) => return none(Reason::JitMapRefused(refused.why)),
        };
        // By now, the end of the process is known, if the recording has it.
        let life = self.lifetimes.as_ref().and_then(|_| self.life(dump.pid));
        if let Some(why) = life.and_then(|life| content.file.refusal(&life)) {
            return none(Reason::JitMapRefused(why));
        }
        let parsed = lock(&content.parsed);
        let offset = entry.lookup_offset();
        let Some(Function { name, offset: start, .. }) = parsed.function(offset) else {
            return none(Reason::NotInJitMap);
        };
        let location = parsed.line(offset).map(|line| SourceLocation {
            file: line.file.into(),
            line: line.line,
            column: line.column,
            discriminator: 0,
            start_line: 0,
        });
        let frame = Frame { function: name.into(), location, inlined: false };
        Resolution::Resolved(Symbolized {
            frames: [frame].into(),
            symbol_offset: entry.offset.checked_sub(start),
        })
    }

    /// Returns the remarks on dumps.
    pub(crate) fn remarks(&self) -> DumpRemarks {
        let mut remarks = DumpRemarks::default();
        let mut timeless = Vec::new();
        for dump in lock(&self.dumps).values() {
            let content = match &dump.content {
                Ok(content) => content,
                Err(refused) => {
                    remarks.refused.push(refused.clone());
                    continue;
                }
            };
            let life = self.lifetimes.as_ref().and_then(|_| self.life(dump.pid));
            if let Some(why) = life.and_then(|life| content.file.refusal(&life)) {
                remarks.refused.push(RefusedMap { path: content.file.path.clone(), why });
                continue;
            }
            let path = &content.file.path;
            if let Some(error) = &*lock(&content.error) {
                remarks.sentences.push(format!("{path}: {error}"));
            }
            let parsed = lock(&content.parsed);
            if parsed.bad_records() > 0 {
                remarks.sentences.push(format!("{path}: {} records are malformed", parsed.bad_records()));
            } else if parsed.is_cut() && lock(&content.error).is_none() {
                remarks.sentences.push(format!("{path} is too large: only its beginning is used"));
            }
            if !content.has_times {
                timeless.push(path.clone());
            }
        }
        timeless.sort();
        if let Some(first) = timeless.first() {
            let more =
                if timeless.len() > 1 { format!(" and {} more", timeless.len() - 1) } else { String::new() };
            remarks.sentences.push(format!(
                "addresses in code of {first}{more} have the last function's name: the recording has another clock; try: prof record, or perf record -k mono"
            ));
        }
        remarks
    }

    fn is_full_or_has(&self, space: SpaceId) -> bool {
        let dumps = lock(&self.dumps);
        dumps.len() >= MAX_DUMPS || dumps.contains_key(&space)
    }

    fn retain(&self, mut keep: impl FnMut(SpaceId) -> bool) {
        lock(&self.dumps).retain(|&space, _| keep(space));
    }
}

/// Returns true if the times of an event are of `CLOCK_MONOTONIC`, as those of jitdump files.
pub fn has_clock_of_dumps(attr: &Attr) -> bool {
    const CLOCK_MONOTONIC: i32 = 1;
    attr.flags.contains(AttrFlags::USE_CLOCKID) && attr.clockid == CLOCK_MONOTONIC
}

/// Plays the dumps of a recording beside its records.
pub struct DumpPlayer {
    dumps: Arc<JitDumps>,
    playing: Vec<PlayedDump>,
    /// The time of the next function of any dump.
    next: Timestamp,
    worker: TimedWorker,
    waited: Duration,
    checked: Instant,
}

struct PlayedDump {
    pid: Pid,
    space: SpaceId,
    /// The program that wrote it: see [`Tracker::program`].
    program: u32,
    /// `None` where the recording alone tells of it.
    dump: Option<Arc<Dump>>,
    /// Functions that have not been played, the first one last.
    pending: Vec<Placement>,
    /// Placements of the dump that were queued.
    queued: usize,
}

impl PlayedDump {
    fn content(&self) -> Option<&DumpContent> {
        self.dump.as_ref()?.content.as_ref().ok()
    }
}

/// Placements in the order of a dump as they are played: the first one last; of the same time, too.
fn latest_first(placements: impl Iterator<Item = Placement>) -> Vec<Placement> {
    let mut placements: Vec<Placement> = placements.collect();
    placements.reverse();
    placements.sort_by_key(|placement| std::cmp::Reverse(placement.time));
    placements
}

impl DumpPlayer {
    /// Knows no dump yet. What it finds can be looked up in `dumps`.
    pub fn new(dumps: Arc<JitDumps>) -> Self {
        Self {
            dumps,
            playing: Vec::new(),
            next: Timestamp(u64::MAX),
            worker: TimedWorker::default(),
            waited: Duration::ZERO,
            checked: Instant::now(),
        }
    }

    /// A process has mapped a file that [`is_dump`]. `has_clock` says whether the records' times are of `CLOCK_MONOTONIC`, as
    /// those of dumps are. Opens and reads the dump, or takes what the recording carries of it; returns true where functions are to be
    /// played at once.
    pub fn start(&mut self, pid: Pid, path: &[u8], has_clock: bool, tracker: &mut Tracker) -> bool {
        let life = self.dumps.life(pid);
        if life.is_none() && self.dumps.embedded.is_empty() {
            return false;
        }
        let (space, program) = tracker.begin_dump(pid, path);
        if self.playing.len() >= MAX_DUMPS || self.plays(space) || self.dumps.is_full_or_has(space) {
            return false;
        }
        let content = life.and_then(|life| self.open(pid, path, life, has_clock));
        let embedded = self.dumps.embedded.get(tracker.spaces().get(space));
        let (dump, pending) = match (content, embedded) {
            (None | Some(Err(_)), Some(embedded)) => (None, latest_first(embedded.iter().copied())),
            // The dump was deleted, and the recording has no placements of it.
            (None, None) => return false,
            (Some(content), _) => (Some(Arc::new(Dump { pid, content })), Vec::new()),
        };
        if let Some(dump) = &dump {
            lock(&self.dumps.dumps).insert(space, Arc::clone(dump));
        }
        self.playing.push(PlayedDump { pid, space, program, dump, pending, queued: 0 });
        self.queue_new_placements();
        self.next.0 == 0
    }

    /// Opens and reads the dump that a process has mapped; `None` where it is gone.
    fn open(
        &mut self,
        pid: Pid,
        path: &[u8],
        life: ProcessLifetime,
        has_clock: bool,
    ) -> Option<Result<DumpContent, RefusedMap>> {
        let is_recording = self.dumps.lifetimes.is_some();
        let patience = if is_recording { TOTAL_TIMEOUT.saturating_sub(self.waited) } else { CALL_TIMEOUT };
        let (begin, asked) = (Instant::now(), path.to_vec());
        let outcome = self.worker.run(patience, move || {
            let file = perf_map::find_dump(pid, &asked, life)?;
            let mut parsed = JitDump::default();
            let error = file.as_ref().and_then(|file| parsed.read(&mut file.reader()).err());
            Ok(file.map(|file| (file, parsed, error.map(|error| error.to_string()))))
        });
        self.waited += begin.elapsed();
        let found = match outcome {
            Outcome::Done(found) => found,
            Outcome::Pending(_) | Outcome::Refused => {
                Err(RefusedMap { path: Name::new(path).to_string(), why: MapRefusal::Unanswered })
            }
        };
        let found = found.transpose()?;
        Some(found.map(|(file, parsed, error)| DumpContent {
            file: Arc::new(file),
            has_times: has_clock && !parsed.has_processor_times(),
            parsed: Arc::new(Mutex::new(parsed)),
            error: Mutex::new(error),
        }))
    }

    /// Returns true if functions may still come that lie in this space.
    pub fn plays(&self, space: SpaceId) -> bool {
        self.playing.iter().any(|playing| playing.space == space)
    }

    /// Returns true if functions of a dump were there before `time`, and are to be played.
    pub fn is_due(&self, time: Timestamp) -> bool {
        self.next <= time
    }

    /// Tells `tracker` of the functions that were there before `time`. Samples that were taken before must have been mapped.
    pub fn play(&mut self, time: Timestamp, tracker: &mut Tracker) {
        self.playing.retain_mut(|playing| {
            // Another program runs in the process, or another process has its number.
            if tracker.program(playing.pid) != Some(playing.program) {
                return false;
            }
            let due = playing.pending.partition_point(|placement| placement.time > time);
            if due < playing.pending.len() {
                let placed = playing.pending.drain(due..).rev();
                let functions = placed.map(|placement| {
                    let last = placement.start.0.saturating_add(placement.size - 1);
                    (placement.start, Avma(last), placement.offset)
                });
                tracker.map_generated(playing.pid, playing.space, functions);
            }
            true
        });
        self.find_next();
    }

    /// Forgets the dumps of spaces that are forgotten.
    pub fn retain(&self, keep: impl FnMut(SpaceId) -> bool) {
        self.dumps.retain(keep);
    }

    /// Reads what dumps have grown by, at most once per [`READ_INTERVAL`]: for processes that are watched while they run.
    pub fn check_growth(&mut self) {
        if self.checked.elapsed() < READ_INTERVAL || self.playing.is_empty() {
            return;
        }
        self.checked = Instant::now();
        for playing in &self.playing {
            let Some(content) = playing.content() else { continue };
            let (file, parsed) = (Arc::clone(&content.file), Arc::clone(&content.parsed));
            let outcome = self.worker.run(CALL_TIMEOUT, move || {
                lock(&parsed).read(&mut file.reader()).err().map(|error| error.to_string())
            });
            if let Outcome::Done(Some(error)) = outcome {
                *lock(&content.error) = Some(error);
            }
        }
        self.queue_new_placements();
    }

    /// Queues the placements that dumps have gained since the last call.
    fn queue_new_placements(&mut self) {
        for playing in &mut self.playing {
            let Some(dump) = playing.dump.clone() else { continue };
            let Ok(content) = &dump.content else { continue };
            let Ok(parsed) = content.parsed.try_lock() else { continue };
            let new = parsed.placements().get(playing.queued..).unwrap_or_default();
            if new.is_empty() {
                continue;
            }
            // Of placements with the same time, the pending ones are older.
            let pending = playing.pending.drain(..).rev();
            let pending = latest_first(pending.chain(new.iter().map(|placement| content.at(placement))));
            playing.pending = pending;
            playing.queued = parsed.placements().len();
        }
        self.find_next();
    }

    fn find_next(&mut self) {
        let next = self.playing.iter().filter_map(|playing| playing.pending.last());
        self.next = next.map(|placement| placement.time).min().unwrap_or(Timestamp(u64::MAX));
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Data that was read stays valid if another thread has panicked.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
