//! Encodes records that are in the order of time for consumers that take chunks of bytes: a file, or a window in memory.

use std::collections::BTreeMap;
use std::io;

use decoder::{Endian, RawRecord, Record, RecordLayout, Sample, kind};
use model::{EventIndex, SpaceId, Tid, Timestamp};
use tracker::{OrderedRecord, Tracker};

use super::ordered_consumer::OrderedConsumer;
use crate::consumer::{Chunk, Consumer, Ending, Recording, RecordingSink, RingKind};
use crate::mapped_files::MappedFiles;

/// A chunk is forwarded when it has this many bytes.
const CHUNK_BYTES: usize = 256 << 10;

/// Number of spaces from which on a tracker is made to forget those from which nothing is mapped. A process that comes and goes leaves one
/// or two.
pub const MIN_SPACES_TO_FORGET: usize = 4096;

/// Forwards ordered records to a [`Consumer`], in chunks of one kind of ring each. Samples are encoded in the layout of their event
/// in the recording that [`RecordingSink::begin`] was called with.
#[derive(Debug)]
pub struct ChunkEncoder<C> {
    consumer: C,
    tracker: Tracker,
    /// The number of spaces from which on the tracker forgets some.
    max_spaces: usize,
    layouts: Vec<RecordLayout>,
    files: MappedFiles,
    /// The records of the next chunk.
    bytes: Vec<u8>,
    kind: RingKind,
    /// New names of threads since the last other record. Only the last one of a thread counts: a program that gives itself 200,000 names a
    /// second would make the file grow by 24 MB.
    renames: BTreeMap<Tid, (Option<EventIndex>, Vec<u8>)>,
}

impl<C: Consumer> ChunkEncoder<C> {
    /// Makes an encoder that forwards to `consumer`.
    pub fn new(consumer: C) -> Self {
        Self {
            consumer,
            tracker: Tracker::new(),
            max_spaces: MIN_SPACES_TO_FORGET,
            layouts: Vec::new(),
            files: MappedFiles::default(),
            bytes: Vec::new(),
            kind: RingKind::Sideband,
            renames: BTreeMap::new(),
        }
    }

    /// Adds a record that is no sample, and applies it to the tracker.
    fn add(&mut self, event: Option<EventIndex>, raw: &RawRecord<'_>) -> io::Result<()> {
        self.make_room(RingKind::Sideband)?;
        if let Some(Ok(record)) = layout_of(&self.layouts, event).map(|layout| layout.decode(raw)) {
            self.files.add_to(&mut self.tracker, &record);
            self.tracker.apply(&record);
        }
        // Encoding fails only for records that are too large, and this one was parsed from a record.
        let _ = raw.encode(Endian::NATIVE, &mut self.bytes);
        Ok(())
    }

    fn add_renames(&mut self) -> io::Result<()> {
        for (event, bytes) in std::mem::take(&mut self.renames).into_values() {
            if let Ok((raw, _)) = RawRecord::parse(&bytes, Endian::NATIVE) {
                self.add(event, &raw)?;
            }
        }
        Ok(())
    }

    /// Flushes the chunk unless a record of this kind can be added to it.
    fn make_room(&mut self, kind: RingKind) -> io::Result<()> {
        if self.kind != kind || self.bytes.len() >= CHUNK_BYTES {
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
        let chunk = Chunk::new(self.kind, bytes);
        if let Some(mut bytes) = self.consumer.consume(chunk)? {
            bytes.clear();
            self.bytes = bytes;
        }
        Ok(())
    }
}

impl<C: Consumer> OrderedConsumer for ChunkEncoder<C> {
    fn tracker(&mut self) -> &mut Tracker {
        &mut self.tracker
    }

    fn record(&mut self, _time: Timestamp, record: OrderedRecord<'_>) -> io::Result<()> {
        let OrderedRecord { raw, event, .. } = record;
        if raw.kind == kind::COMM
            && let Some(Ok(Record::Comm(comm))) =
                layout_of(&self.layouts, event).map(|layout| layout.decode(&raw))
            && !comm.exec
        {
            let known = self.renames.entry(comm.tid).or_default();
            known.0 = event;
            known.1.clear();
            let _ = raw.encode(Endian::NATIVE, &mut known.1);
            return Ok(());
        }
        self.add_renames()?;
        if raw.kind != kind::SAMPLE {
            return self.add(event, &raw);
        }
        self.make_room(RingKind::Samples)?;
        // As in [`Self::add`].
        let _ = raw.encode(Endian::NATIVE, &mut self.bytes);
        Ok(())
    }

    fn sample(&mut self, _time: Timestamp, event: EventIndex, sample: Sample<'_>) -> io::Result<()> {
        self.add_renames()?;
        self.make_room(RingKind::Samples)?;
        if let Some(layout) = self.layouts.get(event.0 as usize) {
            encode(sample, layout, &mut self.bytes);
        }
        Ok(())
    }

    fn forget_spaces(&mut self, is_known: &dyn Fn(SpaceId) -> bool) {
        if self.tracker.spaces().len() > self.max_spaces {
            self.tracker.forget_spaces(is_known);
            self.max_spaces = MIN_SPACES_TO_FORGET.max(2 * self.tracker.spaces().len());
        }
    }
}

/// Returns the layout of an event's records, or of those that the recorder has made.
fn layout_of(layouts: &[RecordLayout], event: Option<EventIndex>) -> Option<&RecordLayout> {
    event.and_then(|event| layouts.get(event.0 as usize)).or(layouts.last())
}

/// Appends a sample in this layout: without its call chain, where the record has no room for that beside the other parts (a raw
/// tracepoint of 60 KB).
pub(super) fn encode(sample: Sample<'_>, layout: &RecordLayout, out: &mut Vec<u8>) {
    if layout.encode(&Record::Sample(sample), out).is_err() {
        let _ = layout.encode(&Record::Sample(Sample { callchain: None, ..sample }), out);
    }
}

impl<C: Consumer> RecordingSink for ChunkEncoder<C> {
    fn next(&mut self) -> Option<&mut dyn RecordingSink> {
        Some(&mut self.consumer)
    }

    fn begin(&mut self, recording: &Recording) -> io::Result<()> {
        let layouts = recording.events.iter().map(|event| RecordLayout::new(&event.attr, Endian::NATIVE));
        self.layouts = layouts.collect();
        self.files = recording.files.clone();
        self.consumer.begin(recording)
    }

    fn started(&mut self) -> io::Result<()> {
        self.add_renames()?;
        self.flush()?;
        self.consumer.started()
    }

    fn finished_round(&mut self) -> io::Result<()> {
        self.add_renames()?;
        self.flush()?;
        self.consumer.finished_round()
    }

    fn end(&mut self, ending: &Ending) -> io::Result<()> {
        self.add_renames()?;
        self.flush()?;
        self.consumer.end(ending)
    }
}
