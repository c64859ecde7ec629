//! Records in the order of time for those who take bytes: a file, or a window in memory.

use std::io;

use decoder::{Endian, Record, RecordLayout, Sample, kind};
use model::{EventIndex, SpaceId, Timestamp};
use tracker::{OrderedRecord, Tracker};

use super::ordered::OrderedConsumer;
use crate::consumer::{
    Chunk, Consumer, Destination, Ending, Recording, RingKind, forward_calls, forward_upkeep,
};
use crate::ring::Drained;

/// Bytes that are handed on at once.
const CHUNK: usize = 256 << 10;

/// Spaces beyond this are forgotten where nothing is mapped from them.
const MOST_SPACES: usize = 4096;

/// Hands records in order on to a [`Consumer`], in chunks of one kind of ring each. Samples are encoded in the layout of the recording
/// that [`Destination::begin`] told of.
#[derive(Debug)]
pub struct Encoding<C> {
    consumer: C,
    tracker: Tracker,
    /// With more spaces than this, it is time to forget some.
    most_spaces: usize,
    layouts: Vec<RecordLayout>,
    /// Records that are not handed on yet: all of one kind.
    bytes: Vec<u8>,
    kind: RingKind,
}

impl<C: Consumer> Encoding<C> {
    /// Hands on to `consumer`.
    pub fn new(consumer: C) -> Self {
        Self {
            consumer,
            tracker: Tracker::new(),
            most_spaces: MOST_SPACES,
            layouts: Vec::new(),
            bytes: Vec::new(),
            kind: RingKind::Sideband,
        }
    }

    /// The next record is of this kind.
    fn turn_to(&mut self, kind: RingKind) -> io::Result<()> {
        if self.kind != kind || self.bytes.len() >= CHUNK {
            self.flush()?;
            self.kind = kind;
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.bytes.is_empty() {
            return Ok(());
        }
        let bytes = std::mem::take(&mut self.bytes);
        let chunk = Chunk { ring: self.kind, bytes, drained: Drained::default() };
        if let Some(mut bytes) = self.consumer.records(chunk)? {
            bytes.clear();
            self.bytes = bytes;
        }
        Ok(())
    }
}

impl<C: Consumer> OrderedConsumer for Encoding<C> {
    fn tracker(&mut self) -> &mut Tracker {
        &mut self.tracker
    }

    fn record(&mut self, _time: Timestamp, record: OrderedRecord<'_>) -> io::Result<()> {
        let OrderedRecord { raw, event, .. } = record;
        if raw.kind == kind::SAMPLE {
            self.turn_to(RingKind::Samples)?;
        } else {
            self.turn_to(RingKind::Sideband)?;
            let layout = event.and_then(|event| self.layouts.get(event.0 as usize)).or(self.layouts.last());
            if let Some(Ok(record)) = layout.map(|layout| layout.decode(&raw)) {
                self.tracker.apply(&record);
            }
        }
        // It has come out of a record.
        let _ = raw.encode(Endian::NATIVE, &mut self.bytes);
        Ok(())
    }

    fn sample(&mut self, _time: Timestamp, event: EventIndex, sample: Sample<'_>) -> io::Result<()> {
        self.turn_to(RingKind::Samples)?;
        if let Some(layout) = self.layouts.get(event.0 as usize) {
            encode(sample, layout, &mut self.bytes);
        }
        Ok(())
    }

    fn forget_spaces(&mut self, is_known: &dyn Fn(SpaceId) -> bool) {
        if self.tracker.spaces().len() > self.most_spaces {
            self.tracker.forget_spaces(is_known);
            self.most_spaces = MOST_SPACES.max(2 * self.tracker.spaces().len());
        }
    }
}

/// Appends a sample in this layout; without its call chain, where other parts (a raw tracepoint of 60 KB) leave no room for one.
pub(super) fn encode(sample: Sample<'_>, layout: &RecordLayout, out: &mut Vec<u8>) {
    if layout.encode(&Record::Sample(sample), out).is_err() {
        let _ = layout.encode(&Record::Sample(Sample { callchain: None, ..sample }), out);
    }
}

impl<C: Consumer> Destination for Encoding<C> {
    fn begin(&mut self, recording: &Recording) -> io::Result<()> {
        let layouts = recording.events.iter().map(|event| RecordLayout::new(&event.attr, Endian::NATIVE));
        self.layouts = layouts.collect();
        self.consumer.begin(recording)
    }

    fn started(&mut self) -> io::Result<()> {
        self.flush()?;
        self.consumer.started()
    }

    fn finished_round(&mut self) -> io::Result<()> {
        self.flush()?;
        self.consumer.finished_round()
    }

    fn end(&mut self, ending: &Ending) -> io::Result<()> {
        self.flush()?;
        self.consumer.end(ending)
    }

    forward_calls!(this => this.consumer);
    forward_upkeep!(this => this.consumer);
}
