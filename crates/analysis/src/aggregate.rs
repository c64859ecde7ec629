//! Counting samples: a profile for each event.

use std::collections::HashMap;
use std::ops::Range;

use decoder::record::Read;
use decoder::values::U64s;
use decoder::{CpuMode, Endian, Record, Sample};
use model::Coverage;
use model::{CpuId, EventIndex, Gap, Name, Pid, Space, SpaceId, SpaceTable, StackEntry, Tid, Timestamp};
use perfdata::Event;
use profile::{
    ChainCache, ChainKey, Count, Detail, Profile, RawChain, SampleFacts, ThreadId, Threads, Where,
};
use rustc_hash::FxBuildHasher;
use tracker::{Generation, RawStack, SampleSink, TrackedSample, Tracker};

use crate::Error;
use crate::counter::{ChainNumber, ChainSample, Counter, Numbered};
use crate::samples::explained_filter::ExplainedFilter;
use crate::samples::unsampled_time::{TimeOwner, UnsampledTime};

/// Counts the samples that a filter admits, each event's apart.
///
/// A sample costs a look at a table that fits into no cache: the chains seen before. So samples are put aside, and a
/// batch of them is looked up in one go: the processor then waits for many places at a time. The batch ends where
/// threads or mappings change. What a chain is mapped to needs the machine as it is at that moment; making stacks of it
/// and counting them does not, and is left to another thread.
pub struct Aggregate<'a> {
    admission: ExplainedFilter,
    detail: Detail,
    events: Vec<EventSamples>,
    counter: Counter,
    mapper: Mapper,
    unmapped: Unmapped<'a>,
    unsampled: UnsampledTime,
    /// True if the filter asks for containers.
    asks_for_containers: bool,
    /// True if the filter asks for cgroups.
    asks_for_cgroups: bool,
}

/// The samples of a recording, counted.
pub struct Aggregated {
    /// The profiles, by the position of their event.
    pub profiles: Vec<Profile>,
    /// In which processes the spaces were seen.
    pub seen_in: SeenIn,
    /// The stretches of time in which samples are missing; known where single samples are kept with their times and CPUs.
    pub gaps: Vec<Gap>,
}

/// The samples of one event.
struct EventSamples {
    threads: Threads,
    /// The times of the first and the last sample.
    span: Option<(Timestamp, Timestamp)>,
    cache: ChainCache<ChainNumber>,
    numbered: Numbered,
    seats: Box<[Option<Seat>; SEATS]>,
    pending: Vec<Pending>,
    /// The call chains of the samples in `pending`.
    chains: Vec<u8>,
}

/// A thread that had samples lately, as it is until a record changes threads or mappings.
#[derive(Clone)]
struct Seat {
    /// With the CPU, if CPUs are kept apart.
    ids: Ids,
    comm: Name,
    thread: ThreadId,
    generation: Generation,
    /// [`Mapper::changes`] at that time.
    changes: u64,
    /// The sum of its samples' periods since they were last reported to [`UnsampledTime`].
    sampled: u64,
}

/// Thread, and where it ran, as far as that is kept apart.
type Ids = (Pid, Tid, Where);

/// Threads that are remembered, by the low bits of their number.
const SEATS: usize = 64;

/// A sample whose stack is still to be looked up.
struct Pending {
    key: ChainKey,
    number: Option<ChainNumber>,
    thread: ThreadId,
    period: u64,
    time: Option<Timestamp>,
    cpu: Option<CpuId>,
    pid: Pid,
    generation: Generation,
    ip: Option<u64>,
    mode: CpuMode,
    /// The range of its call chain in `chains`, and its byte order, if it has one.
    chain: Option<(Range<usize>, Endian)>,
}

/// So many samples are looked up together.
const BATCH: usize = 128;

impl<'a> Aggregate<'a> {
    /// Counts nothing yet. Starts a thread. `keeps_address` says of a space [`Space::Unmapped`] whether its addresses are kept apart;
    /// it is asked once for each.
    ///
    /// # Errors
    /// Where no thread can be started.
    pub fn new(
        admission: ExplainedFilter,
        detail: Detail,
        keeps_address: &'a dyn Fn(&Space) -> bool,
    ) -> Result<Self, Error> {
        let filter = admission.filter();
        let unsampled = UnsampledTime::new(filter.clone(), detail);
        let asks_for_containers = !filter.containers.is_empty();
        let asks_for_cgroups = !filter.cgroups.is_empty();
        let counter = Counter::start(detail)?;
        Ok(Self {
            admission,
            detail,
            events: Vec::new(),
            counter,
            mapper: Mapper::default(),
            unmapped: Unmapped { keeps_address, merged: Vec::new() },
            unsampled,
            asks_for_containers,
            asks_for_cgroups,
        })
    }

    /// Returns the reason why the filter admitted no sample; `None` where it did, or where there was none.
    pub fn why_none(&self) -> Option<String> {
        self.admission.why_none()
    }

    /// The result, with a profile for each of `events`: empty ones for events without samples.
    pub fn finish(mut self, events: &[Event]) -> Aggregated {
        for index in 0..self.events.len() {
            for seat in 0..SEATS {
                self.tell_sampled(index, seat);
            }
        }
        for event in &mut self.events {
            self.counter.count(&mut event.numbered);
        }
        let mut counts = self.counter.finish();
        for (profile, event) in counts.profiles.iter_mut().zip(self.events) {
            profile.set_threads(event.threads);
            profile.span = event.span;
        }
        let unsampled = self.unsampled.finish().into_iter();
        for ((profile, event), times) in counts.profiles.iter_mut().zip(events).zip(unsampled) {
            if event.attr.is_cpu_clock() {
                add_unsampled(profile, times);
            }
        }
        Aggregated { profiles: counts.profiles, seen_in: self.mapper.seen_in, gaps: counts.gaps }
    }

    /// Adds the sampled CPU time of the task in a seat to [`Self::unsampled`], and resets it.
    fn tell_sampled(&mut self, index: usize, seat: usize) {
        let Some(Some(seat)) = self.events.get_mut(index).and_then(|event| event.seats.get_mut(seat)) else {
            return;
        };
        let ((pid, tid), sampled) = ((seat.ids.0, seat.ids.1), std::mem::take(&mut seat.sampled));
        if sampled > 0 {
            self.unsampled.sampled(EventIndex(index as u32), pid, tid, sampled);
        }
    }
}

/// Adds CPU time without samples to the profile of a clock, where it is worth a word.
fn add_unsampled(profile: &mut Profile, mut times: Vec<(TimeOwner, u64)>) {
    let Count { samples, period } = profile.total();
    let missing = times.iter().map(|(_, time)| *time).fold(0, u64::saturating_add);
    let counted = Some(period.saturating_add(missing));
    let coverage = Coverage { event: String::new(), samples, sampled: period, counted };
    if coverage.missing(0).is_none() {
        return;
    }
    let each = period.checked_div(samples).unwrap_or(1).max(1);
    // Thousands of names may have a fraction of a sample each. Their sum is kept, and does not depend on the order of the map.
    times.sort_unstable();
    let mut rest = 0_u64;
    for (TimeOwner { comm, pid, tid }, time) in times {
        let thread = profile.thread(&comm, pid, tid, || comm.clone());
        rest = rest.saturating_add(time);
        profile.add_unsampled(thread, Count { samples: rest / each, period: time });
        rest %= each;
    }
}

impl EventSamples {
    fn new(event: EventIndex, detail: Detail) -> Self {
        Self {
            threads: Threads::new(detail),
            span: None,
            cache: ChainCache::default(),
            numbered: Numbered::of(event),
            seats: Box::new([const { None }; SEATS]),
            pending: Vec::new(),
            chains: Vec::new(),
        }
    }

    /// The thread as it is after this number of `changes`.
    fn seat(&mut self, tracker: &mut Tracker, ids: &Ids, changes: u64) -> &mut Seat {
        let &(pid, tid, ref place_of) = ids;
        let place = &mut self.seats[seat_of(tid)];
        if place.as_ref().is_some_and(|seat| seat.ids != *ids || seat.changes != changes) {
            *place = None;
        }
        place.get_or_insert_with(|| {
            let comm = tracker.comm(pid, tid).clone();
            let process = || tracker.comm(pid, Tid(pid.0)).clone();
            let thread = self.threads.number_on(&comm, pid, tid, place_of, process);
            let generation = tracker.generation(pid);
            Seat { ids: ids.clone(), comm, thread, generation, changes, sampled: 0 }
        })
    }

    /// Puts a sample aside.
    fn put(&mut self, sample: &Sample<'_>, pid: Pid, thread: ThreadId, generation: Generation, period: u64) {
        let bytes = sample.callchain.map_or(&[][..], |chain| chain.as_bytes());
        let raw = raw_chain(generation, sample.ip, sample.mode, bytes);
        let start = self.chains.len();
        self.chains.extend_from_slice(bytes);
        self.pending.push(Pending {
            key: self.cache.key(&raw),
            number: None,
            thread,
            period,
            time: sample.time,
            cpu: sample.cpu,
            pid,
            generation,
            ip: sample.ip,
            mode: sample.mode,
            chain: sample.callchain.map(|chain| (start..self.chains.len(), chain.endian())),
        });
    }

    /// Maps what was put aside, to be counted. The machine must still be as it was when that was taken.
    fn settle(
        &mut self,
        tracker: &mut Tracker,
        mapper: &mut Mapper,
        unmapped: &mut Unmapped<'_>,
        counter: &Counter,
    ) {
        for pending in &mut self.pending {
            pending.number = self.cache.get(pending.key);
        }
        for index in 0..self.pending.len() {
            let Pending { key, number, pid, generation, ip, mode, ref chain, .. } = self.pending[index];
            if number.is_some() {
                continue;
            }
            // An earlier sample of the batch may have had the same chain.
            let number = self.cache.get(key).unwrap_or_else(|| {
                let chain = chain.clone().map(|(range, endian)| U64s::new(&self.chains[range], endian));
                let entries = mapper.map(tracker, RawStack { pid, mode, ip, chain }, None);
                unmapped.merge(entries, tracker.spaces());
                let number = self.numbered.add_chain(entries);
                if self.cache.insert(key, number) {
                    self.numbered.keep_from(number);
                }
                number
            });
            self.pending[index].number = Some(number);
            // The first sample with the new program on its stack ends the program before the exec.
            let now = tracker.generation(pid);
            if now != generation {
                mapper.changes += 1;
                self.renew(index + 1, pid, now);
            }
        }
        for Pending { number, thread, period, time, cpu, .. } in self.pending.drain(..) {
            if let Some(chain) = number {
                self.numbered.add_sample(ChainSample { chain, thread, period, time, cpu });
            }
        }
        self.chains.clear();
        if self.numbered.is_full() {
            counter.count(&mut self.numbered);
        }
    }

    /// The samples of a process from `index` on were taken in another state of its mappings than they say.
    fn renew(&mut self, index: usize, pid: Pid, generation: Generation) {
        for pending in self.pending[index..].iter_mut().filter(|pending| pending.pid == pid) {
            let bytes = pending.chain.as_ref().map_or(&[][..], |(range, _)| &self.chains[range.clone()]);
            pending.generation = generation;
            pending.key = self.cache.key(&raw_chain(generation, pending.ip, pending.mode, bytes));
            pending.number = self.cache.get(pending.key);
        }
    }
}

pub(crate) fn raw_chain(
    generation: Generation,
    ip: Option<u64>,
    mode: CpuMode,
    bytes: &[u8],
) -> RawChain<'_> {
    RawChain { generation: generation.as_u64(), ip: ip.unwrap_or(0), mode: mode as u8, bytes }
}

/// Maps call chains.
#[derive(Default)]
pub struct Mapper {
    /// The entries of the chain mapped last.
    entries: Vec<StackEntry>,
    /// The processes in which spaces were seen.
    pub seen_in: SeenIn,
    /// The number of changes of threads or mappings: what was known before one must be asked for anew.
    changes: u64,
}

impl Mapper {
    /// Returns the entries of a call chain, innermost first. `deferred` is its user part, if that came in a record of its own.
    pub fn map(
        &mut self,
        tracker: &mut Tracker,
        raw: RawStack<U64s<'_>>,
        deferred: Option<U64s<'_>>,
    ) -> &mut [StackEntry] {
        let RawStack { pid, mode, ip, chain } = raw;
        self.entries.clear();
        let chain = chain.map(|chain| chain.iter());
        tracker.map_callchain(RawStack { pid, mode, ip, chain }, &mut self.entries);
        if let Some(ips) = deferred {
            tracker.map_deferred(pid, ips.iter(), &mut self.entries);
        }
        self.seen_in.see(pid, &self.entries);
        &mut self.entries
    }
}

/// Makes addresses that no mapping covers, and that nothing can name, one address of their space.
struct Unmapped<'a> {
    keeps_address: &'a dyn Fn(&Space) -> bool,
    /// By space: true if its addresses are one. As many as were asked about.
    merged: Vec<bool>,
}

impl Unmapped<'_> {
    fn merge(&mut self, entries: &mut [StackEntry], spaces: &SpaceTable) {
        for entry in entries {
            let id = entry.space.0 as usize;
            if id >= self.merged.len() {
                let new = spaces.iter_from(self.merged.len());
                let merged = new.map(|(_, space)| {
                    matches!(space, Space::Unmapped { .. }) && !(self.keeps_address)(space)
                });
                self.merged.extend(merged);
            }
            if self.merged.get(id).copied().unwrap_or(false) {
                entry.offset = 0;
            }
        }
    }
}

/// In which processes a space was seen: while one of them lives, its files can be opened as it sees them.
#[derive(Clone, Default)]
pub struct SeenIn(HashMap<SpaceId, Vec<Pid>, FxBuildHasher>);

/// The number of processes of a space that are remembered: the newest ones, as they are the likeliest to live.
const REMEMBERED: usize = 4;

impl SeenIn {
    /// The processes, newest first.
    pub fn pids(&self, space: SpaceId) -> Vec<Pid> {
        self.0.get(&space).map_or_else(Vec::new, |pids| pids.iter().rev().copied().collect())
    }

    /// Forgets all spaces but these.
    pub fn retain(&mut self, keep: impl Fn(SpaceId) -> bool) {
        self.0.retain(|&space, _| keep(space));
        self.0.shrink_to(2 * self.0.len());
    }

    /// Learns what another one knows of spaces that this one does not know.
    pub fn extend(&mut self, other: Self) {
        for (space, pids) in other.0 {
            self.0.entry(space).or_insert(pids);
        }
    }

    /// Learns where the entries of a process's stack were seen.
    pub fn see(&mut self, pid: Pid, entries: &[StackEntry]) {
        for entry in entries.iter().filter(|entry| !entry.in_kernel) {
            let pids = self.0.entry(entry.space).or_default();
            if pids.last() != Some(&pid) {
                pids.retain(|&known| known != pid);
                if pids.len() == REMEMBERED {
                    pids.remove(0);
                }
                pids.push(pid);
            }
        }
    }
}

impl SampleSink for Aggregate<'_> {
    type Error = Error;

    fn sample(&mut self, sample: TrackedSample<'_>) -> Result<(), Error> {
        let TrackedSample { tracker, event, sample, deferred, period } = sample;
        let (pid, tid) = sample.thread.unwrap_or((Pid::NONE, Tid(-1)));
        let index = event.0 as usize;
        while self.events.len() <= index {
            self.events.push(EventSamples::new(EventIndex(self.events.len() as u32), self.detail));
        }
        let asks = self.detail.containers || self.asks_for_containers;
        let container = if asks { tracker.container(pid, sample.cgroup).cloned() } else { None };
        let asks = self.detail.cgroups || self.asks_for_cgroups;
        let cgroup = sample.cgroup.filter(|_| asks).and_then(|id| tracker.cgroup(id)).cloned();
        let place = Where {
            cpu: sample.cpu.filter(|_| self.detail.cpus),
            container: container.clone().filter(|_| self.detail.containers),
            cgroup: cgroup.clone().filter(|_| self.detail.cgroups),
            labels: None,
        };
        let ids = (pid, tid, place);
        // Before a slot is given to another thread, the periods that were sampled for the former one are reported.
        let changes = self.mapper.changes;
        let is_anothers = |seat: &Seat| seat.ids != ids || seat.changes != changes;
        let seat = self.events.get(index).and_then(|event| event.seats[seat_of(tid)].as_ref());
        if seat.is_some_and(|seat| seat.sampled > 0 && is_anothers(seat)) {
            self.tell_sampled(index, seat_of(tid));
        }
        let Some(counted) = self.events.get_mut(index) else { return Ok(()) };
        let seat = counted.seat(tracker, &ids, changes);
        seat.sampled = seat.sampled.saturating_add(period);
        let Seat { comm, thread, generation, .. } = &*seat;
        let (thread, generation) = (*thread, *generation);
        let facts = SampleFacts {
            comm,
            pid,
            tid,
            cpu: sample.cpu,
            event,
            time: sample.time,
            container: container.as_ref(),
            cgroup: cgroup.as_ref(),
        };
        if !self.admission.admits(&facts) {
            return Ok(());
        }
        if let Some(time) = sample.time {
            time.extend(&mut counted.span);
        }
        if deferred.is_some() {
            counted.settle(tracker, &mut self.mapper, &mut self.unmapped, &self.counter);
            let chain = sample.callchain;
            let raw = RawStack { pid, mode: sample.mode, ip: sample.ip, chain };
            let chain = counted.numbered.add_chain(self.mapper.map(tracker, raw, deferred));
            let (time, cpu) = (sample.time, sample.cpu);
            counted.numbered.add_sample(ChainSample { chain, thread, period, time, cpu });
            return Ok(());
        }
        counted.put(sample, pid, thread, generation, period);
        if counted.pending.len() == BATCH {
            counted.settle(tracker, &mut self.mapper, &mut self.unmapped, &self.counter);
        }
        Ok(())
    }

    fn settle(&mut self, tracker: &mut Tracker) {
        for event in &mut self.events {
            event.settle(tracker, &mut self.mapper, &mut self.unmapped, &self.counter);
        }
        self.mapper.changes += 1;
    }

    fn record(&mut self, record: &Record<'_>) {
        if let Record::Fork(task) | Record::Exit(task) = record {
            for index in 0..self.events.len() {
                self.tell_sampled(index, seat_of(task.tid));
            }
        }
        let gap = match record {
            Record::Lost(lost) => Some(Record::Lost(*lost)),
            Record::Throttle(throttle) => Some(Record::Throttle(*throttle)),
            Record::Unthrottle(throttle) => Some(Record::Unthrottle(*throttle)),
            _ => None,
        };
        if let Some(gap) = gap.filter(|_| self.detail.samples.is_some()) {
            for event in &mut self.events {
                self.counter.count(&mut event.numbered);
            }
            self.counter.gap(gap);
        }
        self.unsampled.record(record);
    }

    fn task_time(&mut self, read: &Read<'_>) {
        self.unsampled.read(read);
    }
}

/// The place of a thread among the seats.
fn seat_of(tid: Tid) -> usize {
    tid.0 as usize % SEATS
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::AddressKind;

    fn entry(space: u32, in_kernel: bool) -> StackEntry {
        StackEntry { offset: 1, space: SpaceId(space), kind: AddressKind::InstructionPointer, in_kernel }
    }

    #[test]
    fn the_newest_processes_of_a_space_are_remembered_each_once() {
        let mut seen_in = SeenIn::default();
        for pid in [1, 2, 3, 2, 4, 5, 3, 3] {
            seen_in.see(Pid(pid), &[entry(7, false), entry(8, true)]);
        }
        assert_eq!(seen_in.pids(SpaceId(7)), [3, 5, 4, 2].map(Pid));
        assert_eq!(seen_in.pids(SpaceId(8)), [], "the kernel is everybody's");
    }

    #[test]
    fn spaces_that_are_forgotten_leave_no_memory_and_the_others_stay() {
        let mut seen_in = SeenIn::default();
        for space in 0..50_000 {
            seen_in.see(Pid(1), &[entry(space, false)]);
        }
        seen_in.see(Pid(2), &[entry(3, false)]);
        seen_in.retain(|space| space.0 < 10);
        assert_eq!((seen_in.0.len(), seen_in.pids(SpaceId(3))), (10, vec![Pid(2), Pid(1)]));
        assert_eq!(seen_in.pids(SpaceId(10)), []);
        assert!(seen_in.0.capacity() < 100, "{}", seen_in.0.capacity());
    }

    #[test]
    fn addresses_that_nothing_can_name_are_one_in_their_space() {
        let mut spaces = SpaceTable::default();
        let unmapped = |pid| Space::Unmapped { pid: Pid(pid), generation: 0 };
        let (nameless, may_be_named) = (spaces.intern(unmapped(1)), spaces.intern(unmapped(2)));
        let mapped = spaces.intern(Space::Vdso { build_id: None });
        let keeps_address = |space: &Space| *space == unmapped(2);
        let mut merging = Unmapped { keeps_address: &keeps_address, merged: Vec::new() };
        let kind = AddressKind::ReturnAddress;
        let entry = |space, offset| StackEntry { offset, space, kind, in_kernel: false };
        let mut entries = [nameless, may_be_named, mapped].map(|space| entry(space, 7));
        merging.merge(&mut entries, &spaces);
        assert_eq!(entries, [entry(nameless, 0), entry(may_be_named, 7), entry(mapped, 7)]);
    }
}
