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
use std::time::{Duration, Instant};

use decoder::values::U64s;
use decoder::{Endian, RawRecord, Record, RecordLayout, Sample, SampleFormat, kind, misc};
use model::{Loss, Timestamp, TruncationReason};
use rustc_hash::FxBuildHasher;
use stacks::{Mechanisms, RefusedTables, StackWalker, kernel_part, user_part};
use tracker::Orderer;
use unwinder::StackEnd;

use super::copy_size::CopySize;
use super::early;
use super::machine::Machine;
use super::record_size::room_for_chain;
use super::totals::StackTotals;
use super::waiting::{Handle, Task, WaitingRecords};
use crate::consumer::{Chunk, Consumer, Ending, RecordedEvent, Recording, RingKind, SwitchNews};
use crate::ring::Drained;
use crate::window::DumpReport;

/// More than this is not kept waiting: stack copies of further samples are dropped, the samples are not.
const MOST_HELD: usize = 64 << 20;

/// From here on what waits is wanted soon.
const MUCH_HELD: usize = MOST_HELD / 8;

/// A chunk that fills less than this part of its memory, one in so many, is copied where memory is dear.
const ROOMY: usize = 4;
/// The same for a window, whose share of the CPU counts as much: with 4, `record -a` beside compilers spent half as much again on
/// copying as without.
const VERY_ROOMY: usize = 64;

/// The interval at which pages of objects are given back where memory is dear: programs come and go, and each is read in a few places.
const BETWEEN_GIVING_BACK: Duration = Duration::from_secs(5);

/// Handed on at once.
const CHUNK: usize = 256 << 10;

/// Addresses of one call chain at most, so that its record has room for the other parts and a note ([`early`]).
const MOST_ADDRESSES: usize = 7_000;

/// A consumer that unwinds the user stacks of samples and hands the records on, in the order of time.
#[derive(Debug)]
pub struct Unwinding<C> {
    consumer: C,
    keep_stacks: bool,
    light: bool,
    roomy: usize,
    gave_back: Instant,
    started: bool,
    /// By the kernel's id.
    events: HashMap<u64, u32, FxBuildHasher>,
    layouts: Vec<Layouts>,
    orderer: Orderer<Handle>,
    held: WaitingRecords,
    machine: Machine,
    out: Out,
}

/// The layouts in which the samples of an event come, and in which they are handed on.
#[derive(Debug)]
pub(super) struct Layouts {
    pub(super) recorded: RecordLayout,
    pub(super) written: RecordLayout,
    has_stacks: bool,
    /// Of one call chain.
    pub(super) most_addresses: usize,
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
    pub fn new(consumer: C, keep_stacks: bool, mechanisms: Mechanisms) -> Self {
        Self {
            consumer,
            keep_stacks,
            light: false,
            roomy: ROOMY,
            gave_back: Instant::now(),
            started: false,
            events: HashMap::default(),
            layouts: Vec::new(),
            orderer: Orderer::default(),
            held: WaitingRecords::default(),
            machine: Machine::new(mechanisms),
            out: Out { bytes: Vec::new(), kind: RingKind::Sideband },
        }
    }

    /// The same for a view that stays open ([`crate::Options::light`]), which keeps little of earlier stacks and chunks.
    pub fn light(self) -> Self {
        Self { light: true, ..self }
    }

    /// The same for a window that is kept for weeks.
    pub fn lasting(self) -> Self {
        Self { light: true, roomy: VERY_ROOMY, ..self }
    }

    /// The consumer behind.
    pub fn consumer(&self) -> &C {
        &self.consumer
    }

    /// As [`Self::consumer`], to be changed.
    pub fn consumer_mut(&mut self) -> &mut C {
        &mut self.consumer
    }

    /// Returns the totals of stacks so far.
    pub fn totals(&self) -> StackTotals {
        self.machine.totals
    }

    /// Returns the list of [`stacks::ProcessMapsCache::refused_tables`].
    pub fn refused_tables(&self) -> RefusedTables {
        self.machine.refused_tables()
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

    /// Puts the records of a chunk into order.
    fn hold(&mut self, bytes: Vec<u8>) {
        let Some(any) = self.layouts.last() else { return };
        let mut rest = WaitingRecords::default();
        std::mem::swap(&mut rest, &mut self.held);
        let chunk = rest.begin(bytes);
        let mut offset = 0;
        let mut stripped = Vec::new();
        loop {
            let place = rest.add(offset, Task::Sideband);
            let Ok((raw, size)) = RawRecord::parse(rest.at(place), Endian::NATIVE) else {
                let left = rest.at(place).len() as u64;
                if left > 0 {
                    self.consumer.note_loss(Loss { cut_bytes: left, ..Loss::default() });
                }
                rest.release(place);
                break;
            };
            let event = any.recorded.id_of(&raw).and_then(|id| self.events.get(&id)).copied();
            let layouts = event.and_then(|event| self.layouts.get(event as usize)).unwrap_or(any);
            let time = layouts.recorded.time_of(&raw).unwrap_or(Timestamp(0));
            let task = match event {
                Some(event)
                    if raw.kind == kind::SAMPLE && layouts.has_stacks && early::is_early(raw.misc) =>
                {
                    Task::Write(event)
                }
                Some(event) if raw.kind == kind::SAMPLE && layouts.has_stacks => Task::Unwind(event),
                _ if raw.kind == kind::SAMPLE => Task::PassSample,
                _ => {
                    if raw.kind == kind::COMM
                        && raw.has(misc::COMM_EXEC)
                        && let Ok(Record::Comm(comm)) = any.recorded.decode(&raw)
                    {
                        self.machine.execs.note(comm.tid, time);
                    }
                    Task::Sideband
                }
            };
            if rest.bytes() > MOST_HELD && matches!(task, Task::Unwind(_)) {
                if let Ok(Record::Sample(sample)) = layouts.recorded.decode(&raw) {
                    self.machine.totals.count(StackEnd::Truncated(TruncationReason::RecorderBehind), false);
                    stripped.push((time, without_stack(&sample, &layouts.written)));
                }
                rest.release(place);
            } else {
                self.orderer.push(time, WaitingRecords::with_task(place, task));
            }
            offset += size;
        }
        rest.release(chunk);
        for (time, record) in stripped {
            let chunk = rest.begin(record);
            self.orderer.push(time, rest.add(0, Task::PassSample));
            rest.release(chunk);
        }
        self.held = rest;
    }

    /// Hands on what is ready.
    fn hand_on(&mut self) -> io::Result<()> {
        let mut undecodable = 0;
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
                Task::Write(event) => {
                    let layouts = self.layouts.get(event as usize);
                    let out = &mut self.out.bytes;
                    if !layouts.is_some_and(|layouts| self.machine.write_early(bytes, layouts, out)) {
                        undecodable += 1;
                    }
                }
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
                        _ => undecodable += 1,
                    }
                }
            }
            self.held.release(handle);
        }
        if undecodable > 0 {
            self.consumer.note_loss(Loss { undecodable, ..Loss::default() });
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
        if let Some(mut bytes) = consumer.ordered(chunk)? {
            bytes.clear();
            self.bytes = bytes;
        }
        Ok(())
    }
}

impl<C: Consumer> Consumer for Unwinding<C> {
    fn begin(&mut self, recording: &Recording) -> io::Result<()> {
        let copy_sizes = match self.machine.mechanisms.contains(Mechanisms::COPY_SIZES) {
            true => recording.copy_sizes.clone(),
            false => recording.copy_sizes.only_one(),
        };
        self.machine.copy_size = CopySize::new(copy_sizes, recording.ring_size);
        // Each event may have a limit of its own; 0 is none.
        let limit = |event: &RecordedEvent| match event.attr.sample_max_stack {
            0 => MOST_ADDRESSES,
            most => usize::from(most).min(MOST_ADDRESSES),
        };
        let unwound = recording.events.iter().filter(|event| has_stacks(event.attr.sample_format));
        if let Some(most) = unwound.map(limit).max().filter(|&most| most < MOST_ADDRESSES) {
            self.machine.walker = StackWalker::new(most, self.machine.mechanisms);
        }
        let written = self.written(recording);
        for (index, (event, written)) in recording.events.iter().zip(&written.events).enumerate() {
            let index = u32::try_from(index).unwrap_or(u32::MAX);
            self.events.extend(event.ids.iter().map(|&id| (id, index)));
            let members = recording
                .events
                .iter()
                .filter(|other| event.leader.is_some() && other.leader == event.leader);
            let room = room_for_chain(&written.attr, members.count());
            self.layouts.push(Layouts {
                recorded: RecordLayout::new(&event.attr, Endian::NATIVE),
                written: RecordLayout::new(&written.attr, Endian::NATIVE),
                has_stacks: has_stacks(event.attr.sample_format),
                most_addresses: limit(event).min(room),
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
        let (bytes, emptied) = match self.light && chunk.bytes.len() < chunk.bytes.capacity() / self.roomy {
            true => (self.held.copy(&chunk.bytes), Some(chunk.bytes)),
            false => (chunk.bytes, None),
        };
        self.hold(bytes);
        if !self.started {
            self.hand_on()?;
        }
        Ok(emptied.or_else(|| self.held.spare()))
    }

    fn shrink(&mut self, sample: &[u8], until: Instant, into: &mut Vec<u8>) -> bool {
        let Some(any) = self.layouts.last().filter(|_| !self.keep_stacks) else { return false };
        let Ok((raw, _)) = RawRecord::parse(sample, Endian::NATIVE) else { return false };
        let event = any.recorded.id_of(&raw).and_then(|id| self.events.get(&id));
        let layouts = event.and_then(|&event| self.layouts.get(event as usize));
        let Some(layouts) = layouts.filter(|layouts| layouts.has_stacks) else { return false };
        let decoded = layouts.recorded.decode_sample(&raw);
        decoded.is_ok_and(|sample| self.machine.shrink(&sample, layouts, until, into))
    }

    fn note_loss(&mut self, loss: Loss) {
        self.consumer.note_loss(loss);
    }

    fn finished_round(&mut self) -> io::Result<()> {
        self.orderer.finish_round();
        self.hand_on()?;
        if !self.keep_stacks {
            self.consumer.note_stacks(&self.machine.totals);
        }
        self.consumer.finished_round()
    }

    fn wanted_copy_size(&self) -> Option<u32> {
        Some(self.machine.copy_size.wanted())
    }

    fn is_in_haste(&self) -> bool {
        self.held.bytes() > MUCH_HELD || self.consumer.is_in_haste()
    }

    fn note_switches(&mut self, news: &[SwitchNews]) {
        self.consumer.note_switches(news);
    }

    fn dump(&mut self, ticket: u64) {
        self.consumer.dump(ticket);
    }

    fn take_reports(&mut self) -> Vec<DumpReport> {
        self.consumer.take_reports()
    }

    fn checkpoint(&mut self) -> io::Result<()> {
        self.machine.forget();
        if self.light {
            self.machine.walker.keep_little();
        }
        if self.light && self.gave_back.elapsed() >= BETWEEN_GIVING_BACK {
            self.gave_back = Instant::now();
            self.machine.give_back();
            self.held.drop_spare();
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::unwind::CopySizes;
    use decoder::{Attr, ReadFormat};

    #[derive(Default)]
    struct Came {
        samples: usize,
        loss: Loss,
    }

    impl Consumer for Came {
        fn begin(&mut self, _: &Recording) -> io::Result<()> {
            Ok(())
        }

        fn started(&mut self) -> io::Result<()> {
            Ok(())
        }

        fn records(&mut self, chunk: Chunk) -> io::Result<Option<Vec<u8>>> {
            let is_sample = |record: &&[u8]| crate::records::u32_at(record, 0) == Some(kind::SAMPLE);
            self.samples += crate::records::each(&chunk.bytes).filter(is_sample).count();
            Ok(Some(chunk.bytes))
        }

        fn note_loss(&mut self, loss: Loss) {
            self.loss += loss;
        }

        fn finished_round(&mut self) -> io::Result<()> {
            Ok(())
        }

        fn checkpoint(&mut self) -> io::Result<()> {
            Ok(())
        }

        fn end(&mut self, _: &Ending) -> io::Result<()> {
            Ok(())
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
        let (events, cpus, copy_sizes) = (vec![event], Vec::new(), CopySizes::default());
        Recording { events, cpus, ring_size: 1 << 20, copy_sizes }
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

    /// The records that come out of chunks that come in one round.
    fn played(recording: &Recording, chunks: impl IntoIterator<Item = Vec<u8>>) -> (Came, StackTotals) {
        let mut came = Came::default();
        let mut stage = Unwinding::new(&mut came, false, Mechanisms::all());
        stage.begin(recording).unwrap();
        stage.started().unwrap();
        for bytes in chunks {
            stage.records(Chunk { ring: RingKind::Samples, bytes, drained: Drained::default() }).unwrap();
        }
        stage.end(&Ending::default()).unwrap();
        let totals = stage.totals();
        (came, totals)
    }

    #[test]
    fn samples_that_cannot_be_decoded_are_counted() {
        let recording = recording();
        let mut bytes = sample(&recording, &[]);
        let mut wrong = bytes.clone();
        // The length of the call chain: behind the header, the identifier and the time.
        wrong[24..32].copy_from_slice(&u64::MAX.to_ne_bytes());
        bytes.extend(wrong);
        let (came, _) = played(&recording, [bytes]);
        assert_eq!((came.samples, came.loss.undecodable), (1, 1));
    }

    #[test]
    fn no_sample_is_lost_where_too_many_stacks_wait() {
        let recording = recording();
        let one = sample(&recording, &[0; 60_000]);
        let each = 20;
        let chunks = 2 * MOST_HELD / (each * one.len());
        let (came, totals) = played(&recording, std::iter::repeat_n(one.repeat(each), chunks));
        assert_eq!((came.samples, came.loss), (each * chunks, Loss::default()));
        assert!(totals.truncated_by(TruncationReason::RecorderBehind) > 0, "{totals:?}");
    }
}
