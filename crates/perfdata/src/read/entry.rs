//! Records as they come along: small handles that can be put into order.

use decoder::{DecodeError, Endian, RawRecord};
use model::{EventIndex, Timestamp};

use super::blocks::Blocks;
use super::windows::Windows;
use crate::error::Error;

/// A record's place, type and event, in 16 bytes. [`super::Reader::record`] gives its bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecordRef {
    place: u64,
    kind: u32,
    store: u16,
    event: u16,
}

const NO_EVENT: u16 = u16::MAX;
/// The store of records that are kept in blocks; others are the numbers of files.
pub(super) const BLOCKS: u16 = u16::MAX;

impl RecordRef {
    pub(super) fn new(store: u16, place: u64, kind: u32, event: Option<u16>) -> Self {
        Self { place, kind, store, event: event.unwrap_or(NO_EVENT) }
    }

    /// `PERF_RECORD_*`
    #[inline]
    pub fn kind(&self) -> u32 {
        self.kind
    }

    /// The event that the record belongs to.
    #[inline]
    pub fn event(&self) -> Option<EventIndex> {
        (self.event != NO_EVENT).then_some(EventIndex(self.event.into()))
    }

    /// The record's offset in its file (of a folder: in its part); `None` for records out of a pipe or compressed
    /// pieces.
    pub fn file_offset(&self) -> Option<u64> {
        (self.store != BLOCKS).then_some(self.place)
    }

    #[inline]
    pub(super) fn store(&self) -> u16 {
        self.store
    }

    #[inline]
    pub(super) fn place(&self) -> u64 {
        self.place
    }
}

const _: () = assert!(size_of::<RecordRef>() == 16, "held by the million while they are put into order");

#[inline]
pub(super) fn raw<'r>(
    windows: &'r mut Windows,
    blocks: &'r Blocks,
    record: RecordRef,
    endian: Endian,
) -> Result<RawRecord<'r>, Error> {
    let bytes = match record.store() {
        BLOCKS => blocks.at(record.place()),
        file => windows.at(file, record.place())?,
    };
    RawRecord::parse(bytes, endian).map(|(raw, _)| raw).map_err(|error| {
        let needed = match error {
            DecodeError::RecordCut { size, .. } => size as u64,
            _ => decoder::HEADER_SIZE as u64,
        };
        Error::Cut {
            section: "records",
            field: "a record read before",
            offset: record.place(),
            needed,
            available: bytes.len() as u64,
        }
    })
}

/// The next record of the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    /// The record.
    pub record: RecordRef,
    /// The time at which it was made, where it states one; 0 where a tool synthesized it.
    pub time: Option<Timestamp>,
    /// The kind of record for the reader.
    pub kind: EntryKind,
}

/// The kind of a record for the reader.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EntryKind {
    /// A record of the kernel's types, to be put into order.
    Kernel,
    /// The end of a round (`FINISHED_ROUND`).
    RoundEnd,
    /// Another record of a tool. What it says of events and machine has been taken in already.
    Tool,
    /// Of a type that this version does not know.
    Unknown,
}
