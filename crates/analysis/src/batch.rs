//! A batch of records in the order of time, with the call chains that were made for them: what the stages of reading exchange.

use std::num::NonZeroU64;
use std::ops::Range;

use decoder::RawRecord;
use model::{EventIndex, Timestamp};
use perfdata::{Description, TimedRecord};
use tracker::OrderedRecord;

/// Batches between two threads: neither waits where the other has a slow one, and the cache holds them beside the rest.
pub(crate) const BATCHES: usize = 4;

/// Records that follow each other in the order of time.
pub(crate) struct Batch {
    bytes: Vec<u8>,
    records: Vec<Place>,
    /// The description of the recording, at least as far as these records need it.
    pub(crate) recording: Description,
    /// Bytes of the recording that have been read.
    pub(crate) position: u64,
    /// The call chains of samples with raw stacks.
    pub(crate) chains: Chains,
}

/// The place of a record in its batch.
struct Place {
    time: Timestamp,
    start: u32,
    end: u32,
    kind: u32,
    misc: u16,
    event: Option<u16>,
    /// Its offset in its file.
    offset: Option<NonZeroU64>,
}

impl Batch {
    pub(crate) fn new(recording: Description) -> Self {
        Self { bytes: Vec::new(), records: Vec::new(), recording, position: 0, chains: Chains::default() }
    }

    /// Returns the number of records.
    pub(crate) fn len(&self) -> usize {
        self.records.len()
    }

    /// Returns true if there is no record.
    pub(crate) fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// The bytes of all records.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Removes all records; keeps their memory, and the chains.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.records.clear();
    }

    /// The record at `index`.
    pub(crate) fn get(&self, index: usize) -> Option<OrderedRecord<'_>> {
        let &Place { start, end, kind, misc, event, offset, .. } = self.records.get(index)?;
        let body = self.bytes.get(start as usize..end as usize)?;
        let event = event.map(|event| EventIndex(event.into()));
        Some(OrderedRecord { raw: RawRecord { kind, misc, body }, event, offset })
    }

    /// The time by which the record at `index` was ordered; 0 where it has none.
    pub(crate) fn time(&self, index: usize) -> Timestamp {
        self.records.get(index).map_or(Timestamp(0), |place| place.time)
    }

    pub(crate) fn push(&mut self, record: &TimedRecord<'_>) {
        let TimedRecord { raw, handle, time, .. } = *record;
        let start = self.bytes.len();
        self.bytes.extend_from_slice(raw.body);
        self.records.push(Place {
            time,
            // A batch ends at 256 KiB, and a record has at most 64 KiB.
            start: start as u32,
            end: self.bytes.len() as u32,
            kind: raw.kind,
            misc: raw.misc,
            // Event numbers of a reader have 16 bits.
            event: handle.event().map(|event| event.0 as u16),
            // The first record of a file in a folder has offset 0, which is stored as none.
            offset: handle.file_offset().and_then(NonZeroU64::new),
        });
    }
}

/// The call chains of a batch's samples that were unwound.
#[derive(Default)]
pub(crate) struct Chains {
    bytes: Vec<u8>,
    /// Ranges in `bytes`, by the place of the sample in its batch, ascending.
    places: Vec<(usize, Range<usize>)>,
}

impl Chains {
    /// The chain of the sample at `index`, if it was unwound: addresses in the byte order of the recording.
    pub(crate) fn get(&self, index: usize) -> Option<&[u8]> {
        let found = self.places.binary_search_by_key(&index, |(index, _)| *index).ok()?;
        self.bytes.get(self.places.get(found)?.1.clone())
    }

    /// Adds the chain of a sample behind those that have one.
    pub(crate) fn push(&mut self, index: usize, chain: &[u64]) {
        let start = self.bytes.len();
        // Only stacks of little-endian machines are unwound.
        self.bytes.extend(chain.iter().flat_map(|address| address.to_le_bytes()));
        self.places.push((index, start..self.bytes.len()));
    }

    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.places.clear();
    }
}
