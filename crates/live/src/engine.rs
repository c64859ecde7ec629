//! The engine of `prof top`: counts the records of a running recording, and sends snapshots of what it has counted.
//!
//! The engine runs on the thread of the recording. This file has what it does after each round of records; `consumer` has how it
//! receives them.

use std::collections::{HashMap, HashSet};
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use analysis::TimeWeight;
use analysis::jit_dumps::{DumpPlayer, JitDumps};
use crossbeam_channel::Receiver;
use host::sys::clock;
use host::sys::poll::LOOK_INTERVAL;
use model::{Loss, Space, SpaceId, StackEntry};
use profile::{Count, Profile, StackId, ThreadId};
use recorder::unwind::{MIN_SPACES_TO_FORGET, RefusedTables};
use recorder::{LostCount, MappedFiles};
use rustc_hash::FxBuildHasher;
use symbolizer::NameStyle;
use tracker::SampleReader;

use super::events::LiveEvents;
use super::name_queue::Haste;
use super::names::SymbolTable;
use super::sample_counter::SampleCounter;
use super::symbol_worker::SymbolWorker;
use super::window::{Counted, Window};
use crate::snapshot::{KEPT_APART, Snapshot, Span, Status, first_remarks};

/// A command that the screen sends to the engine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EngineCommand {
    /// Forget all samples.
    Reset,
    /// Make snapshots of this span of samples.
    Span(Span),
}

/// An event that the engine reports to the screen.
pub enum EngineEvent {
    /// The events are open and the command runs.
    Started,
    /// A new snapshot.
    Snapshot(Arc<Snapshot>),
}

/// The settings of an engine.
#[derive(Clone, Debug)]
pub struct EngineSettings {
    /// The recorded target, in words: `whole system`, `pid 17`.
    pub target: String,
    /// The length of the sliding window.
    pub window: Duration,
    /// The time between two snapshots.
    pub interval: Duration,
    /// True if each snapshot covers its interval alone, and is sent when all of its functions are known. Scripts ask for that.
    pub intervals_apart: bool,
    /// The longest time that an interval waits for functions which are still being looked up.
    pub max_symbol_wait: Duration,
    /// True if looking up inlined calls may take a part of a CPU only, for those who make intervals for days. Where that is spent, addresses
    /// have the functions of their symbols, and [`Names::is_pending`](crate::names::Names::is_pending) is true.
    pub bounds_inlines: bool,
    /// True to read what processes with samples are parts of ([`recorder::ProcessResources`]).
    pub reads_resources: bool,
    /// True if user stacks are unwound, so that the engine knows which ones are complete. The kernel's frame-pointer walk ends at
    /// code without frame pointers and does not report it.
    pub stacks_unwound: bool,
    /// The style of functions' names.
    pub names: NameStyle,
    /// The time of threads that is counted instead of samples. The recording must watch switches
    /// ([`recorder::observe_waits`]).
    pub time: Option<TimeWeight>,
}

/// The longest time that a snapshot usually waits for functions which are still being looked up.
pub const MAX_SYMBOL_WAIT: Duration = Duration::from_secs(15);
/// The symbol worker is asked for the functions of new addresses this long before a snapshot, so that the snapshot already has them.
/// If it were asked only for the snapshot, they would appear an interval later: with Node.js, 2.0 s after a function became hot. One
/// round of records at least, every 250 ms, falls into this time. It is the time between the first ten snapshots, too, so that the first
/// rows and their names appear soon.
const SYMBOL_LEAD: Duration = Duration::from_millis(300);

/// A consumer of a recording that counts its samples and sends snapshots of them.
pub struct Engine<F: FnMut(EngineEvent)> {
    pub(crate) settings: EngineSettings,
    /// Disconnected when the screen has been left.
    pub(crate) commands: Receiver<EngineCommand>,
    pub(crate) send: F,
    pub(crate) files: MappedFiles,
    pub(crate) events: LiveEvents,
    pub(crate) cpus: u32,
    pub(crate) samples: SampleReader,
    pub(crate) dumps: DumpPlayer,
    /// True if this round has looked whether jitdumps have grown.
    pub(crate) has_polled_dumps: bool,
    /// Has the window, and the time of threads where it is counted instead of samples.
    pub(crate) counter: SampleCounter,
    pub(crate) symbols: SymbolTable,
    pub(crate) symbol_worker: SymbolWorker,
    /// Unwind tables that could not be read.
    pub(crate) refused_tables: RefusedTables,
    /// Number of the window's addresses whose functions have been asked for.
    pub(crate) wanted_places: usize,
    /// Number of spaces beyond which the tracker forgets unused ones.
    pub(crate) max_spaces: usize,
    /// True if the window has been compacted, so that spaces may have become unused.
    pub(crate) has_unused_spaces: bool,
    pub(crate) span: Span,
    /// The loss of earlier intervals, or before the last reset, as it was reported.
    pub(crate) earlier_loss: Loss,
    /// The loss of earlier intervals, or before the last reset, as LOST records told it.
    pub(crate) earlier_seen: Loss,
    /// The kernel's counts of lost records since the recording began, as they were when they were last read.
    pub(crate) counted_lost: CountedLost,
    pub(crate) started_at: Instant,
    pub(crate) last_snapshot_at: Instant,
    /// True if the symbol worker has been asked for the functions of the next snapshot.
    pub(crate) has_requested_ahead: bool,
    pub(crate) own_cpu: OwnCpu,
    pub(crate) newest_sample: NewestSample,
    /// An interval that has ended and waits for its functions.
    pub(crate) unsent: Option<Interval>,
    pub(crate) has_ended: bool,
}

/// The numbers of records that the kernel counted as lost (`PERF_FORMAT_LOST`).
#[derive(Default)]
pub(crate) struct CountedLost {
    /// The lost samples of all sampling events.
    pub(crate) samplers: LostCount,
    /// The lost records of the sideband event.
    pub(crate) sideband: LostCount,
}

/// An interval that has ended.
pub(crate) struct Interval {
    pub(crate) counted: Counted,
    pub(crate) loss: Loss,
    pub(crate) ended_at: Instant,
}

/// The time of the newest sample.
pub(crate) struct NewestSample {
    /// By the clock of the samples, in nanoseconds.
    pub(crate) time: u64,
    /// The moment at which the engine saw that it was the newest.
    pub(crate) seen_at: Instant,
}

/// Our own CPU time when it was last asked for.
pub(crate) struct OwnCpu {
    asked_at: Instant,
    cpu_time: Duration,
}

impl OwnCpu {
    pub(crate) fn now() -> Self {
        Self { asked_at: Instant::now(), cpu_time: clock::cpu_time_of_this_process() }
    }

    /// Returns our use of CPU time since the last call, in per cent of one CPU.
    fn percent_since(&mut self) -> f64 {
        let before = std::mem::replace(self, Self::now());
        let elapsed = self.asked_at.duration_since(before.asked_at).as_secs_f64();
        let cpu_time = self.cpu_time.saturating_sub(before.cpu_time).as_secs_f64();
        100.0 * cpu_time / elapsed.max(1e-9)
    }
}

impl<F: FnMut(EngineEvent)> Engine<F> {
    /// Makes an engine that waits for a recording, and starts the thread that symbolizes. `send` is called on the thread of the
    /// recording, which it must not block.
    ///
    /// # Errors
    /// Where the thread cannot be started.
    pub fn new(settings: EngineSettings, commands: Receiver<EngineCommand>, send: F) -> io::Result<Self> {
        let now = Instant::now();
        let dumps = Arc::new(JitDumps::new(true, None));
        let symbol_worker = SymbolWorker::start(&dumps, settings.names)?;
        Ok(Self {
            counter: SampleCounter::new(Window::new(settings.window)),
            settings,
            commands,
            send,
            files: MappedFiles::default(),
            events: LiveEvents::default(),
            cpus: 0,
            samples: SampleReader::default(),
            dumps: DumpPlayer::new(Arc::clone(&dumps)),
            has_polled_dumps: false,
            symbols: SymbolTable::new(),
            symbol_worker,
            refused_tables: RefusedTables::default(),
            wanted_places: 0,
            max_spaces: MIN_SPACES_TO_FORGET,
            has_unused_spaces: false,
            span: Span::Window,
            earlier_loss: Loss::default(),
            earlier_seen: Loss::default(),
            counted_lost: CountedLost::default(),
            started_at: now,
            last_snapshot_at: now,
            has_requested_ahead: false,
            own_cpu: OwnCpu::now(),
            newest_sample: NewestSample { time: 0, seen_at: now },
            unsent: None,
            has_ended: false,
        })
    }

    /// Does what is due after a round: commands, functions that were found, memory, snapshots.
    pub(crate) fn run_due_work(&mut self) {
        while let Ok(command) = self.commands.try_recv() {
            match command {
                EngineCommand::Reset => {
                    self.counter.window.reset();
                    self.forget_unused();
                    self.drain_loss();
                }
                EngineCommand::Span(span) => self.span = span,
            }
            self.send_running_snapshot();
        }
        self.record_answers();
        let has_many_spaces = self.samples.tracker.spaces().len() > self.max_spaces;
        // An interval that waits for its functions refers to stacks by their numbers, which compaction changes.
        if (self.counter.window.is_full() || has_many_spaces) && self.unsent.is_none() {
            self.counter.window.compact();
            self.forget_unused();
        }
        let now = Instant::now();
        if self.settings.intervals_apart {
            return self.end_interval_if_due(now);
        }
        let is_young = now.duration_since(self.started_at) < 10 * SYMBOL_LEAD;
        let interval = match is_young {
            true => SYMBOL_LEAD.min(self.settings.interval),
            false => self.settings.interval,
        };
        let elapsed = now.duration_since(self.last_snapshot_at);
        if elapsed >= interval {
            self.send_running_snapshot();
        } else if elapsed + SYMBOL_LEAD >= interval && !self.has_requested_ahead {
            self.has_requested_ahead = true;
            self.want_new_addresses();
            self.request_symbols(&self.counter.window.counted(self.span));
        }
    }

    fn end_interval_if_due(&mut self, now: Instant) {
        let elapsed = now.duration_since(self.last_snapshot_at);
        let length = match &mut self.counter.time {
            _ if self.unsent.is_some() => None,
            // By the clock of the records, to the nanosecond. The records arrive later than the time they are from.
            Some(time) => time.end_interval(false),
            None => (elapsed >= self.settings.interval).then_some(elapsed),
        };
        if let Some(length) = length {
            let mut counted = self.counter.window.counted(Span::Start);
            counted.covered = length;
            self.last_snapshot_at = now;
            let loss = self.drain_loss();
            // Making a snapshot asks the symbol worker for the functions that are missing.
            let _ = self.snapshot(&counted, loss);
            self.unsent = Some(Interval { counted, loss, ended_at: now });
            self.counter.window.clear_counts();
        }
        if let Some(interval) = self.unsent.take() {
            if self.symbols.pending() == 0
                || now.duration_since(interval.ended_at) > self.settings.max_symbol_wait
            {
                self.send_snapshot(&interval.counted, interval.loss);
            } else {
                self.unsent = Some(interval);
            }
        }
    }

    /// Sends a snapshot of the span that the user chose.
    fn send_running_snapshot(&mut self) {
        self.last_snapshot_at = Instant::now();
        let counted = self.counter.window.counted(self.span);
        self.send_snapshot(&counted, self.loss());
        self.has_requested_ahead = false;
    }

    fn send_snapshot(&mut self, counted: &Counted, loss: Loss) {
        let snapshot = self.snapshot(counted, loss);
        (self.send)(EngineEvent::Snapshot(Arc::new(snapshot)));
    }

    /// Waits for all functions of a snapshot, at most [`EngineSettings::max_symbol_wait`], and sends it. Blocks: only for the end of a recording.
    pub(crate) fn send_named_snapshot(&mut self, counted: &Counted, loss: Loss) {
        let begin = Instant::now();
        let mut snapshot = self.snapshot(counted, loss);
        self.symbol_worker.request(
            &[],
            self.samples.tracker.spaces(),
            |_| Vec::new(),
            &HashMap::default(),
            Haste::Everything,
        );
        while self.symbols.pending() > 0 && begin.elapsed() < self.settings.max_symbol_wait {
            std::thread::sleep(LOOK_INTERVAL);
            if self.record_answers() {
                snapshot = self.snapshot(counted, loss);
            }
        }
        (self.send)(EngineEvent::Snapshot(Arc::new(snapshot)));
    }

    /// Records what the symbol worker has found since the last call. Returns true if it was anything.
    fn record_answers(&mut self) -> bool {
        let mut has_answers = false;
        for answer in self.symbol_worker.answers() {
            self.symbols.record(answer, self.samples.tracker.spaces());
            has_answers = true;
        }
        has_answers
    }

    /// Makes a snapshot of counts. Asks the symbol worker for the functions that are missing in it, unless that was done just before.
    fn snapshot(&mut self, counted: &Counted, loss: Loss) -> Snapshot {
        self.want_new_addresses();
        // One request per interval: it has to weigh all spaces. Addresses newer than the last one wait for the next.
        if !self.has_requested_ahead || self.needs_all_symbols() {
            self.request_symbols(counted);
        }
        let profiles = self.profiles(counted, loss);
        let (samples, complete) = self.samples_of(&profiles);
        let approximate = self.counter.time.as_ref().and_then(|time| time.times().remark());
        let (remarks, remarks_omitted) =
            first_remarks(self.symbol_worker.remarks(), &self.refused_tables, approximate);
        Snapshot {
            profiles,
            spaces: self.samples.tracker.spaces().clone(),
            names: self.symbols.names().clone(),
            sleepers_rest: self.counter.time.as_ref().is_some_and(|time| !time.times().has_outside()),
            resources: self.counter.resources.clone(),
            status: Status {
                target: self.settings.target.clone(),
                events: self.events.statuses.clone(),
                cpus: self.cpus,
                span: self.span,
                covered: counted.covered,
                window: self.settings.window,
                samples,
                complete: self.settings.stacks_unwound.then_some(complete),
                loss,
                aged_out: self.counter.window.aged_out(),
                unnamed: self.symbols.pending() as u64,
                own_cpu: self.own_cpu.percent_since(),
                own_memory: own_memory(),
                remarks,
                remarks_omitted,
                ended: self.has_ended,
            },
        }
    }

    /// The counts as a profile of each event.
    fn profiles(&mut self, counted: &Counted, loss: Loss) -> Vec<Profile> {
        let mut counts: Vec<Vec<(ThreadId, StackId, Count)>> =
            self.events.statuses.iter().map(|_| Vec::new()).collect();
        for &((event, thread, stack), count) in &counted.counts {
            let Some(counts) = counts.get_mut(event as usize) else { continue };
            let stack = self.counter.time.as_mut().map_or(stack, |time| {
                let (stacks, names) = (&mut self.counter.window.stacks, self.symbols.names());
                time.with_named_state(stack, stacks, names, &mut self.samples.tracker)
            });
            counts.push((thread, stack, count));
        }
        let profile = |counts: Vec<_>| {
            let mut profile = Profile::new(KEPT_APART);
            profile.stacks = self.counter.window.stacks.clone();
            profile.set_threads(self.counter.window.threads.clone());
            profile.loss = loss;
            counts.into_iter().for_each(|(thread, stack, count)| profile.add_counts(thread, stack, count));
            profile
        };
        counts.into_iter().map(profile).collect()
    }

    /// Returns the number of samples, and of those with a complete stack.
    fn samples_of(&self, profiles: &[Profile]) -> (u64, u64) {
        let (stacks, spaces) = (&self.counter.window.stacks, self.samples.tracker.spaces());
        let (mut samples, mut complete) = (0, 0);
        for (_, stack, count) in profiles.iter().flat_map(Profile::counts) {
            let outermost = stacks.entries(stack).last();
            let entry = outermost.and_then(|place| stacks.places().get(place.index()));
            let space = entry.map(|entry| spaces.get(entry.space));
            // A stack that consists of a thread's state alone has time, but no sample.
            samples += if matches!(space, Some(Space::State(_))) { 0 } else { count.samples };
            complete += if space.is_some_and(can_begin_stack) { count.samples } else { 0 };
        }
        (samples, complete)
    }

    /// Returns true if snapshots are sent with all of their functions, so that nobody will see a later, better one.
    fn needs_all_symbols(&self) -> bool {
        self.settings.intervals_apart || self.has_ended
    }

    /// Adds the addresses that have come since the last call to those that the symbol worker has to be asked for.
    fn want_new_addresses(&mut self) {
        let (spaces, places) = (self.samples.tracker.spaces(), self.counter.window.stacks.places());
        for &entry in places.get(self.wanted_places..).unwrap_or_default() {
            self.symbols.want(entry, spaces);
        }
        self.wanted_places = places.len();
    }

    /// Asks the symbol worker for the functions of new addresses.
    fn request_symbols(&mut self, counted: &Counted) {
        let (spaces, places) = (self.samples.tracker.spaces(), self.counter.window.stacks.places());
        let wanted = self.symbols.drain_wanted();
        if wanted.is_empty() {
            return;
        }
        let mut weights: HashMap<SpaceId, u64, FxBuildHasher> = HashMap::default();
        for ((.., stack), count) in &counted.counts {
            let innermost = self.counter.window.stacks.split(*stack);
            if let Some(entry) = innermost.and_then(|(place, _)| places.get(place.index())) {
                *weights.entry(entry.space).or_default() += count.samples;
            }
        }
        let seen_in =
            self.counter.time.as_ref().map_or(&self.counter.mapper.seen_in, |time| time.times().seen_in());
        let pids = |space| seen_in.pids(space);
        let haste = match self.needs_all_symbols() {
            true if self.settings.bounds_inlines => Haste::Functions,
            true => Haste::Everything,
            false => Haste::Calm,
        };
        self.symbol_worker.request(&wanted, spaces, pids, &weights, haste);
    }

    /// Returns the loss since the last reset or interval. LOST records alone would give too little: the kernel writes one only when
    /// something else is written to the same ring.
    pub(crate) fn loss(&self) -> Loss {
        let (seen, before, reported) = (self.samples.loss(), self.earlier_seen, self.earlier_loss);
        let since =
            |seen: u64, counted: LostCount, reported: u64| seen.max(counted.samples).saturating_sub(reported);
        Loss {
            samples: since(before.samples + seen.samples, self.counted_lost.samplers, reported.samples),
            sideband: since(before.sideband + seen.sideband, self.counted_lost.sideband, reported.sideband),
            unread: self.counted_lost.samplers.unread,
            ..seen
        }
    }

    /// Returns the loss since the last call, and adds it to that of earlier intervals.
    pub(crate) fn drain_loss(&mut self) -> Loss {
        let loss = self.loss();
        self.earlier_seen += self.samples.take_loss();
        self.earlier_loss += loss;
        loss
    }

    /// Forgets all that the stacks of the window no longer refer to. The window itself must have been compacted just before.
    fn forget_unused(&mut self) {
        let live: HashSet<StackEntry, FxBuildHasher> =
            self.counter.window.stacks.places().iter().copied().collect();
        self.symbols.compact(&live);
        self.wanted_places = 0;
        if let Some(time) = &mut self.counter.time {
            time.forget(&live);
        }
        self.symbol_worker.retain(live);
        self.has_unused_spaces = true;
    }
}

/// Returns true if the outermost entry of a complete stack can lie in this space: no mark of a truncation, and mapped code.
fn can_begin_stack(space: &Space) -> bool {
    !matches!(space, Space::Truncated(_) | Space::Unmapped { .. } | Space::State(_) | Space::Foreign(_))
}

/// Our resident memory in bytes: the second number of `/proc/self/statm` (proc(5)).
fn own_memory() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm.split_whitespace().nth(1).and_then(|pages| pages.parse::<u64>().ok());
    pages.unwrap_or(0).saturating_mul(host::sys::system::page_size() as u64)
}
