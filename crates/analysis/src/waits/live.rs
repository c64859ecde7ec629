//! The time of threads while a recording runs, from cut to cut.

use std::collections::HashMap;
use std::convert::Infallible;

use decoder::{Attr, Endian, Record, RecordLayout};
use model::{Blocked, EventIndex, Name, Pid, SpaceId, StackEntry, Tid, Timestamp};
use perfdata::Event;
use perfdata::sections::{Schedstat, WatchedTime};
use profile::live::{MAX_CHAINS, MAX_STACKS, MAX_THREADS};
use profile::{ChainCache, Count, Detail, Profile, SampleFilter, StackId, StackTable, ThreadId};
use rustc_hash::FxBuildHasher;
use tracker::waits::Activity;
use tracker::{SampleSink, TrackedSample, Tracker};

use super::parts::Parts;
use super::state::{CauseId, State};
use super::{Switches, ThreadTimes, TimeWeight};
use crate::aggregate::SeenIn;

/// Sums the time of threads of a recording that runs, by what they did and with which stack, between cuts.
///
/// Records must come in the order of time, and updates about switches before the records that follow them. At a cut
/// the time of each thread is counted up to there, also of one that sleeps on: from cut to cut, the time of all that a thread
/// did is the time between the two.
pub struct LiveTimes {
    times: ThreadTimes,
    /// The time of the last cut.
    since: Option<Timestamp>,
    most_stacks: usize,
    most_threads: usize,
}

/// An event of a recording that runs.
#[derive(Clone, Debug)]
pub struct WatchedEvent {
    /// The name that the user gave it, or the recorder.
    pub name: Name,
    /// The kernel's attr.
    pub attr: Attr,
    /// The format of its raw data, of a tracepoint, as tracefs has it.
    pub format: Option<String>,
}

/// Time that a thread spent with one stack, in one state.
#[derive(Clone, Copy, Debug)]
pub struct TimeSlice {
    /// The thread, for [`LiveTimes::thread`].
    pub thread: ThreadId,
    /// The stack, among [`LiveTimes::stacks`].
    pub stack: StackId,
    /// The state of the thread and what it asked for; `None` where it ran what is innermost on the stack.
    pub state: Option<(Activity, Option<CauseId>)>,
    /// The number of samples, or of intervals, and the time in nanoseconds.
    pub count: Count,
}

impl LiveTimes {
    /// Counts nothing yet. `None` where the events do not tell of switches, or no event samples what runs.
    pub fn new(weight: TimeWeight, events: &[WatchedEvent]) -> Option<Self> {
        let event = |event: &WatchedEvent| Event {
            attr: event.attr.clone(),
            ids: Vec::new(),
            name: event.name.clone(),
            layout: RecordLayout::new(&event.attr, Endian::NATIVE),
        };
        let of_attr = |attr: &Attr| {
            let event = events.iter().find(|event| event.attr == *attr)?;
            Some((event.format.clone()?, Endian::NATIVE))
        };
        let events: Vec<Event> = events.iter().map(event).collect();
        let switches = Switches::among(&events, Endian::NATIVE, None, of_attr)?;
        let detail = Detail { threads: true, ..Detail::default() };
        let mut times = ThreadTimes::new(weight, switches, &SampleFilter::default(), detail);
        times.cache = ChainCache::bounded(MAX_CHAINS);
        Some(Self { times, since: None, most_stacks: MAX_STACKS, most_threads: MAX_THREADS })
    }

    /// Returns the event whose samples say what runs.
    pub fn event(&self) -> EventIndex {
        self.times.switches.time
    }

    /// Returns true if stacks of blocked threads are read from outside.
    pub fn has_outside(&self) -> bool {
        self.times.switches.has_outside()
    }

    /// Returns what is estimated, in a sentence.
    pub fn remark(&self) -> Option<&'static str> {
        self.times.switches.remark()
    }

    /// Switches are watched from here on.
    pub fn watch(&mut self, watched: WatchedTime) {
        let begin = Timestamp(watched.begin);
        self.times.switches.watched = Some(WatchedTime { end: watched.begin, ..watched });
        self.times.timeline.begin(begin);
        // Records may say that a thread began earlier.
        self.times.range.start = Some(begin);
        self.since = Some(begin);
    }

    /// Switches are held back from here on, because there are too many.
    pub fn hold(&mut self, time: Timestamp) {
        self.times.switches.sampling.gaps.push((time.0, u64::MAX));
    }

    /// Switches are recorded again.
    pub fn resume(&mut self, time: Timestamp) {
        if let Some((_, end)) =
            self.times.switches.sampling.gaps.last_mut().filter(|(_, end)| *end == u64::MAX)
        {
            *end = time.0;
        }
    }

    /// Records the time that the kernel has counted of a thread.
    pub fn counted(&mut self, tid: Tid, counted: Schedstat) {
        let known = self.times.counted.entry(tid).or_default();
        if known.last().is_none_or(|last| last.time < counted.time) {
            known.push(counted);
        }
    }

    /// Returns the time of the newest record.
    pub fn last(&self) -> Option<Timestamp> {
        self.times.last
    }

    /// Returns the time up to which time has been counted.
    pub fn since(&self) -> Option<Timestamp> {
        self.since
    }

    /// Counts the time of all threads up to `time`; returns what they did since the cut before. All records until then must have
    /// come.
    pub fn cut(&mut self, time: Timestamp, tracker: &mut Tracker) -> Vec<TimeSlice> {
        let begin = self.since.unwrap_or(time);
        if time < begin {
            return Vec::new();
        }
        let is_in_gap = self.times.pass_gaps(time);
        self.times.timeline.cut(time);
        self.times.cut = Some(time);
        self.times.count_ended(tracker);
        let tids: Vec<Tid> = self.times.lives.keys().copied().collect();
        for tid in tids {
            let Some(life) = self.times.lives.get_mut(&tid) else { continue };
            let mut part = life.take_part();
            let counts = self.times.counted.get_mut(&tid);
            let counted = counts.and_then(|counts| take_counts(counts, time.0, is_in_gap));
            part.settle(counted, self.times.switches.has_wakings());
            life.go_on_after(&mut part);
            self.times.share(part);
        }
        self.times.count_latency();
        self.since = Some(time);
        self.forget_ended();
        let ran = self.times.profile.take_counts().into_iter();
        let ran = ran.map(|(thread, stack, count)| TimeSlice { thread, stack, state: None, count });
        let states = self.times.states.drain().map(|(state, count)| {
            let State { thread, activity, wait } = state;
            // A state that got its time by sharing has no sample of its own.
            let count = Count { samples: count.samples.max(1), ..count };
            TimeSlice { thread, stack: wait.stack, state: Some((activity, wait.cause)), count }
        });
        ran.chain(states).collect()
    }

    /// Forgets gaps that are over, and counts of threads that have ended.
    fn forget_ended(&mut self) {
        let times = &mut self.times;
        times.switches.sampling.gaps.drain(..std::mem::take(&mut times.gaps));
        let newest = self.since.map_or(0, |since| since.0);
        let lives = &times.lives;
        // Keeps threads that have just begun: they have a count, but no record yet.
        times.counted.retain(|tid, counts| {
            lives.contains_key(tid) || counts.last().is_some_and(|last| last.time > newest)
        });
    }

    /// All stacks that were seen lately.
    pub fn stacks(&self) -> &StackTable {
        &self.times.profile.stacks
    }

    /// Returns a thread under one of its names.
    pub fn thread(&self, thread: ThreadId) -> Option<(Pid, Tid, &Name)> {
        let known = self.times.profile.threads().get(thread.index())?;
        let (pid, tid) = known.ids?;
        Some((pid, tid, &known.comm))
    }

    /// Returns what a thread has asked the kernel for.
    pub fn request(&self, cause: CauseId) -> Option<Blocked> {
        self.times.causes.of(cause)
    }

    /// The processes in which a space was seen.
    pub fn seen_in(&self) -> &SeenIn {
        &self.times.mapper.seen_in
    }

    /// Forgets in which processes spaces were seen, but for these.
    pub fn retain_seen_in(&mut self, keep: impl Fn(SpaceId) -> bool) {
        self.times.mapper.seen_in.retain(keep);
    }

    /// Returns true if there are so many stacks or threads that [`LiveTimes::compact`] is due.
    pub fn is_full(&self) -> bool {
        self.stacks().len() > self.most_stacks || self.times.profile.threads().len() > self.most_threads
    }

    /// Forgets stacks that nothing waits with and threads whose ends were lost: those of a process that is not `known`. All
    /// stacks and threads get other numbers. May be called after a cut only.
    pub fn compact(&mut self, known: impl Fn(Pid) -> bool) {
        let times = &mut self.times;
        times.timeline.retain(|pid, _| known(pid));
        let new = Profile::new(times.profile.detail());
        let old = std::mem::replace(&mut times.profile, new);
        times.cache.clear();
        let profile = &mut times.profile;
        let mut numbers: HashMap<StackId, StackId, FxBuildHasher> = HashMap::default();
        let mut entries: Vec<StackEntry> = Vec::new();
        let mut rename = |stack: StackId| {
            *numbers.entry(stack).or_insert_with(|| {
                entries.clear();
                let places = old.stacks.entries(stack);
                entries.extend(places.filter_map(|place| old.stacks.places().get(place.index()).copied()));
                profile.stacks.intern(&entries)
            })
        };
        times.timeline.rename_stacks(|wait| super::Wait { stack: rename(wait.stack), ..wait });
        for life in times.lives.values_mut() {
            life.rename_stacks(&mut rename);
        }
        // Forgets threads that the timeline no longer follows.
        let timeline = &times.timeline;
        times.lives.retain(|tid, _| timeline.knows(*tid));
        self.most_stacks = MAX_STACKS.max(2 * self.times.profile.stacks.len());
        self.most_threads = MAX_THREADS.max(2 * self.times.timeline.threads());
    }
}

/// Takes the kernel's counts up to `time`: the first one and the last one, or in a gap what it has counted by then, between two
/// counts evenly. Leaves the latter: where switches are recorded, records tell the time behind it.
fn take_counts(counts: &mut Vec<Schedstat>, time: u64, is_in_gap: bool) -> Option<[Schedstat; 2]> {
    let behind = counts.partition_point(|count| count.time <= time);
    let (first, before) = (*counts.first()?, *counts.get(behind.checked_sub(1)?)?);
    let last = counts.get(behind).filter(|_| is_in_gap).map_or(before, |after| {
        let by_then = |from: u64, to: u64| {
            let mut parts = Parts::new(to.saturating_sub(from), u128::from(after.time - before.time));
            from + parts.next(time - before.time)
        };
        let running = by_then(before.running, after.running);
        Schedstat { time, running, runnable: by_then(before.runnable, after.runnable) }
    });
    counts.splice(..behind, [last]);
    (first.time < last.time).then_some([first, last])
}

impl SampleSink for LiveTimes {
    type Error = Infallible;

    fn sample(&mut self, sample: TrackedSample<'_>) -> Result<(), Infallible> {
        // A filter that admits all refuses nothing.
        let _ = self.times.sample(sample);
        Ok(())
    }

    fn settle(&mut self, tracker: &mut Tracker) {
        self.times.settle(tracker);
    }

    fn before(&mut self, record: &Record<'_>) {
        self.times.before(record);
    }

    fn record(&mut self, record: &Record<'_>) {
        if let Record::Fork(task) = record
            && task.time.0 != 0
        {
            // The kernel counts from there.
            self.times.counted.entry(task.tid).or_default();
        }
        self.times.record(record);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use decoder::attr::SW_DUMMY;
    use decoder::values::U64s;
    use decoder::{AttrFlags, CpuMode, Sample, context};
    use perfdata::sections::BLOCKED_STACKS;

    const PID: Pid = Pid(7);

    fn times() -> LiveTimes {
        let event = |name: &str, config, period, flags| WatchedEvent {
            name: Name::from(name),
            attr: Attr { kind: 1, config, sample_period: period, flags, ..Attr::default() },
            format: None,
        };
        let events = [
            event("cpu-clock", 0, 1_000_000, AttrFlags::empty()),
            event(BLOCKED_STACKS, SW_DUMMY, 1, AttrFlags::CONTEXT_SWITCH),
        ];
        let mut times = LiveTimes::new(TimeWeight::Wall, &events).unwrap();
        times.watch(WatchedTime { begin: 100, end: 100, only_sampled: false });
        times
    }

    fn seen_blocked(times: &mut LiveTimes, tracker: &mut Tracker, tid: i32, address: u64, time: u64) {
        let chain: Vec<u8> =
            [context::USER, address, address + 1].iter().flat_map(|word| word.to_ne_bytes()).collect();
        let sample = Sample {
            mode: CpuMode::User,
            ip: Some(address),
            thread: Some((PID, Tid(tid))),
            time: Some(Timestamp(time)),
            callchain: Some(U64s::new(&chain, Endian::NATIVE)),
            raw: Some(b"futex 0x10\0\0"),
            ..Sample::default()
        };
        times.times.timeline.exists(PID, Tid(tid));
        let event = EventIndex(1);
        let Ok(()) =
            times.sample(TrackedSample { tracker, event, sample: &sample, period: 1, deferred: None });
    }

    /// The offsets on the stack of each slice, and how long it is.
    fn slices(times: &mut LiveTimes, tracker: &mut Tracker, time: u64) -> Vec<(Vec<u64>, u64)> {
        let slices = times.cut(Timestamp(time), tracker);
        let offsets = |stack| {
            let places = times.stacks().entries(stack);
            places.filter_map(|place| times.stacks().places().get(place.index())).map(|entry| entry.offset)
        };
        let mut all: Vec<_> =
            slices.iter().map(|slice| (offsets(slice.stack).collect(), slice.count.period)).collect();
        all.sort();
        all
    }

    #[test]
    fn who_waits_keeps_its_stack_and_cause_when_all_else_is_forgotten() {
        let (mut times, mut tracker) = (times(), Tracker::new());
        seen_blocked(&mut times, &mut tracker, 8, 0x50, 110);
        // Many others come and go.
        for number in 0..500 {
            seen_blocked(&mut times, &mut tracker, 9, 0x1000 + number * 16, 120);
        }
        times.times.timeline.exited(Tid(9), Timestamp(130));
        times.times.ended.push(Tid(9));
        let before = slices(&mut times, &mut tracker, 150);
        assert!(before.iter().any(|(offsets, time)| offsets.len() == 2 && *time == 50), "{before:?}");
        let stacks = times.stacks().len();
        times.compact(|_| true);
        assert!(times.stacks().len() < stacks / 10, "{} of {stacks}", times.stacks().len());
        let after = slices(&mut times, &mut tracker, 250);
        let same = before.iter().find(|(_, time)| *time == 50).map(|(offsets, _)| (offsets.clone(), 100));
        assert_eq!(after, same.into_iter().collect::<Vec<_>>());
        times.compact(|_| false);
        assert_eq!(slices(&mut times, &mut tracker, 300), [], "its process has ended unseen");
    }

    #[test]
    fn gaps_and_counts_that_are_over_are_forgotten() {
        let (mut times, mut tracker) = (times(), Tracker::new());
        for number in 0..1000_u64 {
            let begin = 200 + number * 100;
            times.hold(Timestamp(begin));
            times.resume(Timestamp(begin + 50));
            times.counted(Tid(8), Schedstat { time: begin + 50, running: number * 10, runnable: 0 });
            seen_blocked(&mut times, &mut tracker, 8, 0x50, begin + 60);
            times.cut(Timestamp(begin + 80), &mut tracker);
            assert!(times.times.switches.sampling.gaps.len() <= 1);
            assert!(times.times.counted.values().all(|counted| counted.len() <= 2));
        }
    }

    #[test]
    fn between_two_counts_of_the_kernel_it_counts_evenly() {
        let read = |time, running, runnable| Schedstat { time, running, runnable };
        let mut counted = vec![read(100, 50, 10), read(200, 90, 30)];
        assert_eq!(take_counts(&mut counted, 150, true), Some([read(100, 50, 10), read(150, 70, 20)]));
        assert_eq!(take_counts(&mut counted, 300, true), Some([read(150, 70, 20), read(200, 90, 30)]));
        assert_eq!(take_counts(&mut counted, 400, false), None, "nobody knows what comes");
        assert_eq!(counted, [read(200, 90, 30)]);
    }
}
