//! Adds the time of threads to the live window, from cut to cut, by state and stack.
//!
//! `analysis` pairs switches and sums time. This module cuts it at times up to which all records have come, and adds the slices to
//! the window. The state of a thread is the innermost entry of its stack. What a blocked thread waited for is known once the
//! kernel's functions on its stack have names: then the entry gets its final name.

use std::collections::{HashMap, HashSet, VecDeque};
use std::convert::Infallible;
use std::time::{Duration, Instant};

use analysis::{CauseId, LiveTimes, TimeSlice, TimeWeight, WatchedEvent, thread_state, with_request};
use decoder::AttrFlags;
use host::sys::clock::{self, ClockId};
use host::tracefs;
use model::{AddressKind, Blocked, Name, Space, SpaceId, StackEntry, ThreadState, Timestamp};
use profile::{Count, StackId, StackTable, ThreadId};
use recorder::{RecordedEvent, Recording, SwitchUpdate};
use rustc_hash::FxBuildHasher;
use tracker::waits::Activity;
use tracker::{SampleSink, TrackedSample, Tracker};

use super::names::Names;
use super::window::Window;

/// The index of the only event that the window counts: time.
const TIME_EVENT: u32 = 0;
/// Rounds after which all records from before the end of a round have come: one drains the rings, and one more releases the
/// records from the stage that orders them.
const ROUNDS_BEHIND: usize = 2;
/// Greatest age, in nanoseconds, of a record that was being written while its ring was drained.
const MAX_RECORD_AGE_NANOSECONDS: u64 = 1_000_000;
/// Least time between two cuts, in nanoseconds.
const MIN_CUT_INTERVAL_NANOSECONDS: u64 = 50_000_000;
/// Greatest time between two cuts, in nanoseconds.
const MAX_CUT_INTERVAL_NANOSECONDS: u64 = 1_000_000_000;
/// Maximum number of late cuts that are caught up with.
const MAX_LATE_CUTS: u64 = 1000;
/// Least time between two cuts, as a multiple of the duration of a cut, which visits each thread.
const CUT_INTERVAL_FACTOR: u32 = 20;

/// Cuts the time of threads, and adds it to the window.
pub(crate) struct ThreadTime {
    times: LiveTimes,
    clock: Option<ClockId>,
    /// The time between cuts, in nanoseconds; and that between two that are one behind the other whatever they take.
    between: u64,
    interval: Option<u64>,
    /// The time of the next cut, where one is due.
    due: Option<u64>,
    /// The beginning of the interval that lasts.
    begin: Option<u64>,
    /// The time at the ends of the last rounds.
    rounds: VecDeque<u64>,
    /// Those of the window by what they are made of.
    stacks: HashMap<(StackId, Option<State>), StackId, FxBuildHasher>,
    threads: HashMap<ThreadId, ThreadId, FxBuildHasher>,
    /// Stacks of the window whose innermost entry has got its final name, by those that they were counted with.
    named: HashMap<StackId, StackId, FxBuildHasher>,
    states: States,
}

type State = (Activity, Option<CauseId>);

/// What is known of the states of threads that have to be named.
#[derive(Default)]
struct States {
    /// By the offset of the place.
    known: HashMap<u64, Known, FxBuildHasher>,
    numbers: HashMap<Key, u64>,
    next: u64,
}

/// What makes a state of a thread: its stack in the kernel, innermost first, what it did, what it had asked for.
type Key = (Box<[StackEntry]>, State);

struct Known {
    key: Key,
    request: Option<Blocked>,
}

impl ThreadTime {
    /// For a recording that watches switches; `None` where it does not. Cuts suit a window that is shown, or intervals of which
    /// each is kept apart.
    pub(crate) fn new(
        weight: TimeWeight,
        recording: &Recording,
        window: &Window,
        interval: Duration,
        intervals_apart: bool,
    ) -> Option<Self> {
        let format = |event: &RecordedEvent| {
            let (system, name) = event.tracepoint.as_ref()?;
            String::from_utf8(tracefs::format(&tracefs::folder().ok()?, system, name).ok()?).ok()
        };
        let event = |event: &RecordedEvent| WatchedEvent {
            name: Name::from(event.name.as_str()),
            attr: event.attr.clone(),
            format: format(event),
        };
        let events: Vec<WatchedEvent> = recording.events.iter().map(event).collect();
        let times = LiveTimes::new(weight, &events)?;
        let sampler = recording.events.get(times.event().0 as usize)?;
        let clock = sampler.attr.flags.contains(AttrFlags::USE_CLOCKID).then_some(sampler.attr.clockid);
        let interval = u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX).max(1);
        // Those of an interval fill it.
        let fitting = interval / interval.div_ceil(MAX_CUT_INTERVAL_NANOSECONDS).max(1);
        let between = if intervals_apart {
            fitting
        } else {
            window.part().min(fitting).max(MIN_CUT_INTERVAL_NANOSECONDS)
        };
        Some(Self {
            times,
            clock,
            between,
            interval: intervals_apart.then_some(interval),
            due: None,
            begin: None,
            rounds: VecDeque::new(),
            stacks: HashMap::default(),
            threads: HashMap::default(),
            named: HashMap::default(),
            states: States::default(),
        })
    }

    /// The sums, for names and spaces.
    pub(crate) fn times(&self) -> &LiveTimes {
        &self.times
    }

    /// Forgets in which processes spaces were seen, but for these.
    pub(crate) fn retain_seen_in(&mut self, keep: impl Fn(SpaceId) -> bool) {
        self.times.retain_seen_in(keep);
    }

    /// Applies an update of the recorder about switches.
    pub(crate) fn learn(&mut self, news: &[SwitchUpdate]) {
        for news in news {
            match *news {
                SwitchUpdate::Watched(watched) => {
                    self.times.watch(watched);
                    self.start(watched.begin);
                }
                SwitchUpdate::Paused(time) => self.times.hold(Timestamp(time)),
                SwitchUpdate::Resumed(time) => self.times.resume(Timestamp(time)),
                SwitchUpdate::SchedStat(tid, counted) => self.times.counted(tid, counted),
            }
        }
    }

    fn start(&mut self, begin: u64) {
        self.begin = Some(begin);
        // A screen moves on with the parts of the window; printed intervals start with the recording.
        let part = if self.interval.is_some() { 0 } else { begin % self.between };
        self.due = begin.checked_sub(part).map(|begin| begin.saturating_add(self.between));
    }

    /// Makes the cuts that are due before `time`, up to which all records have come.
    pub(crate) fn advance(&mut self, time: u64, tracker: &mut Tracker, window: &mut Window) {
        if time == 0 {
            return;
        }
        if self.due.is_none() {
            if self.clock.is_some() {
                // The recorder says when.
                return;
            }
            self.start(time);
        }
        while let Some(due) = self.due.filter(|due| *due <= time) {
            let took = self.cut(due, tracker, window);
            let next = due.saturating_add(self.between);
            let missed = time.saturating_sub(next);
            let missed = match self.interval {
                None => {
                    missed.max(u64::try_from((took * CUT_INTERVAL_FACTOR).as_nanos()).unwrap_or(u64::MAX))
                        / self.between
                }
                // Each thread has an interval, unless the clock jumped.
                Some(_) => (missed / self.between).saturating_sub(MAX_LATE_CUTS),
            };
            // Always on the same grid.
            self.due = Some(next.saturating_add(missed.saturating_mul(self.between)));
        }
    }

    /// Handles the end of a round, and makes the cuts that it allows.
    pub(crate) fn finish_round(&mut self, tracker: &mut Tracker, window: &mut Window) {
        let Some(now) = self.clock.and_then(|clock| clock::now(clock).ok()) else { return };
        self.rounds.push_back(now.saturating_sub(MAX_RECORD_AGE_NANOSECONDS));
        if self.rounds.len() > ROUNDS_BEHIND
            && let Some(time) = self.rounds.pop_front()
        {
            self.advance(time, tracker, window);
        }
    }

    /// Makes the last cut at `time`, the end of the recording.
    pub(crate) fn finish(&mut self, time: Option<u64>, tracker: &mut Tracker, window: &mut Window) {
        let last = self.times.last().map(|last| last.0);
        if let Some(end) = time.max(last).max(self.times.since().map(|since| since.0)) {
            self.advance(end, tracker, window);
            self.cut(end, tracker, window);
        }
    }

    /// Returns true if somebody waits for an interval that is over but for records that have not come.
    pub(crate) fn wants_round_soon(&self) -> bool {
        let (Some(interval), Some(begin), Some(clock)) = (self.interval, self.begin, self.clock) else {
            return false;
        };
        clock::now(clock).is_ok_and(|now| now >= begin.saturating_add(interval))
    }

    /// Returns the length of an interval that has ended, and begins the next.
    pub(crate) fn end_interval(&mut self, is_last: bool) -> Option<Duration> {
        let (begin, since) = (self.begin?, self.times.since()?.0);
        let length = since.saturating_sub(begin);
        let is_over = is_last || length >= self.interval?;
        is_over.then(|| {
            self.begin = Some(since);
            Duration::from_nanos(length)
        })
    }

    fn cut(&mut self, time: u64, tracker: &mut Tracker, window: &mut Window) -> Duration {
        let begin = Instant::now();
        let since = self.times.since().map_or(time, |since| since.0);
        for slice in self.times.cut(Timestamp(time), tracker) {
            let stack = self.stack(&slice, tracker, window);
            let Some(thread) = self.thread(slice.thread, window) else { continue };
            let count = Count { samples: slice.count.samples.max(1), ..slice.count };
            window.add_count((TIME_EVENT, thread, stack), count, since);
        }
        window.expire(time);
        if self.times.is_full() {
            self.times.compact(|pid| pid.0 < 0 || tracker.knows(pid));
            self.forget_numbers();
        }
        begin.elapsed()
    }

    fn thread(&mut self, thread: ThreadId, window: &mut Window) -> Option<ThreadId> {
        if let Some(&known) = self.threads.get(&thread) {
            return Some(known);
        }
        let (pid, tid, comm) = self.times.thread(thread)?;
        let number = window.thread(pid, tid, comm);
        self.threads.insert(thread, number);
        Some(number)
    }

    /// Returns the window's stack with the state of the thread as its innermost entry.
    fn stack(&mut self, slice: &TimeSlice, tracker: &mut Tracker, window: &mut Window) -> StackId {
        let TimeSlice { stack, state, .. } = *slice;
        if let Some(&known) = self.stacks.get(&(stack, state)) {
            return known;
        }
        let known = self.times.stacks();
        let places = known.entries(stack);
        let entries: Vec<StackEntry> =
            places.filter_map(|place| known.places().get(place.index()).copied()).collect();
        let mut number = window.stacks.intern(&entries);
        if let Some(state) = state {
            let request = state.1.and_then(|cause| self.times.request(cause));
            let kernel = entries.iter().take_while(|entry| entry.in_kernel).copied().collect();
            let entry = self.states.place((kernel, state), request, tracker);
            number = window.stacks.push(number, entry);
        }
        self.stacks.insert((stack, state), number);
        number
    }

    /// The numbers of the window have changed; `live` are its places.
    pub(crate) fn forget(&mut self, live: &HashSet<StackEntry, FxBuildHasher>) {
        self.forget_numbers();
        let offsets: HashSet<u64, FxBuildHasher> = live.iter().map(|entry| entry.offset).collect();
        self.states.known.retain(|offset, _| offsets.contains(offset));
        let known = &self.states.known;
        self.states.numbers.retain(|_, number| known.contains_key(number));
    }

    fn forget_numbers(&mut self) {
        self.stacks.clear();
        self.threads.clear();
        self.named.clear();
    }

    /// Returns a stack of the window with the final name of its thread's state in place of the innermost entry, or the stack itself
    /// while the functions of the kernel on it have no names.
    pub(crate) fn with_named_state(
        &mut self,
        stack: StackId,
        stacks: &mut StackTable,
        names: &Names,
        tracker: &mut Tracker,
    ) -> StackId {
        if let Some(&named) = self.named.get(&stack) {
            return named;
        }
        let Some((place, caller)) = stacks.split(stack) else { return stack };
        let Some(&entry) = stacks.places().get(place.index()) else { return stack };
        let Some(state) = self.states.named(&entry, names, tracker) else { return stack };
        let space = tracker.intern_space(Space::State(state));
        let named = stacks.push(caller, StackEntry { offset: 0, space, ..entry });
        self.named.insert(stack, named);
        named
    }
}

impl States {
    /// The place that is the state of a thread.
    fn place(&mut self, key: Key, request: Option<Blocked>, tracker: &mut Tracker) -> StackEntry {
        let (kernel, (activity, _)) = &key;
        // The state of a thread that is not blocked does not depend on the names of kernel functions.
        let is_known =
            kernel.is_empty() || !matches!(thread_state(*activity, Vec::new), ThreadState::Blocked(_));
        let state = with_request(thread_state(*activity, Vec::new), request.clone());
        let space = tracker.intern_space(Space::State(state));
        let offset = if is_known { 0 } else { self.number(key, request) };
        StackEntry { offset, space, kind: AddressKind::InstructionPointer, in_kernel: false }
    }

    /// Returns the final state of a thread that an entry stands for; `None` if that is not known yet, or the entry is code or final.
    fn named(&self, entry: &StackEntry, names: &Names, tracker: &Tracker) -> Option<ThreadState> {
        let Space::State(_) = tracker.spaces().get(entry.space) else { return None };
        let Known { key: (kernel, (activity, _)), request } = self.known.get(&entry.offset)?;
        let mut functions = Vec::new();
        for entry in kernel {
            functions.extend(names.functions_at(entry)?);
        }
        Some(with_request(thread_state(*activity, || functions), request.clone()))
    }

    fn number(&mut self, key: Key, request: Option<Blocked>) -> u64 {
        if let Some(&number) = self.numbers.get(&key) {
            return number;
        }
        self.next += 1;
        self.numbers.insert(key.clone(), self.next);
        self.known.insert(self.next, Known { key, request });
        self.next
    }
}

impl SampleSink for ThreadTime {
    type Error = Infallible;

    fn sample(&mut self, sample: TrackedSample<'_>) -> Result<(), Infallible> {
        if self.begin.is_none() && self.clock.is_some() {
            return Ok(());
        }
        self.times.sample(sample)
    }

    fn before(&mut self, record: &decoder::Record<'_>) {
        self.times.before(record);
    }

    fn settle(&mut self, tracker: &mut Tracker) {
        self.times.settle(tracker);
    }

    fn record(&mut self, record: &decoder::Record<'_>) {
        self.times.record(record);
    }
}
