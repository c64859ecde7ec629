//! Samples whose stacks are to be found, one after the other, with what is known of the machine at each one's moment.

use std::cell::OnceCell;
use std::io;
use std::sync::Arc;
use std::time::Instant;

use decoder::values::U64s;
use decoder::{Endian, RawRecord, Sample};
use elf::UnpackBudget;
use host::objects::{ObjectLimits, ObjectStore, SearchPaths};
use model::{EventIndex, Pid, Timestamp, TruncationReason};
use stacks::{
    DumpOwners, Mechanisms, ProcessMapsCache, RefusedTables, SampledStack, StackWalker, UserState,
    is_of_32_bits, kernel_part, names_no_mapping, native, user_part,
};
use tracker::{OrderedRecord, Tracker};
use unwinder::{StackEnd, Unwinder};

use super::copy_size::CopySize;
use super::early::{self, FoundBy};
use super::encoding::encode;
use super::execs::Execs;
use super::fresh_maps::FreshMaps;
use super::in_order::Layouts;
use super::ordered::OrderedConsumer;
use super::totals::StackTotals;
use crate::census::Census;

/// After a stack was cut, this many further ones are noted where they are complete, for those that will be cut. So it is at the
/// beginning, when the size of the copies is not settled.
const NOTED_STACKS: u32 = 64;

/// Everything that unwinding needs beside a tracker at the moment of the record whose turn it is.
#[derive(Debug)]
pub(super) struct Machine {
    maps_cache: ProcessMapsCache,
    pub(super) walker: StackWalker,
    pub(super) totals: StackTotals,
    pub(super) copy_size: CopySize,
    pub(super) mechanisms: Mechanisms,
    pub(super) execs: Execs,
    fresh_maps: FreshMaps,
    /// Stacks to come that are noted.
    noted_stacks: u32,
    chain: Vec<u64>,
    chain_bytes: Vec<u8>,
    census: Census,
}

/// A sample whose turn it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turn<'l> {
    pub(super) time: Timestamp,
    pub(super) event: EventIndex,
    pub(super) layouts: &'l Layouts,
}

/// While recording there is no time for large files: compressed tables of call frames (`.debug_frame`) of programs in Go have
/// some megabytes.
fn limits() -> ObjectLimits {
    ObjectLimits { unpacked: UnpackBudget::new(16 << 20, 64 << 20), checksummed_bytes: 16 << 20 }
}

impl Machine {
    /// Before any record.
    pub(super) fn new(mechanisms: Mechanisms) -> Self {
        let store = ObjectStore::new(SearchPaths::from_environment(None, Vec::new(), true));
        let store = Arc::new(store.with_limits(limits()));
        let owners = DumpOwners::new(|pid| host::procfs::life(pid).ok());
        Self {
            // Records have times of the clock that dumps have.
            maps_cache: ProcessMapsCache::new(store).with_dumps(owners, true),
            walker: StackWalker::new(Unwinder::FRAME_LIMIT, mechanisms),
            totals: StackTotals::default(),
            copy_size: CopySize::default(),
            mechanisms,
            execs: Execs::default(),
            fresh_maps: FreshMaps::default(),
            noted_stacks: NOTED_STACKS,
            chain: Vec::new(),
            chain_bytes: Vec::new(),
            census: Census::default(),
        }
    }

    /// Hands a sample on with its user stack unwound.
    pub(super) fn unwind(
        &mut self,
        sample: Sample<'_>,
        turn: Turn<'_>,
        consumer: &mut impl OrderedConsumer,
    ) -> io::Result<()> {
        self.chain.clear();
        self.chain.extend(kernel_part(&sample));
        match (self.user_state(&sample, consumer.tracker()), sample.thread) {
            (Some(state), Some((pid, _))) => self.unwind_now(&sample, pid, &state, turn, consumer)?,
            // There is none, or it is a 32-bit one, which is left to the kernel's walk.
            _ => {
                self.totals.without_stack += 1;
                self.totals.of_32_bits += u64::from(is_of_32_bits(&sample));
                if !self.has_left_its_program(&sample, consumer.tracker()) {
                    self.chain.extend(user_part(&sample));
                }
            }
        }
        self.hand_on(Sample { user_registers: None, user_stack: None, ..sample }, turn, consumer)
    }

    fn unwind_now(
        &mut self,
        sample: &Sample<'_>,
        pid: Pid,
        state: &UserState<'_>,
        turn: Turn<'_>,
        consumer: &mut impl OrderedConsumer,
    ) -> io::Result<()> {
        let maps = self.maps_cache.of(consumer.tracker(), pid);
        let (newer, start) = (OnceCell::new(), self.chain.len());
        let mut sampled = SampledStack { sample, pid, state, maps: &maps };
        let mut unwound = self.walker.walk(&sampled, &mut self.chain);
        if let (Some(missing), Some(now)) = (self.walker.stack().unmapped, sample.time)
            && self.mechanisms.contains(Mechanisms::FRESH_MAPS)
        {
            let (place, layout) = ((pid, missing), &turn.layouts.recorded);
            if let Some(records) = self.fresh_maps.look(place, now, layout, consumer.tracker()) {
                hand_on_records(&records, now, consumer)?;
                let maps = newer.get_or_init(|| self.maps_cache.of(consumer.tracker(), pid));
                sampled = SampledStack { maps, ..sampled };
                self.chain.truncate(start);
                unwound = self.walker.walk(&sampled, &mut self.chain);
            }
        }
        self.note_copy(pid, state, unwound.end);
        if unwound.end != StackEnd::Complete && self.walker.goes_on() {
            unwound = self.walker.finish(&sampled, &mut self.chain, start);
        }
        self.totals.count(unwound.end, unwound.late);
        Ok(())
    }

    /// Says a sample that is still in its ring shorter, by its whole call chain, where that takes no time.
    pub(super) fn shrink(
        &mut self,
        sample: &Sample<'_>,
        layouts: &Layouts,
        until: Instant,
        tracker: &mut Tracker,
        into: &mut Vec<u8>,
    ) -> bool {
        if !self.mechanisms.contains(Mechanisms::IN_RING) {
            return false;
        }
        let state = native().and_then(|architecture| UserState::of(sample, architecture));
        let (Some(state), Some((pid, _))) = (state, sample.thread) else { return false };
        let Some((generation, maps)) = self.maps_cache.unchanged(tracker, pid) else {
            return false;
        };
        let sampled = SampledStack { sample, pid, state: &state, maps: &maps };
        self.chain.clear();
        self.chain.extend(kernel_part(sample));
        let Some(unwound) = self.walker.walk_at_once(&sampled, until, &mut self.chain) else { return false };
        let start = into.len();
        encode(self.with_chain(*sample, layouts), &layouts.written, into);
        let found_by = FoundBy { pid, generation: generation.as_u64(), late: unwound.late };
        if into.len() == start || !early::note(into, start, found_by) {
            into.truncate(start);
            return false;
        }
        self.note_copy(pid, &state, self.walker.stack().end);
        true
    }

    /// The stack found last ends so in its copy.
    fn note_copy(&mut self, pid: Pid, state: &UserState<'_>, end: StackEnd) {
        // One that is not full ends where the stack does, or where a page of it is missing.
        let too_small = end == StackEnd::Truncated(TruncationReason::CopyTooSmall)
            && self.copy_size.is_full(state.stack.bytes.len());
        self.copy_size.note_stack((!too_small).then_some(self.depth(state)));
        self.noted_stacks = if too_small { NOTED_STACKS } else { self.noted_stacks.saturating_sub(1) };
        if end == StackEnd::Complete && self.noted_stacks > 0 {
            self.walker.note(pid);
        }
    }

    /// Hands on a sample whose stack was found in the ring: now its turn has come. False where it cannot be decoded.
    pub(super) fn pass_early(
        &mut self,
        early: &RawRecord<'_>,
        turn: Turn<'_>,
        consumer: &mut impl OrderedConsumer,
    ) -> io::Result<bool> {
        let Some((raw, FoundBy { pid, generation, late })) = early::without_note(early) else {
            return Ok(false);
        };
        let mut end = StackEnd::Complete;
        if consumer.tracker().recorded_generation(pid).as_u64() == generation {
            let event = Some(turn.event);
            consumer.record(turn.time, OrderedRecord { raw, event, offset: None })?;
        } else {
            let Ok(sample) = turn.layouts.written.decode_sample(&raw) else { return Ok(false) };
            let maps = self.maps_cache.of(consumer.tracker(), pid);
            self.chain.clear();
            self.chain.extend(kernel_part(&sample));
            if !early::extend_within(&maps.space, &sample, &mut self.chain) {
                end = StackEnd::Truncated(TruncationReason::MappingUnknown);
            }
            self.hand_on(sample, turn, consumer)?;
        }
        self.totals.count(end, late);
        Ok(true)
    }

    /// The user side of a thread that has one: while exec has taken the program away with its stack, and not yet started the
    /// next, it has none.
    fn user_state<'a>(&self, sample: &Sample<'a>, tracker: &Tracker) -> Option<UserState<'a>> {
        let state = UserState::with_any_copy(sample, native()?)?;
        (!state.stack.bytes.is_empty() || !self.has_left_its_program(sample, tracker)).then_some(state)
    }

    /// Of a thread of which no stack was copied.
    fn has_left_its_program(&self, sample: &Sample<'_>, tracker: &Tracker) -> bool {
        !is_of_32_bits(sample) && (names_no_mapping(sample, tracker) || self.execs.follow(sample))
    }

    /// The number of bytes of its copy that the stack found last needed.
    fn depth(&self, state: &UserState<'_>) -> u64 {
        let frames = &self.walker.stack().frames;
        frames.last().map_or(0, |frame| frame.stack_pointer.wrapping_sub(state.stack.start))
    }

    /// Returns the list of [`ProcessMapsCache::refused_tables`].
    pub(super) fn refused_tables(&self) -> RefusedTables {
        self.maps_cache.refused_tables()
    }

    /// Takes the pages of objects out of our memory until they are touched again.
    pub(super) fn give_back(&self) {
        self.maps_cache.give_back();
    }

    /// Forgets what is no more, and lets the tracker do so: a recording may go on for days.
    pub(super) fn forget(&mut self, tracker: &mut Tracker) {
        self.census.take(tracker);
        self.maps_cache.forget_ended(tracker);
    }

    /// Lets the tracker forget spaces that no object here is of.
    pub(super) fn forget_spaces(&self, consumer: &mut impl OrderedConsumer) {
        consumer.forget_spaces(&|space| self.maps_cache.know(space));
    }

    /// Hands on a sample with its raw stack, without what the kernel found of the user's chain.
    pub(super) fn keep(
        &mut self,
        sample: Sample<'_>,
        turn: Turn<'_>,
        consumer: &mut impl OrderedConsumer,
    ) -> io::Result<()> {
        self.chain.clear();
        self.chain.extend(kernel_part(&sample));
        self.hand_on(sample, turn, consumer)
    }

    fn hand_on(
        &mut self,
        sample: Sample<'_>,
        turn: Turn<'_>,
        consumer: &mut impl OrderedConsumer,
    ) -> io::Result<()> {
        let sample = self.with_chain(sample, turn.layouts);
        consumer.sample(turn.time, turn.event, sample)
    }

    /// The sample with the call chain that was found.
    fn with_chain<'s>(&'s mut self, sample: Sample<'s>, layouts: &Layouts) -> Sample<'s> {
        stacks::cut(&mut self.chain, layouts.most_addresses);
        Sample { callchain: Some(native_bytes(&self.chain, &mut self.chain_bytes)), ..sample }
    }
}

/// Hands on records that were made here.
fn hand_on_records(
    mut records: &[u8],
    time: Timestamp,
    consumer: &mut impl OrderedConsumer,
) -> io::Result<()> {
    while let Ok((raw, size)) = RawRecord::parse(records, Endian::NATIVE) {
        records = records.get(size..).unwrap_or_default();
        consumer.record(time, OrderedRecord { raw, event: None, offset: None })?;
    }
    Ok(())
}

/// The addresses of a chain as a record has them, in `bytes`.
fn native_bytes<'b>(chain: &[u64], bytes: &'b mut Vec<u8>) -> U64s<'b> {
    bytes.clear();
    bytes.extend(chain.iter().flat_map(|address| address.to_ne_bytes()));
    U64s::new(bytes, Endian::NATIVE)
}
