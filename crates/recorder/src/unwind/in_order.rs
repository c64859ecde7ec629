//! The order of time over all rings, and unwinding while recording: between the rings and who wants records in order.
//!
//! ```text
//! chunks ─▶ time order (by rounds) ─▶ sideband, samples without raw stacks ─────▶ consumer, which tracks
//!                                 └─▶ samples with raw stacks ─▶ unwind ────────┘
//! ```
//!
//! What is handed on is a recording without raw stacks: its attrs have none, its samples carry call chains.

use std::collections::HashMap;
use std::io;
use std::time::{Duration, Instant};

use decoder::values::U64s;
use decoder::{Endian, RawRecord, Record, RecordLayout, Sample, SampleFormat, kind, misc};
use model::{EventIndex, Loss, Timestamp, TruncationReason};
use rustc_hash::FxBuildHasher;
use stacks::{Mechanisms, RefusedTables, StackWalker, kernel_part, user_part};
use tracker::{OrderedRecord, Orderer};
use unwinder::StackEnd;

use super::copy_size::CopySize;
use super::early;
use super::machine::{Machine, Turn};
use super::ordered::OrderedConsumer;
use super::record_size::room_for_chain;
use super::totals::StackTotals;
use super::waiting::{Handle, Task, WaitingRecords};
use crate::consumer::{Chunk, Consumer, Destination, Ending, RecordedEvent, Recording, SwitchNews};
use crate::notice::Notice;
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

/// Addresses of one call chain at most, so that its record has room for the other parts and a note ([`early`]).
const MOST_ADDRESSES: usize = 7_000;

/// A consumer that hands the records on in the order of time, with the user stacks of samples unwound where they bring copies.
#[derive(Debug)]
pub struct InOrder<C> {
    consumer: C,
    keep_stacks: bool,
    light: bool,
    roomy: usize,
    gave_back: Instant,
    started: bool,
    /// By the kernel's id.
    events: HashMap<u64, EventIndex, FxBuildHasher>,
    layouts: Vec<Layouts>,
    orderer: Orderer<Handle>,
    held: WaitingRecords,
    machine: Machine,
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

impl<C: OrderedConsumer> InOrder<C> {
    /// Orders what goes to `consumer`, and unwinds it; with `keep_stacks`, raw stacks are kept instead, and only the kernel's view of
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

    fn has_stacks(&self) -> bool {
        self.layouts.iter().any(|layouts| layouts.has_stacks)
    }

    /// Returns true if totals of unwound stacks are known.
    fn unwinds(&self) -> bool {
        !self.keep_stacks && self.has_stacks()
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
            let place = rest.add(offset, Task::Pass(None));
            let Ok((raw, size)) = RawRecord::parse(rest.at(place), Endian::NATIVE) else {
                let left = rest.at(place).len() as u64;
                if left > 0 {
                    self.consumer.note_loss(Loss { cut_bytes: left, ..Loss::default() });
                }
                rest.release(place);
                break;
            };
            let (raw, is_early) = match early::without_note(&raw) {
                Some((sample, _)) => (sample, true),
                None => (raw, false),
            };
            let event = any.recorded.id_of(&raw).and_then(|id| self.events.get(&id)).copied();
            let layouts = event.and_then(|event| self.layouts.get(event.0 as usize)).unwrap_or(any);
            let time = layouts.recorded.time_of(&raw).unwrap_or(Timestamp(0));
            let task = match event.filter(|_| raw.kind == kind::SAMPLE && layouts.has_stacks) {
                Some(event) if is_early => Task::PassEarly(event),
                Some(event) => Task::Unwind(event),
                None => Task::Pass(event),
            };
            if raw.kind == kind::COMM
                && raw.has(misc::COMM_EXEC)
                && let Ok(Record::Comm(comm)) = any.recorded.decode(&raw)
            {
                self.machine.execs.note(comm.tid, time);
            }
            if let Task::Unwind(event) = task
                && rest.bytes() > MOST_HELD
            {
                if let Ok(Record::Sample(sample)) = layouts.recorded.decode(&raw) {
                    self.machine.totals.count(StackEnd::Truncated(TruncationReason::RecorderBehind), false);
                    stripped.push((time, event, without_stack(&sample, &layouts.written)));
                }
                rest.release(place);
            } else {
                self.orderer.push(time, WaitingRecords::with_task(place, task));
            }
            offset += size;
        }
        rest.release(chunk);
        for (time, event, record) in stripped {
            let chunk = rest.begin(record);
            self.orderer.push(time, rest.add(0, Task::Pass(Some(event))));
            rest.release(chunk);
        }
        self.held = rest;
    }

    /// Hands on what is ready.
    fn hand_on(&mut self) -> io::Result<()> {
        let mut undecodable = 0;
        while let Some((time, handle)) = self.orderer.pop() {
            let Ok((raw, _)) = RawRecord::parse(self.held.at(handle), Endian::NATIVE) else { continue };
            let turn = |event: EventIndex| {
                let layouts = self.layouts.get(event.0 as usize)?;
                Some(Turn { time, event, layouts })
            };
            let (machine, consumer) = (&mut self.machine, &mut self.consumer);
            let handed_on = match handle.task {
                Task::Pass(event) => {
                    consumer.record(time, OrderedRecord { raw, event, offset: None })?;
                    true
                }
                Task::PassEarly(event) => match turn(event) {
                    Some(turn) => machine.pass_early(&raw, turn, consumer)?,
                    None => false,
                },
                Task::Unwind(event) => {
                    match turn(event).map(|turn| (turn, turn.layouts.recorded.decode_sample(&raw))) {
                        Some((turn, Ok(sample))) => {
                            match self.keep_stacks {
                                true => machine.keep(sample, turn, consumer)?,
                                false => machine.unwind(sample, turn, consumer)?,
                            }
                            true
                        }
                        // What cannot be decoded cannot be written in another layout either.
                        _ => false,
                    }
                }
            };
            undecodable += u64::from(!handed_on);
            self.held.release(handle);
        }
        if undecodable > 0 {
            self.consumer.note_loss(Loss { undecodable, ..Loss::default() });
        }
        Ok(())
    }
}

impl<C: OrderedConsumer> Destination for InOrder<C> {
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
            let index = EventIndex(u32::try_from(index).unwrap_or(u32::MAX));
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

    fn note_loss(&mut self, loss: Loss) {
        self.consumer.note_loss(loss);
    }

    fn finished_round(&mut self) -> io::Result<()> {
        self.orderer.finish_round();
        self.hand_on()?;
        if self.unwinds() {
            self.consumer.note_stacks(&self.machine.totals);
        }
        self.consumer.finished_round()?;
        self.machine.forget_spaces(&mut self.consumer);
        Ok(())
    }

    fn wanted_copy_size(&self) -> Option<u32> {
        self.has_stacks().then(|| self.machine.copy_size.wanted())
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

    fn take_notices(&mut self) -> Vec<Notice> {
        self.consumer.take_notices()
    }

    fn checkpoint(&mut self) -> io::Result<()> {
        self.machine.forget(self.consumer.tracker());
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
        let stacks = self.unwinds().then_some(self.machine.totals);
        self.consumer.end(&Ending { stacks, ..ending.clone() })
    }
}

impl<C: OrderedConsumer> Consumer for InOrder<C> {
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
        let layouts = event.and_then(|event| self.layouts.get(event.0 as usize));
        let Some(layouts) = layouts.filter(|layouts| layouts.has_stacks) else { return false };
        let decoded = layouts.recorded.decode_sample(&raw);
        let tracker = self.consumer.tracker();
        decoded.is_ok_and(|sample| self.machine.shrink(&sample, layouts, until, tracker, into))
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
    use crate::consumer::RingKind;
    use crate::ring::Drained;
    use crate::unwind::{CopySizes, Encoding};
    use decoder::{Attr, ReadFormat};

    #[derive(Default)]
    struct Came {
        samples: usize,
        loss: Loss,
    }

    impl Destination for Came {
        fn begin(&mut self, _: &Recording) -> io::Result<()> {
            Ok(())
        }

        fn started(&mut self) -> io::Result<()> {
            Ok(())
        }

        fn note_loss(&mut self, loss: Loss) {
            self.loss += loss;
        }

        fn finished_round(&mut self) -> io::Result<()> {
            Ok(())
        }

        fn take_notices(&mut self) -> Vec<Notice> {
            vec![Notice::Incomplete("the disk was full".to_owned())]
        }

        fn checkpoint(&mut self) -> io::Result<()> {
            Ok(())
        }

        fn end(&mut self, _: &Ending) -> io::Result<()> {
            Ok(())
        }
    }

    impl Consumer for Came {
        fn records(&mut self, chunk: Chunk) -> io::Result<Option<Vec<u8>>> {
            let is_sample = |record: &&[u8]| crate::records::u32_at(record, 0) == Some(kind::SAMPLE);
            self.samples += crate::records::each(&chunk.bytes).filter(is_sample).count();
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
        let mut stage = InOrder::new(Encoding::new(&mut came), false, Mechanisms::all());
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
    fn what_the_consumer_has_to_say_is_handed_on() {
        let mut came = Came::default();
        let mut stage = InOrder::new(Encoding::new(&mut came), false, Mechanisms::all());
        assert!(matches!(stage.take_notices().as_slice(), [Notice::Incomplete(_)]));
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
