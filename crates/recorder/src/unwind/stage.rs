//! Unwinding while recording: between the rings and the file.
//!
//! ```text
//! chunks ─▶ time order (by rounds) ─▶ sideband ─▶ tracker ──────────────▶ consumer
//!                                 └─▶ samples  ─▶ unwind ─▶ re-encode ──┘
//! ```
//!
//! What is handed on is a recording without raw stacks: its attrs have none, its samples carry call chains.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use decoder::values::U64s;
use decoder::{Endian, RawRecord, Record, RecordLayout, Sample, SampleFormat, context, kind};
use host::objects::{ObjectStore, SearchPaths};
use model::{Pid, Timestamp, TruncationReason};
use rustc_hash::FxBuildHasher;
use tracker::{Orderer, Tracker};
use unwinder::{NoMemory, StackEnd};

use super::chain::{ChainEnd, ChainUnwinder};
use super::copy_size::CopySize;
use super::fresh_maps::FreshMaps;
use super::held::{Handle, Held, Task};
use super::live_memory::{LiveMemory, Witness};
use super::sample::{UserState, is_of_32_bits, native};
use super::snapshot::Snapshots;
use super::tails::Tails;
use super::totals::StackTotals;
use crate::census::Census;
use crate::consumer::{Chunk, Consumer, Ending, RecordedEvent, Recording, RingKind};
use crate::ring::Drained;

/// More than this is not kept waiting: stack copies of further samples are dropped, the samples are not.
const MOST_HELD: usize = 64 << 20;

/// From here on what waits is wanted soon.
const MUCH_HELD: usize = MOST_HELD / 8;

/// After a stack was cut, this many further ones are wanted soon: their processes should still be what they were, where
/// memory beyond the copies is read. So it is at the beginning, when the size of the copies is not settled.
const HASTY_STACKS: u32 = 256;

/// A chunk that fills less than this part of its memory, one in so many, is copied where memory is dear.
const ROOMY: usize = 4;

/// Handed on at once.
const CHUNK: usize = 256 << 10;

/// Spaces beyond this are forgotten where nothing is mapped from them.
const MOST_SPACES: usize = 4096;

/// Addresses of one call chain, so that the record fits its 16-bit size with all its other parts.
const MOST_ADDRESSES: usize = 7_000;

/// A consumer that unwinds the user stacks of samples and hands the records on, in the order of time.
#[derive(Debug)]
pub struct Unwinding<C> {
    consumer: C,
    keep_stacks: bool,
    light: bool,
    started: bool,
    /// By the kernel's id.
    events: HashMap<u64, u32, FxBuildHasher>,
    layouts: Vec<Layouts>,
    orderer: Orderer<Handle>,
    held: Held,
    machine: Machine,
    out: Out,
}

/// How the samples of an event come, and how they are handed on.
#[derive(Debug)]
struct Layouts {
    recorded: RecordLayout,
    written: RecordLayout,
    has_stacks: bool,
    /// Of one call chain.
    most_addresses: usize,
}

/// The machine at the moment of the record whose turn it is, and what unwinding needs.
#[derive(Debug)]
struct Machine {
    tracker: Tracker,
    snapshots: Snapshots,
    unwinder: ChainUnwinder,
    tails: Tails,
    totals: StackTotals,
    copy_size: CopySize,
    fresh_maps: FreshMaps,
    /// Records of mappings found for the sample whose turn it is: they belong before it.
    fresh: Vec<u8>,
    /// Stacks to come that are wanted soon.
    hasty: u32,
    memory: Vec<u8>,
    chain: Vec<u64>,
    chain_bytes: Vec<u8>,
    census: Census,
    /// With more spaces than this, it is time to forget some.
    most_spaces: usize,
}

/// Records in order that are not handed on yet: all of one kind.
#[derive(Debug)]
struct Out {
    bytes: Vec<u8>,
    kind: RingKind,
}

impl<C: Consumer> Unwinding<C> {
    /// Unwinds what goes to `consumer`; with `keep_stacks`, raw stacks are kept instead, and only the kernel's view of
    /// the user's chain is dropped.
    pub fn new(consumer: C, keep_stacks: bool) -> Self {
        let store = Arc::new(ObjectStore::new(SearchPaths::from_environment(None, Vec::new(), true)));
        Self {
            consumer,
            keep_stacks,
            light: false,
            started: false,
            events: HashMap::default(),
            layouts: Vec::new(),
            orderer: Orderer::default(),
            held: Held::default(),
            machine: Machine {
                tracker: Tracker::new(),
                snapshots: Snapshots::new(store),
                unwinder: ChainUnwinder::default(),
                tails: Tails::default(),
                totals: StackTotals::default(),
                copy_size: CopySize::default(),
                fresh_maps: FreshMaps::default(),
                fresh: Vec::new(),
                hasty: HASTY_STACKS,
                memory: Vec::new(),
                chain: Vec::new(),
                chain_bytes: Vec::new(),
                census: Census::default(),
                most_spaces: MOST_SPACES,
            },
            out: Out { bytes: Vec::new(), kind: RingKind::Sideband },
        }
    }

    /// The same for a view that stays open ([`crate::Options::light`]): stacks that are deeper than their copy are seen to
    /// when their turn comes, not before, and rounds do not follow each other faster because of them.
    pub fn light(self) -> Self {
        Self { light: true, ..self }
    }

    /// The consumer behind.
    pub fn consumer(&self) -> &C {
        &self.consumer
    }

    /// How the stacks came out so far.
    pub fn totals(&self) -> StackTotals {
        self.machine.totals
    }

    /// The smallest and the largest size that stack copies had so far, bytes.
    pub fn copy_sizes(&self) -> (u32, u32) {
        self.machine.copy_size.chosen()
    }

    /// The recording as it is handed on.
    fn written(&self, recording: &Recording) -> Recording {
        let mut written = recording.clone();
        for attr in written.events.iter_mut().map(|event| &mut event.attr) {
            if !self.keep_stacks && has_stacks(attr.sample_format) {
                attr.sample_format.remove(SampleFormat::REGS_USER | SampleFormat::STACK_USER);
                attr.sample_format.insert(SampleFormat::CALLCHAIN);
                attr.sample_regs_user = 0;
                attr.sample_stack_user = 0;
            }
        }
        written
    }

    /// Whether stacks are seen to before their turn.
    fn is_hasty(&self) -> bool {
        self.machine.hasty > 0 && !self.light
    }

    /// Puts the records of a chunk into order.
    fn hold(&mut self, bytes: Vec<u8>) {
        let Some(any) = self.layouts.last() else { return };
        let mut rest = Held::default();
        std::mem::swap(&mut rest, &mut self.held);
        rest.begin(bytes);
        let mut offset = 0;
        let mut stripped = Vec::new();
        loop {
            let place = rest.add(offset, Task::Sideband);
            let Ok((raw, size)) = RawRecord::parse(rest.at(place), Endian::NATIVE) else {
                rest.release(place);
                break;
            };
            let event = any.recorded.id_of(&raw).and_then(|id| self.events.get(&id)).copied();
            let layouts = event.and_then(|event| self.layouts.get(event as usize)).unwrap_or(any);
            let time = layouts.recorded.time_of(&raw).unwrap_or(Timestamp(0));
            let task = match event {
                Some(event) if raw.kind == kind::SAMPLE && layouts.has_stacks => {
                    if self.is_hasty()
                        && !self.keep_stacks
                        && let Ok(Record::Sample(sample)) = layouts.recorded.decode(&raw)
                    {
                        self.machine.look_ahead(&sample);
                    }
                    Task::Unwind(event)
                }
                _ if raw.kind == kind::SAMPLE => Task::PassSample,
                _ => Task::Sideband,
            };
            if rest.bytes() > MOST_HELD && matches!(task, Task::Unwind(_)) {
                if let Ok(Record::Sample(sample)) = layouts.recorded.decode(&raw) {
                    self.machine.totals.count(StackEnd::Truncated(TruncationReason::RecorderBehind), false);
                    stripped.push((time, without_stack(&sample, &layouts.written)));
                }
                rest.release(place);
            } else {
                self.orderer.push(time, Held::with_task(place, task));
            }
            offset += size;
        }
        for (time, record) in stripped {
            rest.begin(record);
            self.orderer.push(time, rest.add(0, Task::PassSample));
        }
        self.held = rest;
    }

    /// Hands on what is ready.
    fn hand_on(&mut self) -> io::Result<()> {
        while let Some((_, handle)) = self.orderer.pop() {
            let Ok((raw, size)) = RawRecord::parse(self.held.at(handle), Endian::NATIVE) else { continue };
            let bytes = self.held.at(handle).get(..size).unwrap_or_default();
            let kind = if handle.task == Task::Sideband { RingKind::Sideband } else { RingKind::Samples };
            if self.out.kind != kind || self.out.bytes.len() >= CHUNK {
                self.out.flush(&mut self.consumer)?;
                self.out.kind = kind;
            }
            match handle.task {
                Task::Sideband => {
                    if let Some(layouts) = self.layouts.last()
                        && let Ok(record) = layouts.recorded.decode(&raw)
                    {
                        self.machine.tracker.apply(&record);
                    }
                    self.out.bytes.extend_from_slice(bytes);
                }
                Task::PassSample => self.out.bytes.extend_from_slice(bytes),
                Task::Unwind(event) => {
                    let layouts = self.layouts.get(event as usize);
                    match layouts.map(|layouts| (layouts, layouts.recorded.decode(&raw))) {
                        Some((layouts, Ok(Record::Sample(sample)))) if self.keep_stacks => {
                            self.machine.keep(sample, layouts, &mut self.out.bytes);
                        }
                        Some((layouts, Ok(Record::Sample(sample)))) => {
                            let start = self.out.bytes.len();
                            self.machine.unwind(sample, layouts, &mut self.out.bytes);
                            if !self.machine.fresh.is_empty() {
                                let sample = self.out.bytes.split_off(start);
                                self.out.flush(&mut self.consumer)?;
                                self.out.kind = RingKind::Sideband;
                                self.out.bytes.append(&mut self.machine.fresh);
                                self.out.flush(&mut self.consumer)?;
                                self.out.kind = RingKind::Samples;
                                self.out.bytes.extend(sample);
                            }
                        }
                        // What cannot be decoded cannot be written in another layout either.
                        _ => {}
                    }
                }
            }
            self.held.release(handle);
        }
        self.out.flush(&mut self.consumer)
    }
}

impl Out {
    fn flush(&mut self, consumer: &mut impl Consumer) -> io::Result<()> {
        if self.bytes.is_empty() {
            return Ok(());
        }
        let bytes = std::mem::take(&mut self.bytes);
        let chunk = Chunk { ring: self.kind, bytes, drained: Drained::default() };
        if let Some(mut bytes) = consumer.records(chunk)? {
            bytes.clear();
            self.bytes = bytes;
        }
        Ok(())
    }
}

impl Machine {
    /// Writes a sample with its user stack unwound.
    fn unwind(&mut self, sample: Sample<'_>, layouts: &Layouts, out: &mut Vec<u8>) {
        self.chain.clear();
        self.chain.extend(kernel_part(&sample));
        let state = native().and_then(|architecture| UserState::of(&sample, architecture));
        match (state, sample.thread) {
            (Some(state), Some((pid, tid))) => {
                let mut snapshot = self.snapshots.of(&mut self.tracker, pid);
                let kernels = self.chain.len();
                let mut unwound = self.unwinder.unwind(&snapshot, &state, &mut NoMemory, &mut self.chain);
                if let (Some(missing), Some(now)) = (self.unwinder.stack().unmapped, sample.time) {
                    let (place, layout) = ((pid, missing), &layouts.recorded);
                    if self.fresh_maps.look(place, now, layout, &mut self.tracker, &mut self.fresh) {
                        snapshot = self.snapshots.of(&mut self.tracker, pid);
                        self.chain.truncate(kernels);
                        unwound = self.unwinder.unwind(&snapshot, &state, &mut NoMemory, &mut self.chain);
                    }
                }
                let frames = &self.unwinder.stack().frames;
                let depth =
                    frames.last().map_or(0, |frame| frame.stack_pointer.wrapping_sub(state.stack.start));
                let too_small = unwound.end == StackEnd::Truncated(TruncationReason::CopyTooSmall);
                self.copy_size.note_stack((!too_small).then_some(depth));
                self.hasty = if too_small { HASTY_STACKS } else { self.hasty.saturating_sub(1) };
                let unwound = match unwound.end {
                    StackEnd::Complete => {
                        if self.hasty > 0 {
                            self.tails.note(tid, &self.unwinder.stack().frames);
                        }
                        unwound
                    }
                    StackEnd::Truncated(TruncationReason::CopyTooSmall) => {
                        self.complete_late(&sample, pid, tid, kernels, &state, &snapshot)
                    }
                    _ => unwound,
                };
                self.totals.count(unwound.end, unwound.late);
            }
            // There is none, or it is a 32-bit one, which is left to the kernel's walk.
            _ => {
                self.totals.without_stack += 1;
                self.totals.of_32_bits += u64::from(is_of_32_bits(&sample));
                self.chain.extend(user_part(&sample));
            }
        }
        self.write(sample, layouts, out);
    }

    /// Sees to a stack that is deeper than its copy before its turn comes, while the process is nearly where it was: the
    /// frames beyond are read and remembered. The mappings may still lack what came to be a moment ago.
    fn look_ahead(&mut self, sample: &Sample<'_>) {
        let state = native().and_then(|architecture| UserState::of(sample, architecture));
        let (Some(state), Some((pid, tid))) = (state, sample.thread) else { return };
        let snapshot = self.snapshots.of(&mut self.tracker, pid);
        self.chain.clear();
        let end = self.unwinder.unwind(&snapshot, &state, &mut NoMemory, &mut self.chain).end;
        let frames = &self.unwinder.stack().frames;
        let Some(last) = frames.last() else { return };
        if end == StackEnd::Truncated(TruncationReason::CopyTooSmall)
            && self.tails.above(tid, last, &snapshot).is_none()
            && let Some(witness) = Witness::of(last, &state.stack)
        {
            let mut memory = LiveMemory::new(pid, witness, &snapshot, &mut self.memory);
            let end = self.unwinder.unwind(&snapshot, &state, &mut memory, &mut self.chain).end;
            if end == StackEnd::Complete {
                self.tails.note(tid, &self.unwinder.stack().frames);
            }
        }
    }

    /// A stack that is deeper than its copy: by an earlier stack of the thread, the live memory, the kernel's walk.
    fn complete_late(
        &mut self,
        sample: &Sample<'_>,
        pid: Pid,
        tid: model::Tid,
        kernels: usize,
        state: &UserState<'_>,
        snapshot: &super::Snapshot,
    ) -> ChainEnd {
        let cut = ChainEnd { end: StackEnd::Truncated(TruncationReason::CopyTooSmall), late: false };
        let complete = ChainEnd { end: StackEnd::Complete, late: true };
        let frames = &self.unwinder.stack().frames;
        if let Some(last) = frames.last()
            && let Some(tail) = self.tails.above(tid, last, snapshot)
        {
            self.chain.pop();
            super::chain::extend(&mut self.chain, tail.iter().map(|frame| frame.address));
            let whole: Vec<_> = frames.iter().chain(&tail).copied().collect();
            self.tails.note(tid, &whole);
            return complete;
        }
        let Some(witness) = frames.last().and_then(|last| Witness::of(last, &state.stack)) else {
            return cut;
        };
        let mut memory = LiveMemory::new(pid, witness, snapshot, &mut self.memory);
        self.chain.truncate(kernels);
        let unwound = self.unwinder.unwind(snapshot, state, &mut memory, &mut self.chain);
        match unwound.end {
            StackEnd::Complete => {
                self.tails.note(tid, &self.unwinder.stack().frames);
                return unwound;
            }
            StackEnd::FrameLimit => return unwound,
            // What was read is no longer what it was: only what the copy says is sure.
            StackEnd::Truncated(_) => {
                self.chain.truncate(kernels);
                self.unwinder.unwind(snapshot, state, &mut NoMemory, &mut self.chain);
            }
        }
        // The kernel walked frame pointers through the whole stack when it took the sample: beyond a return address that
        // both have found, its way is used.
        let last = self.unwinder.stack().frames.last().map(|frame| frame.address.address().0);
        let mut walked = user_part(sample).skip_while(|address| Some(*address) != last).skip(1).peekable();
        if walked.peek().is_some() {
            self.chain.pop();
            self.chain.extend(walked);
            self.chain.push(TruncationReason::CopyTooSmall.marker());
        }
        cut
    }

    /// Forgets what is no more: a recording may go on for days.
    fn forget(&mut self) {
        self.census.take(&mut self.tracker);
        self.snapshots.forget_ended(&self.tracker);
        if self.tracker.spaces().len() > self.most_spaces {
            self.tracker.forget_spaces(|space| self.snapshots.know(space));
            self.most_spaces = MOST_SPACES.max(2 * self.tracker.spaces().len());
        }
    }

    /// Writes a sample with its raw stack, without what the kernel found of the user's chain.
    fn keep(&mut self, sample: Sample<'_>, layouts: &Layouts, out: &mut Vec<u8>) {
        self.chain.clear();
        self.chain.extend(kernel_part(&sample));
        self.write(sample, layouts, out);
    }

    fn write(&mut self, sample: Sample<'_>, layouts: &Layouts, out: &mut Vec<u8>) {
        super::chain::cut(&mut self.chain, layouts.most_addresses);
        self.chain_bytes.clear();
        self.chain_bytes.extend(self.chain.iter().flat_map(|address| address.to_ne_bytes()));
        let callchain = Some(U64s::new(&self.chain_bytes, Endian::NATIVE));
        if layouts.written.encode(&Record::Sample(Sample { callchain, ..sample }), out).is_err() {
            // Other parts (a raw tracepoint of 60 KB) leave no room for the chain.
            let _ = layouts.written.encode(&Record::Sample(Sample { callchain: None, ..sample }), out);
        }
    }
}

impl<C: Consumer> Consumer for Unwinding<C> {
    fn begin(&mut self, recording: &Recording) -> io::Result<()> {
        self.machine.copy_size = CopySize::new(recording.copy_sizes.clone(), recording.ring_size);
        // Each event may have a limit of its own; 0 is none.
        let limit = |event: &RecordedEvent| match event.attr.sample_max_stack {
            0 => MOST_ADDRESSES,
            most => usize::from(most).min(MOST_ADDRESSES),
        };
        let unwound = recording.events.iter().filter(|event| has_stacks(event.attr.sample_format));
        if let Some(most) = unwound.map(limit).max().filter(|&most| most < MOST_ADDRESSES) {
            self.machine.unwinder = ChainUnwinder::with_frame_limit(most);
        }
        let written = self.written(recording);
        for (index, (event, written)) in recording.events.iter().zip(&written.events).enumerate() {
            let index = u32::try_from(index).unwrap_or(u32::MAX);
            self.events.extend(event.ids.iter().map(|&id| (id, index)));
            self.layouts.push(Layouts {
                recorded: RecordLayout::new(&event.attr, Endian::NATIVE),
                written: RecordLayout::new(&written.attr, Endian::NATIVE),
                has_stacks: has_stacks(event.attr.sample_format),
                most_addresses: limit(event),
            });
        }
        self.consumer.begin(&written)
    }

    fn started(&mut self) -> io::Result<()> {
        self.started = true;
        self.consumer.started()
    }

    fn records(&mut self, chunk: Chunk) -> io::Result<Option<Vec<u8>>> {
        self.machine.copy_size.note_fill(chunk.drained.fill);
        // Memory for a chunk is as large as a ring. What waits in much of it, each part touched at some time, adds up.
        let (bytes, emptied) = match self.light && chunk.bytes.len() < chunk.bytes.capacity() / ROOMY {
            true => (chunk.bytes.as_slice().to_vec(), Some(chunk.bytes)),
            false => (chunk.bytes, None),
        };
        self.hold(bytes);
        if !self.started {
            self.hand_on()?;
        }
        Ok(emptied.or_else(|| self.held.spare()))
    }

    fn finished_round(&mut self) -> io::Result<()> {
        self.orderer.finish_round();
        self.hand_on()?;
        self.consumer.finished_round()
    }

    fn wanted_copy_size(&self) -> Option<u32> {
        Some(self.machine.copy_size.wanted())
    }

    fn is_in_haste(&self) -> bool {
        self.is_hasty() && self.held.bytes() > 0 || self.held.bytes() > MUCH_HELD
    }

    fn checkpoint(&mut self) -> io::Result<()> {
        self.machine.forget();
        self.consumer.checkpoint()
    }

    fn end(&mut self, ending: &Ending) -> io::Result<()> {
        self.orderer.finish();
        self.hand_on()?;
        let stacks = (!self.keep_stacks).then_some(self.machine.totals);
        self.consumer.end(&Ending { stacks, ..ending.clone() })
    }
}

fn has_stacks(format: SampleFormat) -> bool {
    format.contains(SampleFormat::REGS_USER | SampleFormat::STACK_USER)
}

fn is_user_mark(value: &u64) -> bool {
    [context::USER, context::USER_DEFERRED].contains(value)
}

fn kernel_part<'a>(sample: &Sample<'a>) -> impl Iterator<Item = u64> + use<'a> {
    sample.callchain.into_iter().flat_map(|chain| chain.iter()).take_while(|value| !is_user_mark(value))
}

fn user_part<'a>(sample: &Sample<'a>) -> impl Iterator<Item = u64> + use<'a> {
    sample.callchain.into_iter().flat_map(|chain| chain.iter()).skip_while(|value| !is_user_mark(value))
}

/// The sample with the kernel's own part of the chain, the sampled user instruction, and why there is no more.
fn without_stack(sample: &Sample<'_>, written: &RecordLayout) -> Vec<u8> {
    let user = user_part(sample).take(2);
    let chain: Vec<u64> =
        kernel_part(sample).chain(user).chain([TruncationReason::RecorderBehind.marker()]).collect();
    let bytes: Vec<u8> = chain.iter().flat_map(|address| address.to_ne_bytes()).collect();
    let mut out = Vec::new();
    let callchain = Some(U64s::new(&bytes, Endian::NATIVE));
    // A record that was small enough with its stack is so without it.
    let _ = written.encode(&Record::Sample(Sample { callchain, ..*sample }), &mut out);
    out
}
