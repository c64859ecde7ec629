//! Samples, counted.

use hashbrown::HashMap;
use model::{Loss, Name, Pid, StackEntry, Tid, Timestamp};
use rustc_hash::FxBuildHasher;

use crate::{Count, Detail, PlaceId, Sample, Samples, StackId, StackTable, Thread, ThreadId, Threads, Where};

/// The number of classes of places that [`Profile::samples_by`] tells apart.
pub const MOST_CLASSES: usize = u32::BITS as usize;

/// The number of samples that something is in.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Presence {
    /// Anywhere on their stack.
    pub anywhere: u64,
    /// As the innermost frame.
    pub innermost: u64,
}

impl Presence {
    fn add(&mut self, (anywhere, innermost): (bool, bool), samples: u64) {
        for (sum, _) in
            [(&mut self.anywhere, anywhere), (&mut self.innermost, innermost)].into_iter().filter(|of| of.1)
        {
            add(sum, samples);
        }
    }
}

/// The samples of one event: stacks by thread, counted.
#[derive(Clone, Default, Debug)]
pub struct Profile {
    /// The stacks, kept once each.
    pub stacks: StackTable,
    /// The loss of the recording.
    pub loss: Loss,
    /// The times of the first and the last sample, if samples state times.
    pub span: Option<(Timestamp, Timestamp)>,
    detail: Detail,
    threads: Threads,
    /// By run of stacks, of the first stack that had samples, the first thread that had them. Nearly all samples are here: a run ends
    /// where an instruction was interrupted, and the stacks below are return addresses, in which no sample is taken.
    first: Vec<(ThreadId, StackId, Count)>,
    /// For all others.
    others: HashMap<(ThreadId, StackId), Count, FxBuildHasher>,
    samples: Samples,
    total: Count,
    unsampled: Vec<(ThreadId, Count)>,
}

impl Profile {
    /// A profile without samples, that will keep apart what `detail` says.
    pub fn new(detail: Detail) -> Self {
        let samples = Samples::new(detail.samples.unwrap_or_default());
        Self { detail, threads: Threads::new(detail), samples, ..Self::default() }
    }

    /// Counts a sample that does not say when and where it was taken.
    pub fn add(&mut self, comm: &Name, pid: Pid, tid: Tid, stack: StackId, period: u64) {
        let thread = self.thread(comm, pid, tid, || comm.clone());
        self.count(Sample { thread, stack, period, time: None, cpu: None, is_continued: false });
    }

    /// Counts a sample of a thread that [`Self::thread`] knows. Samples must come in the order of time where single ones are
    /// kept.
    #[inline]
    pub fn count(&mut self, sample: Sample) {
        let period = self.add_count(sample.thread, sample.stack, sample.count());
        if self.detail.samples.is_some() {
            self.samples.push(Sample { period, ..sample });
        }
    }

    /// Counts samples of a thread that [`Self::thread`] knows, which somebody else has counted. A profile that keeps single samples has no
    /// use for them.
    pub fn add_counts(&mut self, thread: ThreadId, stack: StackId, samples: Count) {
        self.add_count(thread, stack, samples);
    }

    /// Returns the period as it was added.
    #[inline]
    fn add_count(&mut self, thread: ThreadId, stack: StackId, added: Count) -> u64 {
        // The sum of all periods must stay a number that readers of the output can hold, whatever a file claims.
        let period = added.period.min((i64::MAX as u64).saturating_sub(self.total.period));
        let run = self.stacks.run(stack);
        if self.first.len() <= run {
            self.first.resize(run + 1, (thread, stack, Count::default()));
        }
        let count = match &mut self.first[run] {
            first if first.2 == Count::default() => {
                *first = (thread, stack, Count::default());
                &mut first.2
            }
            (of_thread, of_stack, count) if (*of_thread, *of_stack) == (thread, stack) => count,
            _ => self.others.entry((thread, stack)).or_default(),
        };
        for count in [count, &mut self.total] {
            count.samples = count.samples.saturating_add(added.samples);
            count.period = count.period.saturating_add(period);
        }
        period
    }

    /// Adds CPU time of a thread that has no samples: how many were due, and what they would have stood for. It is in no count
    /// of samples.
    pub fn add_unsampled(&mut self, thread: ThreadId, due: Count) {
        self.unsampled.push((thread, due));
    }

    /// CPU time without samples, by thread.
    pub fn unsampled(&self) -> &[(ThreadId, Count)] {
        &self.unsampled
    }

    /// Returns the details that were kept apart.
    pub fn detail(&self) -> Detail {
        self.detail
    }

    /// All samples together.
    pub fn total(&self) -> Count {
        self.total
    }

    /// The threads (or names) that have samples. A [`ThreadId`] is a position in this list.
    pub fn threads(&self) -> &[Thread] {
        self.threads.list()
    }

    /// Takes over the threads whose numbers the samples were counted by.
    pub fn set_threads(&mut self, threads: Threads) {
        self.threads = threads;
    }

    /// Takes all counts, and begins to count anew; stacks and threads keep their numbers.
    pub fn take_counts(&mut self) -> Vec<(ThreadId, StackId, Count)> {
        let counts = self.counts().collect();
        (self.first, self.others, self.total) = (Vec::new(), HashMap::default(), Count::default());
        counts
    }

    /// Each thread's stacks with their counts, in no order.
    pub fn counts(&self) -> impl Iterator<Item = (ThreadId, StackId, Count)> {
        let first = self.first.iter().filter(|(.., count)| *count != Count::default()).copied();
        first.chain(self.others.iter().map(|(&(thread, stack), &count)| (thread, stack, count)))
    }

    /// Returns the samples of a stack in `first`.
    fn first_samples(&self, stack: StackId) -> u64 {
        let first = self.first.get(self.stacks.run(stack));
        first.filter(|(_, of_stack, _)| *of_stack == stack).map_or(0, |(.., count)| count.samples)
    }

    /// Each place, and in how many frames of samples it is.
    pub fn places(&self) -> impl Iterator<Item = (PlaceId, &StackEntry, u64)> {
        self.places_called_by(|_| true)
    }

    /// As [`Self::places`], where the caller of the frame is such a place; outermost frames have none.
    pub fn places_called_by(
        &self,
        is_caller: impl Fn(Option<&StackEntry>) -> bool,
    ) -> impl Iterator<Item = (PlaceId, &StackEntry, u64)> {
        // Every stack's samples count for its callers' parts, too. The caller of most stacks is the one before.
        let mut samples: HashMap<StackId, u64, FxBuildHasher> = HashMap::default();
        for (&(_, stack), count) in &self.others {
            add(samples.entry(stack).or_default(), count.samples);
        }
        let mut frames = vec![0_u64; self.stacks.places().len()];
        let mut follower = 0;
        for (stack, place, caller) in self.stacks.iter().rev() {
            let mut count = samples.get(&stack).copied().unwrap_or(0);
            add(&mut count, self.first_samples(stack));
            add(&mut count, std::mem::take(&mut follower));
            if caller.index() + 1 == stack.index() {
                follower = count;
            } else {
                add(samples.entry(caller).or_default(), count);
            }
            let calling = self.stacks.split(caller);
            if is_caller(calling.and_then(|(place, _)| self.stacks.places().get(place.index()))) {
                add(&mut frames[place.index()], count);
            }
        }
        self.stacks.numbered_places().zip(frames).map(|((place, entry), frames)| (place, entry, frames))
    }

    /// The samples with places of each class anywhere on their stacks, and those that were taken in one, by class. `class_of` says
    /// of which class a place is, counted from 0; of those from [`MOST_CLASSES`] on it is of none. It is asked once for each place.
    pub fn samples_by(
        &self,
        mut class_of: impl FnMut(PlaceId, &StackEntry) -> Option<usize>,
    ) -> [Presence; MOST_CLASSES] {
        let bit_of = |(place, entry)| {
            class_of(place, entry).filter(|&class| class < MOST_CLASSES).map_or(0, |class| 1 << class)
        };
        let classes: Vec<u32> = self.stacks.numbered_places().map(bit_of).collect();
        let mut sums = [Presence::default(); MOST_CLASSES];
        if classes.iter().all(|&class| class == 0) {
            return sums;
        }
        // A bit for each class: those that are on a stack, and that of its innermost place. Callers come before what they call.
        let mut masks = Vec::with_capacity(self.stacks.len());
        masks.push((0, 0));
        let mut sum = |(mut anywhere, innermost): (u32, u32), samples: u64| {
            while samples > 0 && anywhere != 0 {
                let class = anywhere.trailing_zeros();
                sums[class as usize].add((true, innermost == 1 << class), samples);
                anywhere &= anywhere - 1;
            }
        };
        for (stack, place, caller) in self.stacks.iter() {
            let innermost = classes.get(place.index()).copied().unwrap_or(0);
            let below = masks.get(caller.index()).map_or(0, |(anywhere, _)| *anywhere);
            let mask = (below | innermost, innermost);
            masks.push(mask);
            sum(mask, self.first_samples(stack));
        }
        for (&(_, stack), count) in &self.others {
            sum(masks.get(stack.index()).copied().unwrap_or_default(), count.samples);
        }
        sums
    }

    /// The samples in the order of time; empty unless [`Detail::samples`] was asked for.
    pub fn samples(&self) -> &Samples {
        &self.samples
    }

    /// The thread of a sample, or all of its name, as the profile keeps them apart. `process` is asked for the name of
    /// the process where that matters.
    pub fn thread(&mut self, comm: &Name, pid: Pid, tid: Tid, process: impl FnOnce() -> Name) -> ThreadId {
        self.thread_on(comm, pid, tid, &Where::default(), process)
    }

    /// As [`Self::thread`], for a sample that was taken there.
    pub fn thread_on(
        &mut self,
        comm: &Name,
        pid: Pid,
        tid: Tid,
        place: &Where,
        process: impl FnOnce() -> Name,
    ) -> ThreadId {
        self.threads.number_on(comm, pid, tid, place, process)
    }
}

fn add(sum: &mut u64, count: u64) {
    *sum = sum.saturating_add(count);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Columns;
    use crate::testing::entry;

    fn add(profile: &mut Profile, comm: &str, tid: i32, offset: u64, period: u64) {
        let stack = profile.stacks.intern(&[entry(offset)]);
        profile.add(&Name::from(comm), Pid(1), Tid(tid), stack, period);
    }

    #[test]
    fn threads_are_kept_apart_only_where_asked() {
        for threads in [false, true] {
            let mut profile =
                Profile::new(Detail { threads, samples: Some(Columns::default()), ..Detail::default() });
            add(&mut profile, "a", 1, 1, 10);
            add(&mut profile, "a", 2, 1, 20);
            add(&mut profile, "b", 2, 1, 30);
            assert_eq!(profile.threads().len(), if threads { 3 } else { 2 });
            assert_eq!(profile.total(), Count { samples: 3, period: 60 });
            assert_eq!(
                profile.samples().iter().map(|sample| sample.period).collect::<Vec<_>>(),
                [10, 20, 30]
            );
            let samples: u64 = profile.counts().map(|(_, _, count)| count.samples).sum();
            assert_eq!(samples, 3);
        }
    }

    #[test]
    fn absurd_periods_do_not_overflow_the_sum() {
        let mut profile = Profile::default();
        for offset in 0..3 {
            add(&mut profile, "a", 1, offset, u64::MAX);
        }
        assert_eq!(profile.total(), Count { samples: 3, period: i64::MAX as u64 });
        let period: u64 = profile.counts().map(|(_, _, count)| count.period).sum();
        assert_eq!(period, i64::MAX as u64, "the parts are the whole");
    }
}
