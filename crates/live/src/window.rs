//! The samples of the last seconds, and all since the start, in bounded memory.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use model::{Name, Pid, StackEntry, Tid};
use profile::{ChainCache, Count, RawChain, StackId, StackTable};
use recorder::Containers;
use rustc_hash::FxBuildHasher;

use crate::snapshot::{Span, Task};

/// In how many parts the window moves on.
const PARTS: u32 = 20;
/// Stacks (callers' parts included) that are kept at most, but for those of the window; one costs about 40 bytes.
const MOST_STACKS: usize = 120_000;
/// Raw chains that are remembered at most: those of generations long gone are among them.
const MOST_CHAINS: usize = 50_000;
/// Counts that are kept at most since the start, but for those of the window.
const MOST_COUNTS: usize = 40_000;
/// Threads that are kept at most, but for those of the window: those of a fork storm are gone soon.
const MOST_THREADS: usize = 20_000;

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
    /// The thread as snapshots have it; `texts` has each of its texts once.
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

/// Counts by what is counted.
pub(crate) type Counts = HashMap<Key, Count, FxBuildHasher>;

/// A window of counted samples.
pub(crate) struct Window {
    length: u64,
    /// The stacks, kept once each.
    pub(crate) stacks: StackTable,
    /// The containers of processes.
    pub(crate) containers: Containers,
    chains: ChainCache,
    threads: Vec<Thread>,
    thread_numbers: HashMap<Thread, ThreadNumber, FxBuildHasher>,
    parts: VecDeque<Part>,
    /// The sum of the parts.
    window: Counts,
    since_start: Counts,
    most: Most,
    /// The time of the first sample since the start or the last reset, and of the last one.
    times: Option<(u64, u64)>,
    aged_out: u64,
}

struct Part {
    start: u64,
    counts: Counts,
}

/// With more than this, it is time to forget.
struct Most {
    stacks: usize,
    counts: usize,
    threads: usize,
}

impl Default for Most {
    fn default() -> Self {
        Self { stacks: MOST_STACKS, counts: MOST_COUNTS, threads: MOST_THREADS }
    }
}

/// The counts of a span of time.
pub(crate) struct Counted {
    /// The counts, each key once.
    pub(crate) counts: Vec<(Key, Count)>,
    /// The length of time that they are from.
    pub(crate) covered: Duration,
}

impl Window {
    /// An empty one that forgets after `length`.
    pub(crate) fn new(length: Duration) -> Self {
        Self {
            length: u64::try_from(length.as_nanos()).unwrap_or(u64::MAX).max(u64::from(PARTS)),
            stacks: StackTable::default(),
            containers: Containers::default(),
            chains: ChainCache::bounded(MOST_CHAINS),
            threads: Vec::new(),
            thread_numbers: HashMap::default(),
            parts: VecDeque::new(),
            window: Counts::default(),
            since_start: Counts::default(),
            most: Most::default(),
            times: None,
            aged_out: 0,
        }
    }

    /// The stack of a raw chain: as remembered, or as `map` finds it.
    pub(crate) fn stack(&mut self, chain: RawChain<'_>, map: impl FnOnce(&mut Vec<StackEntry>)) -> StackId {
        let stacks = &mut self.stacks;
        self.chains.get_or_map(chain, || {
            let mut entries = Vec::new();
            map(&mut entries);
            stacks.intern(&entries)
        })
    }

    /// A thread with the container that it runs in now.
    pub(crate) fn thread_of(&mut self, pid: Pid, tid: Tid, comm: Name) -> Thread {
        Thread { pid, tid, comm, container: self.containers.of(pid).cloned() }
    }

    /// Counts a sample.
    pub(crate) fn add(&mut self, event: u32, thread: Thread, stack: StackId, period: u64, time: u64) {
        let number = self.number(thread);
        self.add_count((event, number, stack), Count { samples: 1, period }, time);
    }

    /// The number of a thread under one of its names.
    pub(crate) fn number(&mut self, thread: Thread) -> ThreadNumber {
        self.thread_numbers.get(&thread).copied().unwrap_or_else(|| {
            let number = ThreadNumber(self.threads.len() as u32);
            self.threads.push(thread.clone());
            self.thread_numbers.insert(thread, number);
            number
        })
    }

    /// Adds a count, which has samples, to those of `time`.
    pub(crate) fn add_count(&mut self, key: Key, added: Count, time: u64) {
        let (first, last) = self.times.unwrap_or((time, time));
        let last = last.max(time);
        self.times = Some((first.min(time), last));
        let part = self.length / u64::from(PARTS);
        if self.parts.back().is_none_or(|newest| time >= newest.start.saturating_add(part)) {
            self.parts.push_back(Part { start: time - time % part, counts: Counts::default() });
        }
        let newest = self.parts.back_mut().map(|newest| newest.counts.entry(key).or_default());
        let sums = [self.window.entry(key).or_default(), self.since_start.entry(key).or_default()];
        for count in newest.into_iter().chain(sums) {
            count.samples = count.samples.saturating_add(added.samples);
            count.period = count.period.saturating_add(added.period);
        }
        self.forget(last);
    }

    /// The length of time in which it moves on.
    pub(crate) fn part(&self) -> u64 {
        self.length / u64::from(PARTS)
    }

    /// Time goes on, also without samples.
    pub(crate) fn forget(&mut self, now: u64) {
        let oldest = now.saturating_sub(self.length);
        let part = self.length / u64::from(PARTS);
        while self.parts.front().is_some_and(|oldest_part| oldest_part.start.saturating_add(part) <= oldest) {
            for (key, gone) in self.parts.pop_front().into_iter().flat_map(|part| part.counts) {
                let Entry::Occupied(mut sum) = self.window.entry(key) else { continue };
                sum.get_mut().samples = sum.get().samples.saturating_sub(gone.samples);
                sum.get_mut().period = sum.get().period.saturating_sub(gone.period);
                if sum.get().samples == 0 {
                    sum.remove();
                }
            }
        }
        if let Some((_, last)) = &mut self.times {
            *last = now.max(*last);
        }
    }

    /// The time of the newest sample, or up to which time has gone on since.
    pub(crate) fn newest(&self) -> Option<u64> {
        self.times.map(|(_, last)| last)
    }

    /// Begins to count anew; stacks and threads keep their numbers.
    pub(crate) fn clear_counts(&mut self) {
        self.parts.clear();
        self.window.clear();
        self.since_start.clear();
        self.times = None;
    }

    /// Forgets all samples of the window.
    pub(crate) fn reset(&mut self) {
        self.clear_counts();
        self.aged_out = 0;
        self.compact();
    }

    /// The counts of a span.
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

    /// The thread of a number.
    pub(crate) fn thread(&self, number: ThreadNumber) -> Option<&Thread> {
        self.threads.get(number.0 as usize)
    }

    /// Samples that had to be forgotten from the counts since the start.
    pub(crate) fn aged_out(&self) -> u64 {
        self.aged_out
    }

    /// Returns true if there is so much that [`Window::compact`] is due.
    pub(crate) fn is_full(&self) -> bool {
        self.stacks.len() > self.most.stacks
            || self.since_start.len() > self.most.counts
            || self.threads.len() > self.most.threads
    }

    /// Forgets stacks and threads without a count, and, of the counts since the start, the lightest that are not in
    /// the window: so many that half of the limits is free again. All numbers change.
    pub(crate) fn compact(&mut self) {
        let live: HashSet<Key, FxBuildHasher> = self.window.keys().copied().collect();
        let mut old: Vec<(Key, Count)> = self.since_start.drain().collect();
        // The live first, then the heaviest.
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
        for (place, (key, count)) in old.into_iter().enumerate() {
            let room = place < MOST_COUNTS / 2
                && self.stacks.len() < MOST_STACKS / 2
                && self.threads.len() < MOST_THREADS / 2;
            if room || live.contains(&key) {
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
        // A window that fills them by itself would be looked through again and again.
        self.most = Most {
            stacks: MOST_STACKS.max(2 * self.stacks.len()),
            counts: MOST_COUNTS.max(2 * self.since_start.len()),
            threads: MOST_THREADS.max(2 * self.threads.len()),
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
        for number in 0..(MOST_COUNTS as u64 + 20_000) {
            add(&mut window, 1, number, number * SECOND / 1000);
            add(&mut window, 1, 0, number * SECOND / 1000);
            added += 2;
            if window.is_full() {
                window.compact();
            }
            assert!(window.stacks.len() <= MOST_STACKS + 1 && window.since_start.len() <= MOST_COUNTS + 2);
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
        window.forget(100 * SECOND);
        assert!(window.window.is_empty() && window.counted(Span::Window).counts.is_empty());
    }

    #[test]
    fn a_window_that_is_full_by_itself_is_not_searched_again_and_again() {
        let mut window = Window::new(Duration::from_secs(1000));
        let mut searched = 0;
        for number in 0..(3 * MOST_COUNTS as u64) {
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
        for tid in 0..(MOST_THREADS as i32 + 5_000) {
            add(&mut window, tid, 1, tid as u64 * SECOND / 1000);
            if window.is_full() {
                window.compact();
            }
        }
        assert!(window.threads.len() <= MOST_THREADS);
        let in_window = samples(&window, Span::Window);
        assert!((1000..=1051).contains(&in_window), "{in_window}");
    }
}
