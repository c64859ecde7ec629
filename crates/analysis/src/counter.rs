//! Counting on a thread of its own: while one batch of samples is counted, the chains of the next are mapped.

use std::thread::JoinHandle;

use crossbeam_channel::{Receiver, Sender, bounded};
use decoder::Record;
use model::{CpuId, EventIndex, Gap, StackEntry, Timestamp};
use profile::{Detail, Profile, Sample, StackId, ThreadId};

use crate::Error;
use crate::batch::BATCHES;
use crate::gaps::Gaps;

/// Samples in a batch, 160 KiB of them: what handing one over costs is nothing beside what counting it does.
const BATCH_SAMPLES: usize = 4096;

/// The number of a call chain of one event, in the order in which they were mapped.
pub(crate) type ChainNumber = u64;

/// Samples of one event whose chains are mapped, to be counted.
#[derive(Default)]
pub(crate) struct Batch {
    event: EventIndex,
    /// The entries of chains that were not met before, one chain after the other.
    entries: Vec<StackEntry>,
    /// Where in `entries` each of those chains ends.
    ends: Vec<usize>,
    samples: Vec<ChainSample>,
    /// No later batch has a sample of a chain before this one.
    keep_from: ChainNumber,
}

/// A sample by the number of its chain; else as [`Sample`].
pub(crate) struct ChainSample {
    pub(crate) chain: ChainNumber,
    pub(crate) thread: ThreadId,
    pub(crate) period: u64,
    pub(crate) time: Option<Timestamp>,
    pub(crate) cpu: Option<CpuId>,
}

/// The chains of one event as they get numbers, and the samples that go to a [`Counter`] with them.
#[derive(Default)]
pub(crate) struct Numbered {
    batch: Batch,
    next: ChainNumber,
}

impl Numbered {
    /// No chains yet of this event.
    pub(crate) fn of(event: EventIndex) -> Self {
        Self { batch: Batch { event, ..Batch::default() }, next: 0 }
    }

    /// Gives a number to a chain with these entries, innermost first.
    pub(crate) fn add_chain(&mut self, entries: &[StackEntry]) -> ChainNumber {
        self.batch.entries.extend_from_slice(entries);
        self.batch.ends.push(self.batch.entries.len());
        self.next += 1;
        self.next - 1
    }

    /// No sample that is added later has a chain before this one.
    pub(crate) fn keep_from(&mut self, chain: ChainNumber) {
        self.batch.keep_from = chain;
    }

    /// Adds a sample.
    pub(crate) fn add_sample(&mut self, sample: ChainSample) {
        self.batch.samples.push(sample);
    }

    /// Returns true if the batch is worth handing over.
    pub(crate) fn is_full(&self) -> bool {
        self.batch.samples.len() >= BATCH_SAMPLES
    }
}

/// The results of counting.
#[derive(Default)]
pub(crate) struct Counts {
    /// A profile for each event that had samples, by its position; without threads.
    pub(crate) profiles: Vec<Profile>,
    /// The stretches of time in which samples are missing.
    pub(crate) gaps: Vec<Gap>,
}

/// Work for the counting thread.
enum Work {
    Count(Batch),
    /// A record that tells of a gap between the samples before it and those after it.
    Gap(Box<Record<'static>>),
}

/// Hands samples to a thread that counts them, in their order.
pub(crate) struct Counter {
    work: Sender<Work>,
    emptied: Receiver<Batch>,
    thread: JoinHandle<Counts>,
}

impl Counter {
    /// Starts the thread.
    ///
    /// # Errors
    /// Where no thread can be started.
    pub(crate) fn start(detail: Detail) -> Result<Self, Error> {
        let (work, todo) = bounded(BATCHES);
        let (empty, emptied) = bounded(BATCHES);
        let counting = Counting { detail, events: Vec::new(), gaps: Gaps::default() };
        let thread = std::thread::Builder::new()
            .name("prof-counter".to_owned())
            .spawn(move || counting.run(&todo, &empty))
            .map_err(|source| Error::Thread { purpose: "count", source })?;
        Ok(Self { work, emptied, thread })
    }

    /// Hands over what was added to `numbered`.
    pub(crate) fn count(&self, numbered: &mut Numbered) {
        let Batch { event, keep_from, .. } = numbered.batch;
        let next = Batch { event, keep_from, ..self.emptied.try_recv().unwrap_or_default() };
        self.send(Work::Count(std::mem::replace(&mut numbered.batch, next)));
    }

    /// Takes note of a record that tells of a gap, where the samples before it were handed over.
    pub(crate) fn gap(&self, record: Record<'static>) {
        self.send(Work::Gap(Box::new(record)));
    }

    fn send(&self, work: Work) {
        // Sending fails only if the thread has panicked; [`Self::finish`] passes the panic on.
        let _ = self.work.send(work);
    }

    /// Waits until all is counted.
    pub(crate) fn finish(self) -> Counts {
        drop(self.work);
        self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

/// The state of the counting thread.
struct Counting {
    detail: Detail,
    events: Vec<Counted>,
    gaps: Gaps,
}

/// The samples of one event.
struct Counted {
    profile: Profile,
    /// The stacks of chains, from the number `first` on.
    stacks: Vec<StackId>,
    first: ChainNumber,
}

impl Counting {
    fn run(mut self, todo: &Receiver<Work>, empty: &Sender<Batch>) -> Counts {
        for work in todo {
            match work {
                Work::Count(mut batch) => {
                    self.count(&batch);
                    batch.entries.clear();
                    batch.ends.clear();
                    batch.samples.clear();
                    // If enough empty batches are waiting, this one is dropped.
                    let _ = empty.try_send(batch);
                }
                Work::Gap(record) => {
                    self.gaps.record(&record);
                }
            }
        }
        let profile = |event: Counted| {
            let mut profile = event.profile;
            profile.stacks.release_indexes();
            profile
        };
        Counts { profiles: self.events.into_iter().map(profile).collect(), gaps: self.gaps.list }
    }

    fn count(&mut self, batch: &Batch) {
        let index = batch.event.0 as usize;
        while self.events.len() <= index {
            let profile = Profile::new(self.detail);
            self.events.push(Counted { profile, stacks: Vec::new(), first: 0 });
        }
        let keeps_samples = self.detail.samples.is_some();
        let Some(Counted { profile, stacks, first }) = self.events.get_mut(index) else { return };
        let mut start = 0;
        for &end in &batch.ends {
            let entries = batch.entries.get(start..end).unwrap_or_default();
            stacks.push(profile.stacks.intern(entries));
            start = end;
        }
        for &ChainSample { chain, thread, period, time, cpu } in &batch.samples {
            let stack = chain.checked_sub(*first).and_then(|index| stacks.get(index as usize));
            let stack = stack.copied().unwrap_or(StackId::EMPTY);
            profile.count(Sample { thread, stack, period, time, cpu, is_continued: false });
            if let Some(time) = time.filter(|_| keeps_samples) {
                self.gaps.sample(cpu, time);
            }
        }
        let forgotten = batch.keep_from.saturating_sub(*first) as usize;
        stacks.drain(..forgotten.min(stacks.len()));
        *first = (*first).max(batch.keep_from);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{AddressKind, Name, Pid, SpaceId, Tid};

    fn entry(offset: u64) -> StackEntry {
        StackEntry { offset, space: SpaceId(0), kind: AddressKind::InstructionPointer, in_kernel: false }
    }

    #[test]
    fn samples_are_counted_by_the_chains_they_name_until_those_are_forgotten() {
        let mut threads = profile::Threads::new(Detail::default());
        let name = Name::from("x");
        let thread = threads.number_on(&name, Pid(1), Tid(1), &profile::Where::default(), || name.clone());
        let counter = Counter::start(Detail::default()).unwrap();
        let mut numbered = Numbered::of(EventIndex(1));
        let sample = |chain| ChainSample { chain, thread, period: 10, time: None, cpu: None };
        let first = numbered.add_chain(&[entry(1), entry(2)]);
        numbered.add_sample(sample(first));
        // What was mapped before goes with what forgets it; what comes later stays known.
        for round in 0..100 {
            let kept = numbered.add_chain(&[entry(100 + round)]);
            numbered.keep_from(kept);
            numbered.add_sample(sample(kept - 1));
            numbered.add_sample(sample(kept));
            counter.count(&mut numbered);
        }
        let Counts { profiles, gaps } = counter.finish();
        assert_eq!((profiles.len(), gaps.len()), (2, 0));
        assert!(profiles[0].stacks.is_empty());
        let counted = &profiles[1];
        let mut found: Vec<(u64, u64)> = counted
            .counts()
            .map(|(_, stack, count)| {
                let innermost = counted.stacks.split(stack).map(|(place, _)| place.index());
                (innermost.map_or(0, |place| counted.stacks.places()[place].offset), count.samples)
            })
            .collect();
        found.sort_unstable();
        let expected: Vec<(u64, u64)> =
            [(1, 2)].into_iter().chain((100..199).map(|at| (at, 2))).chain([(199, 1)]).collect();
        assert_eq!(found, expected);
    }
}
