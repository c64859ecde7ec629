//! The window: samples of the last seconds and since the start, counted within bounded memory.

use std::collections::{HashMap, HashSet, VecDeque};
use std::time::Duration;

use model::{Name, Pid, StackEntry, Tid};
use profile::live::{MAX_CHAINS, MAX_STACKS, MAX_THREADS};
use profile::{ChainCache, Count, RawChain, StackId, StackTable, ThreadId, Threads, Where};
use recorder::Containers;
use rustc_hash::FxBuildHasher;

use crate::snapshot::{KEPT_APART, Span};

/// Number of parts of the window. The window moves on by one part at a time: 0.5 s with the default window of 10 s.
const PARTS: u32 = 20;
/// Maximum number of counts since the start. The window's own counts are kept beyond this limit.
const MAX_COUNTS: usize = 40_000;

/// The key under which samples are counted: an event, a thread, a stack.
pub(crate) type Key = (u32, ThreadId, StackId);

/// The counts of a span of time.
pub(crate) type Counts = HashMap<Key, Count, FxBuildHasher>;

/// A sliding window of counted samples, and the counts since the start.
#[derive(Default)]
pub(crate) struct Window {
    /// The window's length in nanoseconds.
    length: u64,
    /// All stacks, each once.
    pub(crate) stacks: StackTable,
    /// The containers of processes.
    pub(crate) containers: Containers,
    /// The stacks of raw call chains that were mapped before.
    chains: ChainCache,
    /// The threads, with the containers that their processes ran in.
    pub(crate) threads: Threads,
    /// The window is their sum.
    parts: VecDeque<WindowPart>,
    since_start: Counts,
    limits: Limits,
    /// The times of the first and the last sample since the start or the last reset, in nanoseconds.
    times: Option<(u64, u64)>,
    /// Number of samples that [`Window::compact`] has dropped from the counts since the start.
    aged_out: u64,
}

/// A part of the window, which leaves it as a whole.
struct WindowPart {
    /// The time at which it begins, in nanoseconds: a multiple of the length of a part.
    start: u64,
    counts: Counts,
}

/// The sizes beyond which the window is compacted.
struct Limits {
    stacks: usize,
    counts: usize,
    threads: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { stacks: MAX_STACKS, counts: MAX_COUNTS, threads: MAX_THREADS }
    }
}

/// The counts of a snapshot.
pub(crate) struct Counted {
    /// The counts, each key once.
    pub(crate) counts: Vec<(Key, Count)>,
    /// The length of the time in which they were counted.
    pub(crate) covered: Duration,
}

impl Window {
    /// An empty window of this length.
    pub(crate) fn new(length: Duration) -> Self {
        Self {
            length: u64::try_from(length.as_nanos()).unwrap_or(u64::MAX).max(u64::from(PARTS)),
            chains: ChainCache::bounded(MAX_CHAINS),
            threads: Threads::new(KEPT_APART),
            ..Self::default()
        }
    }

    /// Returns the stack of a raw call chain. Calls `map` for its entries only if the chain was not seen before.
    pub(crate) fn stack<'e>(
        &mut self,
        chain: RawChain<'_>,
        map: impl FnOnce() -> &'e mut [StackEntry],
    ) -> StackId {
        let stacks = &mut self.stacks;
        self.chains.get_or_map(chain, || stacks.intern(map()))
    }

    /// Returns the number of a thread under one of its names, in the container that its process runs in now.
    pub(crate) fn thread(&mut self, pid: Pid, tid: Tid, comm: &Name) -> ThreadId {
        let container = self.containers.container_of(pid).cloned();
        let place = Where { container, ..Where::default() };
        self.threads.number_on(comm, pid, tid, &place, || comm.clone())
    }

    /// Adds a count with at least one sample, taken at `time` (nanoseconds), and lets old parts leave the window.
    pub(crate) fn add_count(&mut self, key: Key, added: Count, time: u64) {
        let (first, last) = self.times.unwrap_or((time, time));
        let last = last.max(time);
        self.times = Some((first.min(time), last));
        let part = self.part();
        if self.parts.back().is_none_or(|newest| time >= newest.start.saturating_add(part)) {
            self.parts.push_back(WindowPart { start: time - time % part, counts: Counts::default() });
        }
        let newest = self.parts.back_mut().map(|newest| &mut newest.counts);
        newest.into_iter().chain([&mut self.since_start]).for_each(|counts| add(counts, key, added));
        self.expire(last);
    }

    /// Returns the length of a part, by which the window moves on at a time, in nanoseconds.
    pub(crate) fn part(&self) -> u64 {
        self.length / u64::from(PARTS)
    }

    /// Moves the window on so that it ends at `now` (nanoseconds): drops the parts that lie before it. Needed for times at which
    /// no sample is added.
    pub(crate) fn expire(&mut self, now: u64) {
        let oldest = now.saturating_sub(self.length);
        let part = self.part();
        while self.parts.front().is_some_and(|oldest_part| oldest_part.start.saturating_add(part) <= oldest) {
            self.parts.pop_front();
        }
        if let Some((_, last)) = &mut self.times {
            *last = now.max(*last);
        }
    }

    /// Returns the end of the window: the time of the newest sample, or that of a later [`Window::expire`].
    pub(crate) fn newest(&self) -> Option<u64> {
        self.times.map(|(_, last)| last)
    }

    /// Drops all counts. Stacks and threads keep their numbers.
    pub(crate) fn clear_counts(&mut self) {
        self.parts.clear();
        self.since_start.clear();
        self.times = None;
    }

    /// Drops all counts, stacks and threads. All numbers change.
    pub(crate) fn reset(&mut self) {
        self.clear_counts();
        self.aged_out = 0;
        self.compact();
    }

    /// Returns the counts of a span of time.
    pub(crate) fn counted(&self, span: Span) -> Counted {
        let whole = self.times.map_or(0, |(first, last)| last - first);
        match span {
            Span::Start => {
                Counted { counts: list(self.since_start.iter()), covered: Duration::from_nanos(whole) }
            }
            Span::Window => {
                let begin = self.parts.front().map_or(0, |part| part.start);
                let (first, last) = self.times.unwrap_or_default();
                let covered = Duration::from_nanos(last.saturating_sub(begin.max(first)));
                let mut sum = Counts::default();
                self.counts_of_parts().for_each(|(&key, &count)| add(&mut sum, key, count));
                Counted { counts: list(sum.iter()), covered }
            }
        }
    }

    /// Iterates over the counts of all parts of the window.
    fn counts_of_parts(&self) -> impl Iterator<Item = (&Key, &Count)> {
        self.parts.iter().flat_map(|part| &part.counts)
    }

    /// Returns the number of samples that were dropped from the counts since the start to bound memory.
    pub(crate) fn aged_out(&self) -> u64 {
        self.aged_out
    }

    /// Returns true if [`Window::compact`] is due.
    pub(crate) fn is_full(&self) -> bool {
        self.stacks.len() > self.limits.stacks
            || self.since_start.len() > self.limits.counts
            || self.threads.list().len() > self.limits.threads
    }

    /// Drops stacks and threads without a count. Before that, drops the lightest counts since the start that are not in the window,
    /// until half of each limit is free again. All numbers change.
    pub(crate) fn compact(&mut self) {
        let live: HashSet<Key, FxBuildHasher> = self.counts_of_parts().map(|(&key, _)| key).collect();
        let mut old: Vec<(Key, Count)> = self.since_start.drain().collect();
        // Those of the window come first, then the heaviest: what does not fit is dropped from the end.
        old.sort_by_key(|(key, count)| (!live.contains(key), std::cmp::Reverse(count.samples), *key));

        let stacks = std::mem::take(&mut self.stacks);
        let threads = std::mem::replace(&mut self.threads, Threads::new(KEPT_APART));
        self.chains.clear();
        let mut entries = Vec::new();
        let mut renumber = |window: &mut Self, key: Key| -> Option<Key> {
            entries.clear();
            entries.extend(
                stacks.entries(key.2).filter_map(|place| stacks.places().get(place.index()).copied()),
            );
            let thread = threads.list().get(key.1.index())?;
            let (pid, tid) = thread.ids?;
            let place = Where { container: thread.container.clone(), ..Where::default() };
            let number = window.threads.number_on(&thread.comm, pid, tid, &place, || thread.comm.clone());
            Some((key.0, number, window.stacks.intern(&entries)))
        };
        for (position, (key, count)) in old.into_iter().enumerate() {
            let has_room = position < MAX_COUNTS / 2
                && self.stacks.len() < MAX_STACKS / 2
                && self.threads.list().len() < MAX_THREADS / 2;
            if has_room || live.contains(&key) {
                if let Some(key) = renumber(self, key) {
                    self.since_start.insert(key, count);
                }
            } else {
                self.aged_out = self.aged_out.saturating_add(count.samples);
            }
        }
        for mut part in std::mem::take(&mut self.parts) {
            part.counts =
                part.counts.drain().filter_map(|(key, count)| Some((renumber(self, key)?, count))).collect();
            self.parts.push_back(part);
        }
        self.since_start.shrink_to_fit();
        // Higher limits where the window alone fills them: otherwise each round would compact it in vain.
        self.limits = Limits {
            stacks: MAX_STACKS.max(2 * self.stacks.len()),
            counts: MAX_COUNTS.max(2 * self.since_start.len()),
            threads: MAX_THREADS.max(2 * self.threads.list().len()),
        };
    }
}

fn list<'a>(counts: impl Iterator<Item = (&'a Key, &'a Count)>) -> Vec<(Key, Count)> {
    counts.map(|(&key, &count)| (key, count)).collect()
}

fn add(counts: &mut Counts, key: Key, added: Count) {
    let count = counts.entry(key).or_default();
    count.samples = count.samples.saturating_add(added.samples);
    count.period = count.period.saturating_add(added.period);
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{AddressKind, SpaceId};

    const SECOND: u64 = 1_000_000_000;

    fn sample(window: &mut Window, tid: i32, offset: u64, time: u64) {
        let entry =
            StackEntry { offset, space: SpaceId(0), kind: AddressKind::InstructionPointer, in_kernel: false };
        let bytes = offset.to_le_bytes();
        let chain = RawChain { generation: 0, ip: offset, mode: 0, bytes: &bytes };
        let mut entries = [entry];
        let stack = window.stack(chain, || &mut entries);
        let thread = window.thread(Pid(1), Tid(tid), &Name::from("t"));
        window.add_count((0, thread, stack), Count { samples: 1, period: 1 }, time);
    }

    fn samples(window: &Window, span: Span) -> u64 {
        window.counted(span).counts.iter().map(|(_, count)| count.samples).sum()
    }

    #[test]
    fn the_window_moves_on_and_the_start_stays() {
        let mut window = Window::new(Duration::from_secs(10));
        for second in 100..130 {
            sample(&mut window, 1, 1, second * SECOND);
        }
        assert_eq!(samples(&window, Span::Start), 30);
        let in_window = samples(&window, Span::Window);
        assert!((10..=11).contains(&in_window), "{in_window}");
        assert_eq!(window.counted(Span::Start).covered, Duration::from_secs(29));
        let covered = window.counted(Span::Window).covered;
        assert!((9..=11).contains(&covered.as_secs()), "{covered:?}");
        window.reset();
        assert_eq!(samples(&window, Span::Start), 0);
    }

    #[test]
    fn memory_is_bounded_and_what_is_forgotten_is_counted() {
        let mut window = Window::new(Duration::from_secs(1));
        let mut added = 0_u64;
        for number in 0..(MAX_COUNTS as u64 + 20_000) {
            sample(&mut window, 1, number, number * SECOND / 1000);
            sample(&mut window, 1, 0, number * SECOND / 1000);
            added += 2;
            if window.is_full() {
                window.compact();
            }
            assert!(window.stacks.len() <= MAX_STACKS + 1 && window.since_start.len() <= MAX_COUNTS + 2);
        }
        assert_eq!(samples(&window, Span::Start) + window.aged_out(), added, "nothing is lost in silence");
        assert!(window.aged_out() > 0);
        let heaviest = window.since_start.values().map(|count| count.samples).max();
        assert_eq!(heaviest, Some(added / 2 + 1), "the heavy stay");
    }

    #[test]
    fn the_window_is_the_sum_of_its_parts_and_forgets_what_left_it() {
        let mut window = Window::new(Duration::from_secs(1));
        for number in 0..20_000_u64 {
            sample(&mut window, 1, number % 7000, number * SECOND / 1000);
            if number % 4_973 == 0 {
                window.compact();
            }
            if number % 997 == 0 {
                // The parts that end after the beginning of the window.
                let (now, part) = (number * SECOND / 1000, window.part());
                let is_in = |number: &u64| {
                    let time = number * SECOND / 1000;
                    time - time % part + part > now.saturating_sub(SECOND)
                };
                let mut expected = HashMap::new();
                for number in (0..=number).filter(is_in) {
                    *expected.entry(number % 7000).or_insert(0) += 1;
                }
                let counted = window.counted(Span::Window).counts.into_iter();
                let offset = |stack| {
                    let place = window.stacks.entries(stack).next().unwrap();
                    window.stacks.places()[place.index()].offset
                };
                let counted: HashMap<u64, u64> =
                    counted.map(|((_, _, stack), count)| (offset(stack), count.samples)).collect();
                assert_eq!(counted, expected);
            }
        }
        assert!(window.counted(Span::Window).counts.len() <= 1051);
        window.expire(100 * SECOND);
        assert!(window.parts.is_empty() && window.counted(Span::Window).counts.is_empty());
    }

    #[test]
    fn a_window_that_is_full_by_itself_is_not_searched_again_and_again() {
        let mut window = Window::new(Duration::from_secs(1000));
        let mut searched = 0;
        for number in 0..(3 * MAX_COUNTS as u64) {
            sample(&mut window, 1, number, number * SECOND / 100_000);
            if window.is_full() {
                window.compact();
                searched += 1;
            }
        }
        assert!(searched <= 3, "{searched} times");
    }

    #[test]
    fn threads_of_a_fork_storm_are_forgotten() {
        let mut window = Window::new(Duration::from_secs(1));
        for tid in 0..(MAX_THREADS as i32 + 5_000) {
            sample(&mut window, tid, 1, tid as u64 * SECOND / 1000);
            if window.is_full() {
                window.compact();
            }
        }
        assert!(window.threads.list().len() <= MAX_THREADS);
        let in_window = samples(&window, Span::Window);
        assert!((1000..=1051).contains(&in_window), "{in_window}");
    }
}
