//! The window: samples of the last seconds and since the start, counted within bounded memory.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use model::{Name, Pid, StackEntry, Tid};
use profile::{ChainCache, Count, RawChain, StackId, StackTable};
use recorder::Containers;
use rustc_hash::FxBuildHasher;

use crate::snapshot::{Span, Task};

/// Number of parts of the window. The window moves on by one part at a time: 0.5 s with the default window of 10 s.
const PARTS: u32 = 20;
/// Maximum number of stacks, each prefix of a stack counted as one. A stack costs about 40 bytes. The window's own stacks are kept
/// beyond this limit.
const MAX_STACKS: usize = 120_000;
/// Maximum number of raw call chains in the cache of chains, which also holds chains of mapping generations that have ended.
const MAX_CHAINS: usize = 50_000;
/// Maximum number of counts since the start. The window's own counts are kept beyond this limit.
const MAX_COUNTS: usize = 40_000;
/// Maximum number of threads. The window's own threads are kept beyond this limit.
const MAX_THREADS: usize = 20_000;

/// The number of a thread in a [`Window`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct ThreadNumber(pub(crate) u32);

/// A thread under one name.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Thread {
    /// The process.
    pub(crate) pid: Pid,
    /// The thread.
    pub(crate) tid: Tid,
    /// The name.
    pub(crate) comm: Name,
    /// The container; `None` on the host.
    pub(crate) container: Option<Name>,
}

impl Thread {
    /// The thread as snapshots have it. Equal texts share memory, through `texts`.
    pub(crate) fn to_task(&self, texts: &mut HashMap<Name, Arc<str>, FxBuildHasher>) -> Task {
        let mut text = |name: &Name| {
            let text = texts.entry(name.clone());
            Arc::clone(text.or_insert_with(|| Arc::from(name.to_string())))
        };
        let container = self.container.as_ref().map(&mut text);
        Task { pid: self.pid.0, tid: self.tid.0, comm: text(&self.comm), container }
    }
}

/// The key under which samples are counted: an event, a thread, a stack.
pub(crate) type Key = (u32, ThreadNumber, StackId);

/// The counts of a span of time.
pub(crate) type Counts = HashMap<Key, Count, FxBuildHasher>;

/// A sliding window of counted samples, and the counts since the start.
pub(crate) struct Window {
    /// The window's length in nanoseconds.
    length: u64,
    /// All stacks, each once.
    pub(crate) stacks: StackTable,
    /// The containers of processes.
    pub(crate) containers: Containers,
    /// The stacks of raw call chains that were mapped before.
    chains: ChainCache,
    threads: Vec<Thread>,
    thread_numbers: HashMap<Thread, ThreadNumber, FxBuildHasher>,
    parts: VecDeque<WindowPart>,
    /// The sum of the parts.
    window: Counts,
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
            stacks: StackTable::default(),
            containers: Containers::default(),
            chains: ChainCache::bounded(MAX_CHAINS),
            threads: Vec::new(),
            thread_numbers: HashMap::default(),
            parts: VecDeque::new(),
            window: Counts::default(),
            since_start: Counts::default(),
            limits: Limits::default(),
            times: None,
            aged_out: 0,
        }
    }

    /// Returns the stack of a raw call chain. Calls `map` for its entries only if the chain was not seen before.
    pub(crate) fn stack(&mut self, chain: RawChain<'_>, map: impl FnOnce(&mut Vec<StackEntry>)) -> StackId {
        let stacks = &mut self.stacks;
        self.chains.get_or_map(chain, || {
            let mut entries = Vec::new();
            map(&mut entries);
            stacks.intern(&entries)
        })
    }

    /// Returns a thread together with the container that its process runs in now.
    pub(crate) fn thread_of(&mut self, pid: Pid, tid: Tid, comm: Name) -> Thread {
        Thread { pid, tid, comm, container: self.containers.container_of(pid).cloned() }
    }

    /// Counts a sample that was taken at `time`, in nanoseconds.
    pub(crate) fn add(&mut self, event: u32, thread: Thread, stack: StackId, period: u64, time: u64) {
        let number = self.number(thread);
        self.add_count((event, number, stack), Count { samples: 1, period }, time);
    }

    /// Returns the number of a thread under one of its names; gives it one where it has none yet.
    pub(crate) fn number(&mut self, thread: Thread) -> ThreadNumber {
        self.thread_numbers.get(&thread).copied().unwrap_or_else(|| {
            let number = ThreadNumber(self.threads.len() as u32);
            self.threads.push(thread.clone());
            self.thread_numbers.insert(thread, number);
            number
        })
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
        let newest = self.parts.back_mut().map(|newest| newest.counts.entry(key).or_default());
        let sums = [self.window.entry(key).or_default(), self.since_start.entry(key).or_default()];
        for count in newest.into_iter().chain(sums) {
            count.samples = count.samples.saturating_add(added.samples);
            count.period = count.period.saturating_add(added.period);
        }
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
            for (key, expired) in self.parts.pop_front().into_iter().flat_map(|part| part.counts) {
                let Entry::Occupied(mut sum) = self.window.entry(key) else { continue };
                sum.get_mut().samples = sum.get().samples.saturating_sub(expired.samples);
                sum.get_mut().period = sum.get().period.saturating_sub(expired.period);
                if sum.get().samples == 0 {
                    sum.remove();
                }
            }
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
        self.window.clear();
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
            Span::Start => Counted { counts: list(&self.since_start), covered: Duration::from_nanos(whole) },
            Span::Window => {
                let begin = self.parts.front().map_or(0, |part| part.start);
                let (first, last) = self.times.unwrap_or_default();
                let covered = Duration::from_nanos(last.saturating_sub(begin.max(first)));
                Counted { counts: list(&self.window), covered }
            }
        }
    }

    /// Returns the thread that has this number.
    pub(crate) fn thread(&self, number: ThreadNumber) -> Option<&Thread> {
        self.threads.get(number.0 as usize)
    }

    /// Returns the number of samples that were dropped from the counts since the start to bound memory.
    pub(crate) fn aged_out(&self) -> u64 {
        self.aged_out
    }

    /// Returns true if [`Window::compact`] is due.
    pub(crate) fn is_full(&self) -> bool {
        self.stacks.len() > self.limits.stacks
            || self.since_start.len() > self.limits.counts
            || self.threads.len() > self.limits.threads
    }

    /// Drops stacks and threads without a count. Before that, drops the lightest counts since the start that are not in the window,
    /// until half of each limit is free again. All numbers change.
    pub(crate) fn compact(&mut self) {
        let live: HashSet<Key, FxBuildHasher> = self.window.keys().copied().collect();
        let mut old: Vec<(Key, Count)> = self.since_start.drain().collect();
        // Those of the window come first, then the heaviest: what does not fit is dropped from the end.
        old.sort_by_key(|(key, count)| (!live.contains(key), std::cmp::Reverse(count.samples), *key));

        let stacks = std::mem::take(&mut self.stacks);
        let threads = std::mem::take(&mut self.threads);
        self.thread_numbers.clear();
        self.chains.clear();
        self.window.clear();
        let mut entries = Vec::new();
        let mut renumber = |window: &mut Self, key: Key| -> Option<Key> {
            entries.clear();
            entries.extend(
                stacks.entries(key.2).filter_map(|place| stacks.places().get(place.index()).copied()),
            );
            let thread = threads.get(key.1.0 as usize)?.clone();
            let next = ThreadNumber(window.threads.len() as u32);
            let number = *window.thread_numbers.entry(thread.clone()).or_insert(next);
            if number == next {
                window.threads.push(thread);
            }
            Some((key.0, number, window.stacks.intern(&entries)))
        };
        for (position, (key, count)) in old.into_iter().enumerate() {
            let has_room = position < MAX_COUNTS / 2
                && self.stacks.len() < MAX_STACKS / 2
                && self.threads.len() < MAX_THREADS / 2;
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
            for (&key, count) in &part.counts {
                let sum = self.window.entry(key).or_default();
                sum.samples = sum.samples.saturating_add(count.samples);
                sum.period = sum.period.saturating_add(count.period);
            }
            self.parts.push_back(part);
        }
        self.since_start.shrink_to_fit();
        // Higher limits where the window alone fills them: otherwise each round would compact it in vain.
        self.limits = Limits {
            stacks: MAX_STACKS.max(2 * self.stacks.len()),
            counts: MAX_COUNTS.max(2 * self.since_start.len()),
            threads: MAX_THREADS.max(2 * self.threads.len()),
        };
    }
}

fn list(counts: &Counts) -> Vec<(Key, Count)> {
    counts.iter().map(|(&key, &count)| (key, count)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{AddressKind, SpaceId};

    const SECOND: u64 = 1_000_000_000;

    fn add(window: &mut Window, tid: i32, offset: u64, time: u64) {
        let entry =
            StackEntry { offset, space: SpaceId(0), kind: AddressKind::InstructionPointer, in_kernel: false };
        let bytes = offset.to_le_bytes();
        let chain = RawChain { generation: 0, ip: offset, mode: 0, bytes: &bytes };
        let stack = window.stack(chain, |entries| entries.push(entry));
        let thread = Thread { pid: Pid(1), tid: Tid(tid), comm: Name::from("t"), container: None };
        window.add(0, thread, stack, 1, time);
    }

    fn samples(window: &Window, span: Span) -> u64 {
        window.counted(span).counts.iter().map(|(_, count)| count.samples).sum()
    }

    #[test]
    fn the_window_moves_on_and_the_start_stays() {
        let mut window = Window::new(Duration::from_secs(10));
        for second in 100..130 {
            add(&mut window, 1, 1, second * SECOND);
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
            add(&mut window, 1, number, number * SECOND / 1000);
            add(&mut window, 1, 0, number * SECOND / 1000);
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
            add(&mut window, 1, number % 7000, number * SECOND / 1000);
            if number % 4_973 == 0 {
                window.compact();
            }
            if number % 997 == 0 {
                let mut sum = Counts::default();
                for (&key, count) in window.parts.iter().flat_map(|part| &part.counts) {
                    sum.entry(key).or_default().samples += count.samples;
                }
                assert_eq!(window.window.len(), sum.len());
                let same = |(key, count): (&Key, &Count)| sum[key].samples == count.samples;
                assert!(window.window.iter().all(same));
            }
        }
        assert!(window.window.len() <= 1051, "{}", window.window.len());
        window.expire(100 * SECOND);
        assert!(window.window.is_empty() && window.counted(Span::Window).counts.is_empty());
    }

    #[test]
    fn a_window_that_is_full_by_itself_is_not_searched_again_and_again() {
        let mut window = Window::new(Duration::from_secs(1000));
        let mut searched = 0;
        for number in 0..(3 * MAX_COUNTS as u64) {
            add(&mut window, 1, number, number * SECOND / 100_000);
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
            add(&mut window, tid, 1, tid as u64 * SECOND / 1000);
            if window.is_full() {
                window.compact();
            }
        }
        assert!(window.threads.len() <= MAX_THREADS);
        let in_window = samples(&window, Span::Window);
        assert!((1000..=1051).contains(&in_window), "{in_window}");
    }
}
