//! Records to snapshots: the live end of a recording.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{io, mem};

use analysis::TimeWeight;
use analysis::aggregate::SeenIn;
use analysis::jit_dumps::{DumpPlayer, JitDumps, has_clock_of_dumps};
use crossbeam_channel::{Receiver, TryRecvError};
use decoder::{AttrFlags, Sample, kind};
use host::sys::clock;
use model::{EventIndex, Loss, Name, SpaceId, StackEntry, Timestamp};
use recorder::unwind::{OrderedConsumer, RefusedTables};
use recorder::{Ending, LostCount, RecordedEvent, Recording, RecordingSink, SwitchUpdate};
use rustc_hash::FxBuildHasher;
use tracker::{Events, OrderedRecord, SampleReader, Tracker};

use super::counting::Counting;
use super::events::LiveEvents;
use super::remarks::first_remarks;
use super::shared_call_tree::SharedCallTree;
use super::symbol_table::SymbolTable;
use super::symbol_worker::SymbolWorker;
use super::thread_time::ThreadTime;
use super::window::{Counted, Window};
use crate::snapshot::{CountedStack, Snapshot, Span, Status};

/// An order that the screen gives to the engine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// Forget all samples.
    Reset,
    /// Make snapshots of this span.
    Span(Span),
}

/// News that the engine sends to the screen.
pub enum News {
    /// Sampling has begun.
    Started,
    /// A new snapshot.
    Snapshot(Arc<Snapshot>),
}

/// The settings of the engine.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The recorded target, in words.
    pub target: String,
    /// The length of the window.
    pub window: Duration,
    /// The time between snapshots.
    pub interval: Duration,
    /// True if each snapshot is of its interval alone, and complete with names: for scripts.
    pub intervals_apart: bool,
    /// True if stacks are unwound, so that it is known which ones are complete. The kernel's walk over frame pointers
    /// ends without a word where there is none.
    pub stacks_unwound: bool,
    /// All nameless functions of a module as one.
    pub modules_only: bool,
    /// The time of threads that is watched, in place of samples; for a recording that watches switches
    /// ([`recorder::observe_waits`]).
    pub time: Option<TimeWeight>,
}

/// The longest time to wait for names where a snapshot shall have them.
const PATIENCE: Duration = Duration::from_secs(15);
/// While the screen is new, it is drawn anew this often, so that the first rows and their names appear soon.
const FIRST: Duration = Duration::from_millis(300);

/// The consumer of a recording that shows it.
pub struct Engine<F: FnMut(News)> {
    settings: Settings,
    /// Closed when nobody looks any more.
    orders: Receiver<Order>,
    tell: F,
    recording: Option<Arc<Recording>>,
    events: LiveEvents,
    cpus: u32,
    samples: SampleReader,
    /// The jitdumps of processes.
    dumps: DumpPlayer,
    /// True if the dumps were looked at since the last round.
    has_looked: bool,
    window: Window,
    /// The time of threads, where that is watched in place of samples.
    time: Option<ThreadTime>,
    seen_in: SeenIn,
    symbols: SymbolTable,
    naming: SymbolWorker,
    /// Unwind tables that could not be read.
    pub(crate) refused_tables: RefusedTables,
    /// The window's stacks as snapshots have them, until their numbers change.
    tree: SharedCallTree,
    /// The names of threads and containers as snapshots have them.
    comms: HashMap<Name, Arc<str>, FxBuildHasher>,
    /// With more spaces than this, it is time to forget those of processes that are gone.
    most_spaces: usize,
    /// True if spaces are to be forgotten as soon as that can be.
    has_unused_spaces: bool,
    span: Span,
    /// The loss in intervals that have been told, or before the last reset.
    lost_before: Loss,
    begin: Instant,
    last: Instant,
    /// Our CPU time at the snapshot before.
    own: (Instant, u64),
    /// The time of the newest sample, and when it came.
    newest: (u64, Instant),
    /// An interval that has ended and waits for names.
    waiting: Option<Interval>,
    ended: bool,
}

/// An interval that has ended.
struct Interval {
    counted: Counted,
    loss: Loss,
    ended: Instant,
}

impl<F: FnMut(News)> Engine<F> {
    /// An engine that waits for a recording.
    ///
    /// # Errors
    /// Where the thread that looks for names cannot be started.
    pub fn new(settings: Settings, orders: Receiver<Order>, tell: F) -> io::Result<Self> {
        let now = Instant::now();
        let dumps = Arc::new(JitDumps::new(true, None));
        let symbols = SymbolTable::new().with_modules_only(settings.modules_only);
        Ok(Self {
            window: Window::new(settings.window),
            time: None,
            settings,
            orders,
            tell,
            recording: None,
            events: LiveEvents::default(),
            cpus: 0,
            samples: SampleReader::default(),
            dumps: DumpPlayer::new(Arc::clone(&dumps)),
            has_looked: false,
            seen_in: SeenIn::default(),
            symbols,
            naming: SymbolWorker::start(&dumps)?,
            refused_tables: RefusedTables::default(),
            tree: SharedCallTree::new(),
            comms: HashMap::default(),
            most_spaces: MOST_SPACES,
            has_unused_spaces: false,
            span: Span::Window,
            lost_before: Loss::default(),
            begin: now,
            last: now,
            own: (now, own_cpu_time()),
            newest: (0, now),
            waiting: None,
            ended: false,
        })
    }

    /// Time goes on to that of the next record: what happened until then, beside the records, has its turn.
    fn advance(&mut self, now: Timestamp) {
        self.look_at_dumps();
        if let Some(threads) = &mut self.time {
            threads.advance(now.0, &mut self.samples.tracker, &mut self.window);
        }
        if self.dumps.is_due(now) {
            self.dumps.play(now, &mut self.samples.tracker);
        }
    }

    /// Learns what dumps say by now, once a round: when its records are read, they are not younger.
    fn look_at_dumps(&mut self) {
        if !mem::replace(&mut self.has_looked, true) {
            self.dumps.look();
        }
    }

    /// The loss since it was last asked for. What is known at the end replaces what was seen on the way.
    fn take_loss(&mut self) -> Loss {
        let loss = self.samples.take_loss();
        self.lost_before += loss;
        loss
    }

    /// Does what is due after a round: orders, names, snapshots.
    fn attend(&mut self) {
        while let Ok(order) = self.orders.try_recv() {
            match order {
                Order::Reset => {
                    self.window.reset();
                    self.forget();
                    self.take_loss();
                }
                Order::Span(span) => self.span = span,
            }
            self.publish();
        }
        for answer in self.naming.answers() {
            self.symbols.take(answer);
        }
        let has_many_spaces = self.samples.tracker.spaces().len() > self.most_spaces;
        // What waits for names refers to stacks by their numbers.
        if (self.window.is_full() || has_many_spaces) && self.waiting.is_none() {
            self.window.compact();
            self.forget();
        }
        let now = Instant::now();
        if self.settings.intervals_apart {
            return self.attend_intervals(now);
        }
        let young = now.duration_since(self.begin) < 10 * FIRST;
        let interval = if young { FIRST.min(self.settings.interval) } else { self.settings.interval };
        if now.duration_since(self.last) >= interval {
            self.publish();
        }
    }

    fn attend_intervals(&mut self, now: Instant) {
        let elapsed = now.duration_since(self.last);
        let length = match &mut self.time {
            _ if self.waiting.is_some() => None,
            // To the nanosecond, by the clock of the records, which are behind.
            Some(time) => time.end_interval(false),
            None => (elapsed >= self.settings.interval).then_some(elapsed),
        };
        if let Some(length) = length {
            let mut counted = self.window.counted(Span::Start);
            counted.covered = length;
            self.last = now;
            let loss = self.take_loss();
            // Asks for the names that are missing.
            let _ = self.snapshot(&counted, loss);
            self.waiting = Some(Interval { counted, loss, ended: now });
            self.window.clear_counts();
        }
        if let Some(interval) = self.waiting.take() {
            if self.symbols.pending() == 0 || now.duration_since(interval.ended) > PATIENCE {
                let snapshot = self.snapshot(&interval.counted, interval.loss);
                (self.tell)(News::Snapshot(Arc::new(snapshot)));
            } else {
                self.waiting = Some(interval);
            }
        }
    }

    fn publish(&mut self) {
        self.last = Instant::now();
        let counted = self.window.counted(self.span);
        let snapshot = self.snapshot(&counted, self.samples.loss());
        (self.tell)(News::Snapshot(Arc::new(snapshot)));
    }

    /// Tells a snapshot with all names: nobody will ask again.
    fn tell_named(&mut self, counted: &Counted, loss: Loss) {
        let begin = Instant::now();
        let mut snapshot = self.snapshot(counted, loss);
        self.naming.ask(&[], self.samples.tracker.spaces(), |_| Vec::new(), &HashMap::default(), true);
        while self.symbols.pending() > 0 && begin.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(10));
            let mut named = false;
            for answer in self.naming.answers() {
                self.symbols.take(answer);
                named = true;
            }
            if named {
                snapshot = self.snapshot(counted, loss);
            }
        }
        (self.tell)(News::Snapshot(Arc::new(snapshot)));
    }

    fn snapshot(&mut self, counted: &Counted, loss: Loss) -> Snapshot {
        // Scripts wait for the names.
        let urgent = self.settings.intervals_apart || self.ended;
        let spaces = self.samples.tracker.spaces();
        self.tree.update(&self.window.stacks, spaces, &mut self.symbols, urgent);
        if let Some(time) = &self.time {
            time.name_states(&mut self.symbols);
            self.tree.update(&self.window.stacks, spaces, &mut self.symbols, urgent);
        }
        let mut tasks = Vec::new();
        // By the number of the thread.
        let mut task_numbers: Vec<Option<u32>> = Vec::new();
        let mut stacks = Vec::with_capacity(counted.counts.len());
        let (mut samples, mut complete) = (0_u64, 0_u64);
        for &((event, thread, stack), ref count) in &counted.counts {
            let Some(weight) = self.events.weight(event) else { continue };
            let weight = count.weight(weight);
            let place = thread.0 as usize;
            if task_numbers.len() <= place {
                task_numbers.resize(place + 1, None);
            }
            let task = *task_numbers[place].get_or_insert_with(|| {
                tasks.extend(self.window.thread(thread).map(|thread| thread.to_task(&mut self.comms)));
                (tasks.len().saturating_sub(1)) as u32
            });
            // Of a state alone, no sample was taken.
            samples += if self.tree.is_state(stack) { 0 } else { count.samples };
            let is_complete = self.tree.is_complete(stack);
            complete += if is_complete { count.samples } else { 0 };
            let stack = stack.index() as u32;
            stacks.push(CountedStack { event, task, stack, samples: count.samples, weight });
        }
        // Neighbours in memory, one after the other, for all who go through them.
        stacks.sort_unstable_by_key(|counted| counted.stack);
        self.ask_for_names(counted);
        let now = Instant::now();
        let cpu = own_cpu_time();
        let elapsed = now.duration_since(self.own.0).as_nanos().max(1) as f64;
        let own_cpu = cpu.saturating_sub(self.own.1) as f64 * 100.0 / elapsed;
        self.own = (now, cpu);
        let approximate = self.time.as_ref().and_then(|time| time.times().remark());
        let (remarks, remarks_omitted) =
            first_remarks(self.naming.remarks(), &self.refused_tables, approximate);
        Snapshot {
            functions: self.symbols.functions(),
            places: self.symbols.places(),
            calls: self.tree.calls(),
            branches: self.tree.branches(),
            tips: self.tree.tips(),
            numbering: self.symbols.numbering(),
            recording: self.recording.clone(),
            tasks,
            stacks,
            status: Status {
                target: self.settings.target.clone(),
                events: self.events.statuses().cloned().collect(),
                cpus: self.cpus,
                span: self.span,
                covered: counted.covered,
                window: self.settings.window,
                samples,
                complete: self.settings.stacks_unwound.then_some(complete),
                loss,
                aged_out: self.window.aged_out(),
                unnamed: self.symbols.pending() as u64,
                names_behind: self.tree.is_behind(&self.symbols),
                own_cpu,
                own_memory: own_memory(),
                remarks,
                remarks_omitted,
                ended: self.ended,
            },
        }
    }

    /// The loss since the last reset or interval, as the kernel counted it. LOST records are behind: the kernel
    /// writes one when there is room again.
    fn last_loss(&mut self, ending: &Ending) -> Loss {
        let seen = self.samples.loss();
        let Some(lost) = &ending.lost else { return Loss { unread: ending.full_rings, ..seen } };
        let total = |sideband: bool| {
            let events =
                (0..).zip(lost).filter(|(event, _)| self.events.is_sideband(EventIndex(*event)) == sideband);
            events.fold(LostCount::default(), |sum, (_, lost)| sum + *lost)
        };
        let (samplers, sideband) = (total(false), total(true));
        Loss {
            samples: seen.samples.max(samplers.samples.saturating_sub(self.lost_before.samples)),
            unread: samplers.unread,
            sideband: seen.sideband.max(sideband.samples.saturating_sub(self.lost_before.sideband)),
            ..seen
        }
    }

    fn ask_for_names(&mut self, counted: &Counted) {
        let wanted = self.symbols.take_wanted();
        if wanted.is_empty() {
            return;
        }
        let mut weights: HashMap<SpaceId, u64, FxBuildHasher> = HashMap::default();
        let table = self.window.stacks.places();
        for ((.., stack), count) in &counted.counts {
            let innermost = self.window.stacks.entries(*stack).next();
            if let Some(entry) = innermost.and_then(|place| table.get(place.index())) {
                *weights.entry(entry.space).or_default() += count.samples;
            }
        }
        // Scripts wait for the names.
        let urgent = self.settings.intervals_apart || self.ended;
        let seen_in = self.time.as_ref().map_or(&self.seen_in, |time| time.times().seen_in());
        let pids = |space| seen_in.pids(space);
        self.naming.ask(&wanted, self.samples.tracker.spaces(), pids, &weights, urgent);
    }

    /// Forgets what no stack of the window speaks of any more; that one has just forgotten its own part.
    fn forget(&mut self) {
        let live: HashSet<StackEntry, FxBuildHasher> = self.window.stacks.places().iter().copied().collect();
        self.symbols.compact(&live);
        // Numbers of stacks have changed, too.
        self.tree = SharedCallTree::new();
        self.comms.clear();
        if let Some(time) = &mut self.time {
            time.forget(&live);
        }
        self.naming.keep_only(live);
        self.has_unused_spaces = true;
    }
}

impl<F: FnMut(News)> OrderedConsumer for Engine<F> {
    fn tracker(&mut self) -> &mut Tracker {
        &mut self.samples.tracker
    }

    fn record(&mut self, time: Timestamp, record: OrderedRecord<'_>) -> io::Result<()> {
        // What the recorder has made has no event.
        let event =
            record.event.or_else(|| self.events.sideband().filter(|_| record.raw.kind != kind::SAMPLE));
        let Some(event) = event else {
            self.add_loss(Loss { unattributed: 1, ..Loss::default() });
            return Ok(());
        };
        self.advance(time);
        let Self { samples, dumps, events, window, time: threads, seen_in, .. } = self;
        let mut counting = Counting { window, time: threads.as_mut(), seen_in, dump: None };
        let Ok(()) =
            samples.read(&*events, OrderedRecord { event: Some(event), ..record }, None, &mut counting);
        if let Some((pid, path)) = counting.dump {
            let has_clock = events.attr(event).is_some_and(has_clock_of_dumps);
            if dumps.begin(pid, &path, has_clock, &mut samples.tracker) {
                dumps.play(time, &mut samples.tracker);
            }
        }
        Ok(())
    }

    fn sample(&mut self, time: Timestamp, event: EventIndex, sample: Sample<'_>) -> io::Result<()> {
        self.advance(time);
        let Self { samples, events, window, time, seen_in, .. } = self;
        let mut counting = Counting { window, time: time.as_mut(), seen_in, dump: None };
        let Ok(()) = samples.read_decoded(&*events, event, sample, &mut counting);
        Ok(())
    }

    /// Those stay that a stack speaks of: of the window, or of a thread that waits.
    fn forget_spaces(&mut self, is_known: &dyn Fn(SpaceId) -> bool) {
        if !self.has_unused_spaces && self.samples.tracker.spaces().len() <= self.most_spaces {
            return;
        }
        self.has_unused_spaces = false;
        let waiting = self.time.iter().flat_map(|time| time.times().stacks().places());
        let places = self.window.stacks.places().iter().chain(waiting);
        let used: HashSet<SpaceId, FxBuildHasher> = places.map(|entry| entry.space).collect();
        let is_used = |space| used.contains(&space) || self.dumps.plays(space) || is_known(space);
        self.samples.tracker.forget_spaces(is_used);
        let spaces = self.samples.tracker.spaces();
        self.seen_in.retain(|space| spaces.find(space).is_some());
        if let Some(time) = &mut self.time {
            time.retain_seen_in(|space| spaces.find(space).is_some());
        }
        self.dumps.retain(|space| spaces.find(space).is_some());
        self.most_spaces = MOST_SPACES.max(2 * spaces.len());
    }
}

impl<F: FnMut(News)> RecordingSink for Engine<F> {
    fn begin(&mut self, recording: &Recording) -> io::Result<()> {
        self.cpus = recording.cpus.len() as u32;
        self.recording = Some(Arc::new(recording.clone()));
        let sees_kernel =
            |event: &RecordedEvent| !event.sideband && !event.attr.flags.contains(AttrFlags::EXCLUDE_KERNEL);
        if recording.events.iter().any(sees_kernel) {
            self.naming.expect_kernel();
        }
        self.events = LiveEvents::of(recording);
        if let Some(weight) = self.settings.time {
            let Settings { interval, intervals_apart, .. } = self.settings;
            let time = ThreadTime::new(weight, recording, &self.window, interval, intervals_apart);
            let time = time.ok_or_else(|| io::Error::other("the recording does not watch switches"))?;
            self.events.watch_time(weight.in_words(), time.times().event());
            self.symbols.sleepers_rest = !time.times().has_outside();
            self.time = Some(time);
        }
        Ok(())
    }

    fn started(&mut self) -> io::Result<()> {
        let now = Instant::now();
        (self.begin, self.last, self.own) = (now, now, (now, own_cpu_time()));
        (self.tell)(News::Started);
        Ok(())
    }

    fn add_loss(&mut self, loss: Loss) {
        self.samples.add_loss(loss);
    }

    fn finished_round(&mut self) -> io::Result<()> {
        self.has_looked = false;
        if let Some(time) = &mut self.time {
            time.finish_round(&mut self.samples.tracker, &mut self.window);
        }
        if let Some(newest) = self.window.newest().filter(|&newest| newest > self.newest.0) {
            self.newest = (newest, Instant::now());
        }
        self.attend();
        Ok(())
    }

    fn checkpoint(&mut self) -> io::Result<()> {
        // Time goes on where nothing runs, and the samples' clock is not one that we could read.
        let since = self.newest.1.elapsed().as_nanos();
        if since > CHECKPOINT_SLACK.as_nanos() && self.time.is_none() {
            self.window.forget(self.newest.0.saturating_add(u64::try_from(since).unwrap_or(u64::MAX)));
        }
        Ok(())
    }

    fn wants_round_soon(&self) -> bool {
        // An interval that is over has to wait for the names of the one before.
        self.waiting.is_none() && self.time.as_ref().is_some_and(ThreadTime::wants_round_soon)
    }

    fn update_switches(&mut self, news: &[SwitchUpdate]) {
        if let Some(time) = &mut self.time {
            time.learn(news);
        }
    }

    fn end(&mut self, ending: &Ending) -> io::Result<()> {
        let length = self.time.as_mut().and_then(|time| {
            let end = ending.watched.map(|watched| watched.end);
            time.finish(end, &mut self.samples.tracker, &mut self.window);
            time.end_interval(true)
        });
        if self.orders.try_recv() == Err(TryRecvError::Disconnected) {
            // Nobody looks any more.
            return Ok(());
        }
        if let Some(Interval { counted, loss, .. }) = self.waiting.take() {
            self.tell_named(&counted, loss);
        }
        self.ended = true;
        let apart = self.settings.intervals_apart;
        let mut counted = self.window.counted(if apart { Span::Start } else { self.span });
        if apart {
            counted.covered = length.unwrap_or_else(|| self.last.elapsed());
        }
        let loss = self.last_loss(ending);
        self.tell_named(&counted, loss);
        Ok(())
    }
}

/// Spaces beyond this are forgotten where nothing speaks of them: a process that comes and goes leaves one or two.
const MOST_SPACES: usize = 4_096;
/// Without samples for so long, time is taken to go on by itself.
const CHECKPOINT_SLACK: Duration = Duration::from_secs(1);

/// Nanoseconds.
fn own_cpu_time() -> u64 {
    u64::try_from(clock::cpu_time_of_this_process().as_nanos()).unwrap_or(u64::MAX)
}

/// Our resident memory in bytes: the second number of `/proc/self/statm` (proc(5)).
fn own_memory() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm.split_whitespace().nth(1).and_then(|pages| pages.parse::<u64>().ok());
    pages.unwrap_or(0).saturating_mul(host::sys::system::page_size() as u64)
}
