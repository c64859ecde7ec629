//! Puts the records of all rings into the order of time, and unwinds the stack copies of samples.
//!
//! ```text
//! chunks ─▶ time order (by rounds) ─▶ sideband, samples without raw stacks ─────▶ consumer, which tracks
//!                                 └─▶ samples with raw stacks ─▶ unwind ────────┘
//! ```
//!
//! The consumer gets a recording without raw stacks: its attrs ask for none, and its samples have call chains.

use std::collections::HashMap;
use std::io;
use std::time::{Duration, Instant};

use decoder::values::U64s;
use decoder::{AttrFlags, Endian, RawRecord, Record, RecordLayout, Sample, SampleFormat, kind, misc};
use model::{EventIndex, Loss, Timestamp, TruncationReason};
use rustc_hash::FxBuildHasher;
use stacks::{MAX_CHAIN_ADDRESSES, Mechanisms, RefusedTables, StackWalker, kernel_part, user_part};
use tracker::{OrderedRecord, Orderer};
use unwinder::StackEnd;

use super::layouts::{Layouts, max_chain_addresses};
use super::ordered_consumer::OrderedConsumer;
use super::pending::{Action, PendingRecords, RecordHandle};
use super::sample_unwinder::{SampleContext, SampleUnwinder};
use super::totals::StackTotals;
use super::unwound_sample::UnwoundSample;
use crate::consumer::{Chunk, Consumer, Ending, Recording, RecordingSink};
use crate::javascript_stacks::JavaScriptStacks;
use crate::python_stacks::PythonStacks;

/// With more bytes than this pending, the stack copies of further samples are dropped; the samples themselves are not. As many bytes wait
/// between the readers of rings and the session.
pub(crate) const MAX_PENDING_BYTES: usize = 64 << 20;

/// Number of pending bytes above which the stage requests the next round early.
const HASTE_THRESHOLD_BYTES: usize = MAX_PENDING_BYTES / 8;

/// Where memory is scarce, a chunk is copied into memory of its size if it fills less than one part in this number of its own. With 4,
/// `record --overwrite -a` beside compilers spent half as much again on copying as without.
const SPARSE_CHUNK: usize = 64;

/// Where memory is scarce, the interval at which unused buffers and the pages of mapped objects are released: programs come and go, and of
/// each a few pages are read.
pub(crate) const RELEASE_INTERVAL: Duration = Duration::from_secs(5);

/// A consumer that forwards records in the order of time, and the samples among them with their stack copies unwound.
#[derive(Debug)]
pub struct UnwindingStage<C> {
    consumer: C,
    keep_stacks: bool,
    /// When the pages of objects were last released, where memory is scarce.
    pages_released: Option<Instant>,
    started: bool,
    /// The event of each id of the kernel.
    events: HashMap<u64, EventIndex, FxBuildHasher>,
    /// The layouts of each event.
    layouts: Vec<Layouts>,
    orderer: Orderer<RecordHandle>,
    pending: PendingRecords,
    unwinder: SampleUnwinder,
}

impl<C: OrderedConsumer> UnwindingStage<C> {
    /// Makes a stage that forwards to `consumer`. With `keep_stacks` it keeps registers and stack copies instead of unwinding them,
    /// and drops only the user part of the kernel's call chain.
    pub fn new(consumer: C, keep_stacks: bool, mechanisms: Mechanisms) -> Self {
        Self {
            consumer,
            keep_stacks,
            pages_released: None,
            started: false,
            events: HashMap::default(),
            layouts: Vec::new(),
            orderer: Orderer::default(),
            pending: PendingRecords::default(),
            unwinder: SampleUnwinder::new(mechanisms),
        }
    }

    /// Sets whether the frames of an interpreter stay in call chains beside the functions that it runs.
    #[must_use]
    pub fn with_interpreter_frames(mut self, stay: bool) -> Self {
        self.unwinder.python = PythonStacks::new(stay);
        self.unwinder.javascript = JavaScriptStacks::new(stay);
        self
    }

    /// Makes the stage keep less memory of earlier stacks, objects and chunks, for a view or a window that stays open for weeks.
    pub fn with_low_memory(self) -> Self {
        Self { pages_released: Some(Instant::now()), ..self }
    }

    /// Returns the consumer to which the stage forwards.
    pub fn consumer_mut(&mut self) -> &mut C {
        &mut self.consumer
    }

    /// Returns the totals of stacks so far.
    pub fn totals(&self) -> StackTotals {
        self.unwinder.totals
    }

    /// Returns the list of [`stacks::ProcessMapsCache::refused_tables`].
    pub fn refused_tables(&self) -> RefusedTables {
        self.unwinder.refused_tables()
    }

    fn has_stacks(&self) -> bool {
        self.layouts.iter().any(|layouts| layouts.has_stacks)
    }

    /// Returns true if the stage unwinds stacks, so that it has totals of them.
    fn unwinds(&self) -> bool {
        !self.keep_stacks && self.has_stacks()
    }

    /// Returns the smallest and the largest size that stack copies have, in bytes; `None` without copies.
    pub fn copy_sizes(&self) -> Option<(u32, u32)> {
        let sizes = || self.layouts.iter().map(|layouts| layouts.copy_size).filter(|size| *size > 0);
        sizes().min().zip(sizes().max())
    }

    /// Returns the recording as it is forwarded.
    fn written(&self, recording: &Recording) -> Recording {
        let mut written = recording.clone();
        for attr in written.events.iter_mut().map(|event| &mut event.attr) {
            if !self.keep_stacks
                && (attr.sample_format.has_stack_copies() || attr.sample_format.has_walk_and_registers())
            {
                attr.sample_format.remove(SampleFormat::REGS_USER | SampleFormat::STACK_USER);
                attr.sample_format.insert(SampleFormat::CALLCHAIN);
                attr.sample_regs_user = 0;
                attr.sample_stack_user = 0;
                // Readers then know that the kernel's limit has cut none of them.
                attr.sample_max_stack = max_chain_addresses(attr);
            }
        }
        written
    }

    /// Cuts a chunk into records, and puts them into order.
    fn push_chunk(&mut self, bytes: Vec<u8>, unwound: Vec<UnwoundSample>) {
        let Some(any) = self.layouts.last() else { return };
        let pending = &mut self.pending;
        let chunk = pending.push_chunk(bytes, unwound);
        let (mut offset, mut next_unwound) = (0, 0);
        // Their records are in chunks of their own, which cannot be added before this one is complete.
        let mut without_copies = Vec::new();
        loop {
            let handle = pending.push_record(offset, Action::Forward(None));
            let Ok((raw, size)) = RawRecord::parse(pending.bytes_from(handle), Endian::NATIVE) else {
                let cut_bytes = pending.bytes_from(handle).len() as u64;
                if cut_bytes > 0 {
                    self.consumer.add_loss(Loss { cut_bytes, ..Loss::default() });
                }
                pending.release(handle);
                break;
            };
            let event = any.recorded.id_of(&raw).and_then(|id| self.events.get(&id)).copied();
            let layouts = event.and_then(|event| self.layouts.get(event.0 as usize)).unwrap_or(any);
            let time = layouts.recorded.time_of(&raw).unwrap_or(Timestamp(0));
            let is_unwound =
                pending.unwound(chunk, next_unwound).is_some_and(|sample| sample.offset == offset);
            let is_completed = layouts.has_stacks || layouts.has_leaf_registers;
            let action = match event.filter(|_| raw.kind == kind::SAMPLE && is_completed) {
                Some(event) if is_unwound => Action::ForwardUnwound(event, next_unwound),
                Some(event) => Action::Unwind(event),
                None => Action::Forward(event),
            };
            if raw.kind == kind::COMM
                && raw.has(misc::COMM_EXEC)
                && let Ok(Record::Comm(comm)) = any.recorded.decode(&raw)
            {
                self.unwinder.exec_times.record(comm.tid, time);
                self.unwinder.early_rounds.want_first_samples();
            }
            if let Action::Unwind(event) = action
                && layouts.has_stacks
                && pending.bytes() > MAX_PENDING_BYTES
            {
                if let Ok(Record::Sample(sample)) = layouts.recorded.decode(&raw) {
                    let end = StackEnd::Truncated(TruncationReason::RecorderBehind);
                    self.unwinder.totals.count(end, false, true);
                    without_copies.push((time, event, without_stack(&sample, &layouts.written)));
                }
                pending.release(handle);
            } else {
                self.orderer.push(time, handle.with_action(action));
            }
            offset += size;
            next_unwound += u32::from(is_unwound);
        }
        pending.release(chunk);
        for (time, event, record) in without_copies {
            let chunk = pending.push_chunk(record, Vec::new());
            self.orderer.push(time, pending.push_record(0, Action::Forward(Some(event))));
            pending.release(chunk);
        }
    }

    /// Forwards the records that are in order, and unwinds the samples among them.
    fn forward_ordered(&mut self) -> io::Result<()> {
        self.unwinder.memory.forget();
        self.unwinder.totals.looks += self.unwinder.python.add_looks();
        let mut undecodable = 0;
        while let Some((time, handle)) = self.orderer.pop() {
            undecodable += u64::from(!self.forward(time, handle)?);
            self.pending.release(handle);
        }
        if undecodable > 0 {
            self.consumer.add_loss(Loss { undecodable, ..Loss::default() });
        }
        Ok(())
    }

    /// Forwards one record. Returns false where it cannot be decoded, and so not be written in another layout.
    fn forward(&mut self, time: Timestamp, handle: RecordHandle) -> io::Result<bool> {
        let Ok((raw, _)) = RawRecord::parse(self.pending.bytes_from(handle), Endian::NATIVE) else {
            return Ok(false);
        };
        let (unwinder, consumer) = (&mut self.unwinder, &mut self.consumer);
        let event = match handle.action {
            Action::Forward(event) => {
                consumer.record(time, OrderedRecord { raw, event, offset: None })?;
                return Ok(true);
            }
            Action::ForwardUnwound(event, _) | Action::Unwind(event) => event,
        };
        let Some(layouts) = self.layouts.get(event.0 as usize) else { return Ok(false) };
        let context = SampleContext { time, event, layouts };
        if let Action::ForwardUnwound(_, number) = handle.action {
            let Some(unwound) = self.pending.unwound(handle, number) else { return Ok(false) };
            return unwinder.forward_unwound(raw, unwound, context, consumer);
        }
        let Ok(sample) = layouts.recorded.decode_sample(&raw) else { return Ok(false) };
        if self.keep_stacks {
            unwinder.forward_with_copy(sample, context, consumer)?;
        } else if layouts.has_leaf_registers {
            unwinder.add_leaf_caller(sample, context, consumer)?;
        } else {
            unwinder.unwind(sample, context, consumer)?;
        }
        Ok(true)
    }
}

impl<C: OrderedConsumer> RecordingSink for UnwindingStage<C> {
    fn next(&mut self) -> Option<&mut dyn RecordingSink> {
        Some(&mut self.consumer)
    }

    fn begin(&mut self, recording: &Recording) -> io::Result<()> {
        self.unwinder.files = recording.files.clone();
        let attr = recording.events.first().map(|event| &event.attr);
        let has_clock = attr.filter(|attr| attr.flags.contains(AttrFlags::USE_CLOCKID));
        self.unwinder.python.set_clock(has_clock.map(|attr| attr.clockid));
        let attrs = recording.events.iter().map(|event| &event.attr);
        let unwound = attrs.filter(|attr| attr.sample_format.has_stack_copies());
        let max_addresses = unwound.map(max_chain_addresses).max();
        if let Some(max) = max_addresses.filter(|&max| max < MAX_CHAIN_ADDRESSES) {
            self.unwinder.walker = StackWalker::new(max, self.unwinder.mechanisms);
        }
        let written = self.written(recording);
        for (index, (event, written)) in recording.events.iter().zip(&written.events).enumerate() {
            let index = EventIndex(u32::try_from(index).unwrap_or(u32::MAX));
            self.events.extend(event.ids.iter().map(|&id| (id, index)));
            let members = recording
                .events
                .iter()
                .filter(|other| event.leader.is_some() && other.leader == event.leader);
            self.layouts.push(Layouts::new(&event.attr, &written.attr, members.count(), self.keep_stacks));
        }
        self.consumer.begin(&written)
    }

    fn started(&mut self) -> io::Result<()> {
        self.started = true;
        self.consumer.started()
    }

    fn finished_round(&mut self) -> io::Result<()> {
        self.orderer.finish_round();
        self.unwinder.early_rounds.begin_round();
        self.forward_ordered()?;
        if self.unwinds() {
            self.consumer.set_stack_totals(&self.unwinder.totals);
        }
        self.consumer.finished_round()?;
        self.unwinder.forget_spaces(&mut self.consumer);
        Ok(())
    }

    fn wants_round_soon(&mut self) -> bool {
        self.pending.bytes() > HASTE_THRESHOLD_BYTES
            || self.unwinder.early_rounds.is_due()
            || self.consumer.wants_round_soon()
    }

    fn checkpoint(&mut self) -> io::Result<()> {
        self.unwinder.forget_ended(self.consumer.tracker());
        if let Some(released) = &mut self.pages_released {
            self.unwinder.walker.trim_caches();
            if released.elapsed() >= RELEASE_INTERVAL {
                *released = Instant::now();
                self.unwinder.release_object_pages();
                self.pending.free_spare();
            }
        }
        self.consumer.checkpoint()
    }

    fn end(&mut self, ending: &Ending) -> io::Result<()> {
        self.orderer.finish();
        self.forward_ordered()?;
        let stacks = self.unwinds().then_some(self.unwinder.totals);
        self.consumer.end(&Ending { stacks, ..ending.clone() })
    }
}

impl<C: OrderedConsumer> Consumer for UnwindingStage<C> {
    fn consume(&mut self, chunk: Chunk) -> io::Result<Option<Vec<u8>>> {
        // The memory of a chunk is as large as a ring. Chunks that wait in much of it, and each use another part, add up.
        let is_sparse =
            self.pages_released.is_some() && chunk.bytes.len() < chunk.bytes.capacity() / SPARSE_CHUNK;
        let (bytes, emptied) = match is_sparse {
            true => (self.pending.copy(&chunk.bytes), Some(chunk.bytes)),
            false => (chunk.bytes, None),
        };
        self.push_chunk(bytes, chunk.unwound);
        if !self.started {
            self.forward_ordered()?;
        }
        Ok(emptied.or_else(|| self.pending.take_spare()))
    }

    fn shorten_sample(&mut self, sample: &[u8], until: Instant, into: &mut Chunk) -> bool {
        let Some(any) = self.layouts.last().filter(|_| !self.keep_stacks) else { return false };
        let Ok((raw, _)) = RawRecord::parse(sample, Endian::NATIVE) else { return false };
        let event = any.recorded.id_of(&raw).and_then(|id| self.events.get(&id));
        let layouts = event.and_then(|event| self.layouts.get(event.0 as usize));
        let Some(layouts) = layouts.filter(|layouts| layouts.has_stacks) else { return false };
        let decoded = layouts.recorded.decode_sample(&raw);
        let tracker = self.consumer.tracker();
        decoded.is_ok_and(|sample| self.unwinder.shrink(&sample, layouts, until, tracker, into))
    }
}

/// Encodes a sample without its stack copy: with the kernel part of its call chain, the user's instruction pointer, and the marker
/// [`TruncationReason::RecorderBehind`].
fn without_stack(sample: &Sample<'_>, written: &RecordLayout) -> Vec<u8> {
    // The context marker and the instruction pointer behind it.
    let user = user_part(sample).take(2);
    let chain: Vec<u64> =
        kernel_part(sample).chain(user).chain([TruncationReason::RecorderBehind.marker()]).collect();
    let bytes: Vec<u8> = chain.iter().flat_map(|address| address.to_ne_bytes()).collect();
    let mut out = Vec::new();
    let callchain = Some(U64s::new(&bytes, Endian::NATIVE));
    // Encoding fails only for records that are too large, and this one is smaller than the sample was.
    let _ = written.encode(&Record::Sample(Sample { callchain, ..*sample }), &mut out);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::consumer::{RecordedEvent, RingKind};
    use crate::notice::Notice;
    use crate::unwind::ChunkEncoder;
    use decoder::{Attr, ReadFormat};

    /// Counts samples and losses.
    #[derive(Default)]
    struct CountingConsumer {
        samples: usize,
        /// Records with names of threads.
        names: usize,
        loss: Loss,
    }

    impl RecordingSink for CountingConsumer {
        fn begin(&mut self, _: &Recording) -> io::Result<()> {
            Ok(())
        }

        fn started(&mut self) -> io::Result<()> {
            Ok(())
        }

        fn add_loss(&mut self, loss: Loss) {
            self.loss += loss;
        }

        fn finished_round(&mut self) -> io::Result<()> {
            Ok(())
        }

        fn take_notices(&mut self) -> Vec<Notice> {
            vec![Notice::LastFileIncomplete("the disk was full".to_owned())]
        }

        fn checkpoint(&mut self) -> io::Result<()> {
            Ok(())
        }

        fn end(&mut self, _: &Ending) -> io::Result<()> {
            Ok(())
        }
    }

    impl Consumer for CountingConsumer {
        fn consume(&mut self, chunk: Chunk) -> io::Result<Option<Vec<u8>>> {
            let count = |kind: u32| {
                let is_of_kind = |record: &&[u8]| crate::records::u32_at(record, 0) == Some(kind);
                crate::records::each(&chunk.bytes).filter(is_of_kind).count()
            };
            self.samples += count(kind::SAMPLE);
            self.names += count(kind::COMM);
            Ok(Some(chunk.bytes))
        }
    }

    fn recording() -> Recording {
        let attr = Attr {
            sample_format: SampleFormat::IDENTIFIER
                | SampleFormat::TIME
                | SampleFormat::CALLCHAIN
                | SampleFormat::REGS_USER
                | SampleFormat::STACK_USER,
            read_format: ReadFormat::ID,
            ..Attr::default()
        };
        let event = RecordedEvent {
            name: "cpu-clock".to_owned(),
            attr,
            ids: vec![7],
            sideband: false,
            leader: None,
            tracepoint: None,
        };
        let (events, cpus) = (vec![event], Vec::new());
        let (kernel, files, resources) = Default::default();
        Recording { events, cpus, ring_size: 1 << 20, kernel, files, resources }
    }

    fn sample(recording: &Recording, stack: &[u8]) -> Vec<u8> {
        let sample = Sample {
            identifier: Some(7),
            time: Some(Timestamp(1)),
            callchain: Some(U64s::new(&[], Endian::NATIVE)),
            user_registers: Some(decoder::values::Registers::new(0, 0, U64s::new(&[], Endian::NATIVE))),
            user_stack: Some(stack),
            ..Sample::default()
        };
        let layout = RecordLayout::new(&recording.events[0].attr, Endian::NATIVE);
        let mut bytes = Vec::new();
        layout.encode(&Record::Sample(sample), &mut bytes).unwrap();
        bytes
    }

    /// Returns the consumer and the totals after these chunks, all of one round.
    fn forwarded(
        recording: &Recording,
        chunks: impl IntoIterator<Item = Vec<u8>>,
    ) -> (CountingConsumer, StackTotals) {
        let mut consumer = CountingConsumer::default();
        let mut stage = UnwindingStage::new(ChunkEncoder::new(&mut consumer), false, Mechanisms::all());
        stage.begin(recording).unwrap();
        stage.started().unwrap();
        for bytes in chunks {
            stage.consume(Chunk::new(RingKind::Samples, bytes)).unwrap();
        }
        stage.end(&Ending::default()).unwrap();
        let totals = stage.totals();
        (consumer, totals)
    }

    #[test]
    fn samples_that_cannot_be_decoded_are_counted() {
        let recording = recording();
        let mut bytes = sample(&recording, &[]);
        let mut wrong = bytes.clone();
        // The length of the call chain: behind the header, the identifier and the time.
        wrong[24..32].copy_from_slice(&u64::MAX.to_ne_bytes());
        bytes.extend(wrong);
        let (consumer, _) = forwarded(&recording, [bytes]);
        assert_eq!((consumer.samples, consumer.loss.undecodable), (1, 1));
    }

    #[test]
    fn of_many_names_of_a_thread_the_last_before_another_record_stays() {
        let mut recording = recording();
        recording.events[0].attr.flags |= decoder::AttrFlags::SAMPLE_ID_ALL;
        let layout = RecordLayout::new(&recording.events[0].attr, Endian::NATIVE);
        let rename = |tid: i32| {
            let comm = decoder::record::Comm {
                pid: model::Pid(1),
                tid: model::Tid(tid),
                comm: b"name",
                exec: false,
                sample_id: decoder::SampleId { time: Some(Timestamp(1)), ..Default::default() },
            };
            let mut bytes = Vec::new();
            layout.encode(&Record::Comm(comm), &mut bytes).unwrap();
            bytes
        };
        let storm = [rename(1), rename(2)].concat().repeat(1000);
        let (consumer, _) = forwarded(&recording, [[&*storm, &sample(&recording, &[]), &storm].concat()]);
        assert_eq!((consumer.samples, consumer.names), (1, 4));
    }

    #[test]
    fn no_record_is_taken_for_a_sample_that_was_unwound() {
        let recording = recording();
        let records = [kind::LOST_SAMPLES, 255, 1 << 16, u32::MAX].map(|kind| {
            let mut record = sample(&recording, &[]);
            record[..4].copy_from_slice(&kind.to_ne_bytes());
            record
        });
        let (consumer, totals) = forwarded(&recording, [records.concat()]);
        assert_eq!((consumer.samples, totals), (0, StackTotals::default()));
    }

    #[test]
    fn what_is_known_of_unwound_samples_stays_theirs_where_records_are_removed() {
        let recording = recording();
        let one = sample(&recording, &[]);
        let generation = tracker::Tracker::new().recorded_generation(model::Pid(1));
        let unwound = |index: usize, pid: i32| UnwoundSample {
            offset: index * one.len(),
            pid: model::Pid(pid),
            generation,
            words: Default::default(),
        };
        let mut chunk = Chunk::new(RingKind::Samples, one.repeat(5));
        chunk.unwound = vec![unwound(1, 11), unwound(2, 12), unwound(4, 14)];
        let mut index = 0..5;
        assert_eq!(chunk.retain(|_| ![0, 2].contains(&index.next().unwrap())), 2);
        assert_eq!(chunk.bytes.len(), 3 * one.len());
        assert_eq!(chunk.unwound, [unwound(0, 11), unwound(2, 14)]);
    }

    #[test]
    fn notices_of_the_consumer_are_forwarded() {
        let mut consumer = CountingConsumer::default();
        let mut stage = UnwindingStage::new(ChunkEncoder::new(&mut consumer), false, Mechanisms::all());
        assert!(matches!(stage.take_notices().as_slice(), [Notice::LastFileIncomplete(_)]));
    }

    #[test]
    fn no_sample_is_lost_where_too_many_stacks_wait() {
        let recording = recording();
        let one = sample(&recording, &[0; 60_000]);
        let each = 20;
        let chunks = 2 * MAX_PENDING_BYTES / (each * one.len());
        let (consumer, totals) = forwarded(&recording, std::iter::repeat_n(one.repeat(each), chunks));
        assert_eq!((consumer.samples, consumer.loss), (each * chunks, Loss::default()));
        assert!(totals.truncated_by(TruncationReason::RecorderBehind) > 0, "{totals:?}");
    }
}
