//! Unwinds the user stacks of samples, in the order of time, with the mappings that their processes had at that time.

use std::cell::OnceCell;
use std::io;
use std::sync::Arc;
use std::time::Instant;

use decoder::values::U64s;
use decoder::{Endian, RawRecord, Sample};
use elf::UnpackBudget;
use host::dump_files::DumpFiles;
use host::live_processes::LiveProcesses;
use host::objects::{BlockBytes, ObjectLimits, ObjectStore, SearchPaths};
use model::{EventIndex, Pid, Tid, Timestamp, TruncationReason};
use stacks::{
    MappedRuntime, Mechanisms, ProcessMaps, ProcessMapsCache, RefusedTables, SampledStack, StackWalker,
    UserState, extend_by_walk, is_32_bit, is_outside_mappings, kernel_part, link_register,
    native_architecture, user_part,
};
use tracker::{OrderedRecord, Tracker};
use unwinder::{StackEnd, Unwinder};

use super::chunk_encoder::encode;
use super::exec_times::ExecTimes;
use super::fresh_maps::FreshMaps;
use super::layouts::Layouts;
use super::ordered_consumer::OrderedConsumer;
use super::totals::StackTotals;
use super::unwound_sample::{StackWords, UnwoundSample, extend_within};
use crate::consumer::Chunk;
use crate::early_rounds::EarlyRounds;
use crate::javascript_stacks::{JavaScriptSample, JavaScriptStacks};
use crate::mapped_files::MappedFiles;
use crate::processes::DeadProcessSweep;
use crate::python_stacks::{PythonSample, PythonStacks};
use crate::round_memory::RoundMemory;

/// The state of unwinding, beside a tracker that is at the record to be unwound.
#[derive(Debug)]
pub(super) struct SampleUnwinder {
    maps_cache: ProcessMapsCache,
    pub(super) walker: StackWalker,
    pub(super) totals: StackTotals,
    pub(super) mechanisms: Mechanisms,
    pub(super) exec_times: ExecTimes,
    fresh_maps: FreshMaps,
    pub(super) files: MappedFiles,
    pub(super) python: PythonStacks,
    pub(super) javascript: JavaScriptStacks,
    /// The memory that `python` and `javascript` read.
    pub(super) memory: RoundMemory,
    /// Early rounds for what is read in running processes: callers beyond copies, and functions of interpreters.
    pub(super) early_rounds: EarlyRounds,
    /// The call chain of the sample at hand, and its bytes in the recorded byte order.
    chain: Vec<u64>,
    chain_bytes: Vec<u8>,
    dead_process_sweep: DeadProcessSweep,
    /// The length of SVE vectors, in units of 8 bytes, in samples without it: only events of a PMU have it, since Linux 6.1.
    default_vector_granules: Option<u64>,
}

/// The time, event and layouts of the sample that is next in the order of time.
#[derive(Clone, Copy, Debug)]
pub(super) struct SampleContext<'l> {
    pub(super) time: Timestamp,
    pub(super) event: EventIndex,
    pub(super) layouts: &'l Layouts,
}

/// The limits for unpacking sections and checksumming files. While recording there is no time for large ones; 16 MiB are enough
/// for the compressed tables of call frames (`.debug_frame`) of programs in Go, which have some megabytes.
fn limits() -> ObjectLimits {
    ObjectLimits { unpacked: UnpackBudget::new(16 << 20, 64 << 20), checksummed_bytes: 16 << 20 }
}

impl SampleUnwinder {
    pub(super) fn new(mechanisms: Mechanisms) -> Self {
        let store = ObjectStore::<BlockBytes>::new(SearchPaths::from_environment(None, Vec::new(), true));
        let store = Arc::new(store.with_limits(limits()));
        let dumps = DumpFiles::new(|pid| host::procfs::life(pid).ok());
        // True: the timestamps of records and of jitdumps are on the same clock.
        let maps_cache = ProcessMapsCache::new(store).with_dumps(dumps, true);
        Self {
            maps_cache: maps_cache.with_interpreters(mechanisms),
            walker: StackWalker::new(Unwinder::FRAME_LIMIT, mechanisms),
            totals: StackTotals::default(),
            mechanisms,
            exec_times: ExecTimes::default(),
            fresh_maps: FreshMaps::default(),
            files: MappedFiles::default(),
            python: PythonStacks::new(false),
            javascript: JavaScriptStacks::new(false),
            memory: RoundMemory::default(),
            early_rounds: EarlyRounds::default(),
            chain: Vec::new(),
            chain_bytes: Vec::new(),
            dead_process_sweep: DeadProcessSweep::default(),
            default_vector_granules: host::machine::default_vector_granules(),
        }
    }

    /// Unwinds the user stack of a sample, and forwards the sample without its registers and stack copy.
    pub(super) fn unwind(
        &mut self,
        sample: Sample<'_>,
        context: SampleContext<'_>,
        consumer: &mut impl OrderedConsumer,
    ) -> io::Result<()> {
        self.chain.clear();
        self.chain.extend(kernel_part(&sample));
        match (self.user_state(&sample, consumer.tracker()), sample.thread) {
            (Some(state), Some((pid, _))) => {
                self.unwind_user_stack(&sample, pid, &state, context, consumer)?
            }
            // The thread has no user stack, or one of 32 bits, for which the kernel's walk has to do.
            _ => {
                self.totals.without_stack += 1;
                self.totals.of_32_bits += u64::from(is_32_bit(&sample));
                if !self.has_left_its_program(&sample, consumer.tracker()) {
                    extend_by_walk(&sample, context.layouts.kernels_limit, &mut self.chain);
                }
                stacks::truncate_chain(&mut self.chain, context.layouts.max_addresses);
            }
        }
        self.forward(Sample { user_registers: None, user_stack: None, ..sample }, context, consumer)
    }

    /// Forwards a sample that the kernel has walked by frame pointers, without its registers: with the caller of a leaf function, which lies
    /// in the link register and not on the stack.
    pub(super) fn add_leaf_caller(
        &mut self,
        sample: Sample<'_>,
        context: SampleContext<'_>,
        consumer: &mut impl OrderedConsumer,
    ) -> io::Result<()> {
        self.chain.clear();
        self.chain.extend(kernel_part(&sample));
        let start = self.chain.len();
        extend_by_walk(&sample, context.layouts.kernels_limit, &mut self.chain);
        let link = native_architecture()
            .and_then(|architecture| Some((architecture, link_register(&sample, architecture)?)));
        if let (Some((architecture, link)), Some((pid, _))) = (link, sample.thread) {
            let maps = self.maps_cache.get(consumer.tracker(), pid);
            self.walker.insert_leaf_caller(architecture, &maps, link, &mut self.chain, start);
        }
        stacks::truncate_chain(&mut self.chain, context.layouts.max_addresses);
        self.forward(Sample { user_registers: None, ..sample }, context, consumer)
    }

    /// Appends the user stack to the chain, after reading the mappings of the process again where that may help.
    fn unwind_user_stack(
        &mut self,
        sample: &Sample<'_>,
        pid: Pid,
        state: &UserState<'_>,
        context: SampleContext<'_>,
        consumer: &mut impl OrderedConsumer,
    ) -> io::Result<()> {
        let maps = self.maps_cache.get(consumer.tracker(), pid);
        let (newer, start) = (OnceCell::new(), self.chain.len());
        let mut sampled = SampledStack { sample, pid, state, maps: &maps };
        let interpreter = maps.interpreter();
        let mut unwound = self.walker.walk(&sampled, &mut self.chain);
        if interpreter.is_none() && maps.interpreter().is_some() {
            // The walk has opened its object. Now its frames are known.
            self.chain.truncate(start);
            unwound = self.walker.walk(&sampled, &mut self.chain);
        }
        if let (Some(missing), Some(now)) = (self.walker.stack().unmapped, sample.time)
            && self.mechanisms.contains(Mechanisms::FRESH_MAPS)
        {
            let (address, layout) = ((pid, missing), &context.layouts.recorded);
            let tracker = consumer.tracker();
            if let Some(records) = self.fresh_maps.reread(address, now, layout, tracker, &self.files) {
                forward_records(&records, now, consumer)?;
                let maps = newer.get_or_init(|| self.maps_cache.get(consumer.tracker(), pid));
                sampled = SampledStack { maps, ..sampled };
                self.chain.truncate(start);
                unwound = self.walker.walk(&sampled, &mut self.chain);
            }
        }
        if unwound.end != StackEnd::Complete && self.walker.exceeds_copy() {
            unwound = self.walker.walk_beyond_copy(&sampled, &LiveProcesses, &mut self.chain, start);
            // The last stacks of a process are read before it has ended.
            self.early_rounds.want();
        }
        if unwound.end == StackEnd::Truncated(TruncationReason::CopyTooSmall)
            && !context.layouts.is_full(state.stack.bytes.len())
            && let Some(mark) = self.chain.last_mut()
        {
            let reason = TruncationReason::PageNotInMemory;
            (unwound.end, *mark) = (StackEnd::Truncated(reason), reason.marker());
        }
        let mut is_named = true;
        if let Some(runtime) = sampled.maps.interpreter() {
            let words = StackWords::of(&self.walker, &sampled, &runtime);
            let at = (pid, state.thread, context.time);
            let of = (&*runtime, &words);
            is_named = self.name_functions(at, sampled.maps, of, start, context.layouts, consumer)?;
        }
        // The kernel's part counts, too.
        let limit = context.layouts.max_addresses;
        if stacks::truncate_chain(&mut self.chain, limit) {
            unwound.end = StackEnd::Truncated(TruncationReason::AddressLimit(limit));
        }
        self.totals.count(unwound.end, unwound.beyond_copy, is_named);
        Ok(())
    }

    /// Unwinds a sample while it is still in its ring. Appends it to `into` as an [`UnwoundSample`] and returns true, or leaves `into`
    /// unchanged and returns false: where the stack is not complete by its copy, or needs objects that cannot
    /// be opened until about `until`.
    pub(super) fn shrink(
        &mut self,
        sample: &Sample<'_>,
        layouts: &Layouts,
        until: Instant,
        tracker: &mut Tracker,
        into: &mut Chunk,
    ) -> bool {
        if !self.mechanisms.contains(Mechanisms::IN_RING) {
            return false;
        }
        let state =
            native_architecture().and_then(|architecture| UserState::from_sample(sample, architecture));
        let (Some(mut state), Some((pid, _))) = (state, sample.thread) else { return false };
        self.complete_registers(&mut state);
        let Some((generation, maps)) = self.maps_cache.get_unchanged(tracker, pid) else {
            return false;
        };
        let sampled = SampledStack { sample, pid, state: &state, maps: &maps };
        let is_over = || Instant::now() >= until;
        self.chain.clear();
        self.chain.extend(kernel_part(sample));
        if !self.walker.walk_within(&sampled, &is_over, &mut self.chain) {
            return false;
        }
        if stacks::truncate_chain(&mut self.chain, layouts.max_addresses) {
            // It is no longer complete, which is counted when its turn comes.
            return false;
        }
        let offset = into.bytes.len();
        encode(self.with_chain(*sample), &layouts.written, &mut into.bytes);
        if into.bytes.len() == offset {
            return false;
        }
        let words_of = |runtime: Arc<MappedRuntime>| StackWords::of(&self.walker, &sampled, &runtime);
        let words = maps.interpreter().map(words_of).unwrap_or_default();
        into.unwound.push(UnwoundSample { offset, pid, generation, words });
        true
    }

    /// Forwards a sample that was unwound in its ring, now that its turn has come. Where the process has other mappings than it
    /// was unwound with, ends its chain at the first address that is not in code any more. Returns false where the sample cannot
    /// be decoded.
    pub(super) fn forward_unwound(
        &mut self,
        raw: RawRecord<'_>,
        unwound: &UnwoundSample,
        context: SampleContext<'_>,
        consumer: &mut impl OrderedConsumer,
    ) -> io::Result<bool> {
        let UnwoundSample { pid, generation, words, .. } = unwound;
        let (mut end, mut is_named) = (StackEnd::Complete, true);
        let is_unchanged = consumer.tracker().recorded_generation(*pid) == *generation;
        if is_unchanged && words.is_empty() {
            let event = Some(context.event);
            consumer.record(context.time, OrderedRecord { raw, event, offset: None })?;
        } else {
            let Ok(sample) = context.layouts.written.decode_sample(&raw) else { return Ok(false) };
            let maps = self.maps_cache.get(consumer.tracker(), *pid);
            self.chain.clear();
            self.chain.extend(kernel_part(&sample));
            let start = self.chain.len();
            if is_unchanged {
                self.chain.extend(user_part(&sample));
            } else if !extend_within(&maps.space, &sample, &mut self.chain) {
                end = StackEnd::Truncated(TruncationReason::MappingUnknown);
            }
            if let Some(runtime) = maps.interpreter() {
                let at = (*pid, sample.thread.map_or(Tid(0), |(_, tid)| tid), context.time);
                let of = (&*runtime, words);
                is_named = self.name_functions(at, &maps, of, start, context.layouts, consumer)?;
                let limit = context.layouts.max_addresses;
                if stacks::truncate_chain(&mut self.chain, limit) {
                    end = StackEnd::Truncated(TruncationReason::AddressLimit(limit));
                }
            }
            self.forward(sample, context, consumer)?;
        }
        self.totals.count(end, false, is_named);
        Ok(true)
    }

    /// Puts the functions that an interpreter ran into the user part of the chain, which begins at `start`, and forwards records of those that
    /// are new. Returns false where some are not known.
    fn name_functions(
        &mut self,
        (pid, tid, time): (Pid, Tid, Timestamp),
        maps: &ProcessMaps,
        (runtime, words): (&MappedRuntime, &StackWords),
        start: usize,
        layouts: &Layouts,
        consumer: &mut impl OrderedConsumer,
    ) -> io::Result<bool> {
        let mut records = Vec::new();
        let (tracker, chain) = (consumer.tracker(), (&mut self.chain, start));
        let layout = &layouts.recorded;
        let is_named = match runtime {
            MappedRuntime::Python(interpreter) => {
                let activations = &words.activations;
                let sample = PythonSample { pid, tid, time, maps, interpreter, activations };
                self.python.rewrite(&sample, &self.memory, tracker, layout, chain, &mut records)
            }
            MappedRuntime::JavaScript(v8) => {
                let sample = JavaScriptSample { pid, time, maps, v8, words: &words.javascript };
                self.javascript.rewrite(&sample, &self.memory, tracker, layout, chain, &mut records)
            }
        };
        if !is_named || std::mem::take(&mut self.python.has_begun_to_look) {
            self.early_rounds.want();
        }
        forward_records(&records, time, consumer)?;
        Ok(is_named)
    }

    /// Returns the user registers and the stack copy of a sample; `None` where there are none, or the thread is in an exec that
    /// has freed the old program with its stack and not started the new one yet.
    fn user_state<'a>(&self, sample: &Sample<'a>, tracker: &Tracker) -> Option<UserState<'a>> {
        let mut state = UserState::from_sample_with_any_copy(sample, native_architecture()?)?;
        self.complete_registers(&mut state);
        (!state.stack.bytes.is_empty() || !self.has_left_its_program(sample, tracker)).then_some(state)
    }

    /// Sets the length of vectors in a sample that lacks it.
    fn complete_registers(&self, state: &mut UserState<'_>) {
        let register = state.registers.architecture().vector_granule();
        if let (Some(register), Some(granules)) = (register, self.default_vector_granules)
            && state.registers.get(register).is_none()
        {
            state.registers.set(register, granules);
        }
    }

    /// Returns true if the thread of a sample without a stack copy has left its program: by exec, or because it has ended.
    fn has_left_its_program(&self, sample: &Sample<'_>, tracker: &Tracker) -> bool {
        !is_32_bit(sample) && (is_outside_mappings(sample, tracker) || self.exec_times.is_in_exec(sample))
    }

    /// Returns the list of [`ProcessMapsCache::refused_tables`].
    pub(super) fn refused_tables(&self) -> RefusedTables {
        self.maps_cache.refused_tables()
    }

    /// Releases the pages of mapped objects; they are read again when they are touched.
    pub(super) fn release_object_pages(&self) {
        self.maps_cache.release_caches();
    }

    /// Forgets ended processes, here and in the tracker: a recording may go on for days.
    pub(super) fn forget_ended(&mut self, tracker: &mut Tracker) {
        self.dead_process_sweep.run_if_due(tracker);
        self.python.forget_ended(tracker);
        self.javascript.forget_ended(tracker);
        self.maps_cache.forget_ended(tracker);
    }

    /// Lets the tracker forget spaces, except those of objects that are open here.
    pub(super) fn forget_spaces(&self, consumer: &mut impl OrderedConsumer) {
        consumer.forget_spaces(&|space| self.maps_cache.has_object(space));
    }

    /// Forwards a sample with its registers and stack copy, and only the kernel part of its call chain.
    pub(super) fn forward_with_copy(
        &mut self,
        sample: Sample<'_>,
        context: SampleContext<'_>,
        consumer: &mut impl OrderedConsumer,
    ) -> io::Result<()> {
        self.chain.clear();
        self.chain.extend(kernel_part(&sample));
        self.forward(sample, context, consumer)
    }

    /// Forwards a sample with `self.chain` as its call chain.
    fn forward(
        &mut self,
        sample: Sample<'_>,
        context: SampleContext<'_>,
        consumer: &mut impl OrderedConsumer,
    ) -> io::Result<()> {
        let sample = self.with_chain(sample);
        consumer.sample(context.time, context.event, sample)
    }

    /// Returns the sample with `self.chain` as its call chain.
    fn with_chain<'s>(&'s mut self, sample: Sample<'s>) -> Sample<'s> {
        Sample { callchain: Some(native_bytes(&self.chain, &mut self.chain_bytes)), ..sample }
    }
}

/// Forwards records that the recorder has made.
fn forward_records(
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

/// Encodes the addresses of a chain in the machine's byte order, into `bytes`.
fn native_bytes<'b>(chain: &[u64], bytes: &'b mut Vec<u8>) -> U64s<'b> {
    bytes.clear();
    bytes.extend(chain.iter().flat_map(|address| address.to_ne_bytes()));
    U64s::new(bytes, Endian::NATIVE)
}
