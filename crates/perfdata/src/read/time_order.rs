//! The records of a recording, one after the other in the order of time.

use decoder::{DecodeError, Orderer, RawRecord, Record};
use model::{EventIndex, Loss, Timestamp};

use super::entry::{EntryKind, RecordRef, raw};
use super::{Description, Reader};
use crate::error::Error;

/// Reads the kernel's records of a recording in the order of time, whatever their order in the file.
///
/// It holds back handles of the records of two rounds; of a recording without rounds, those of all.
#[derive(Debug)]
pub struct TimeOrder {
    reader: Reader,
    orderer: Orderer<RecordRef>,
    /// Handed out by the last call, and to be released by the next.
    last: Option<RecordRef>,
    has_ended: bool,
}

/// A record of the kernel's types, when its turn in time has come.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct TimedRecord<'r> {
    /// The time by which it was ordered; 0 where it has none, or a tool synthesized it.
    pub time: Timestamp,
    /// Its bytes.
    pub raw: RawRecord<'r>,
    /// Its handle, which says where in the file it is.
    pub handle: RecordRef,
    /// The events and features of the recording, as known so far.
    pub description: &'r Description,
}

impl<'r> TimedRecord<'r> {
    /// Returns the event that it belongs to.
    pub fn event(&self) -> Option<EventIndex> {
        self.handle.event()
    }

    /// Decodes it by the layout of its event, or of the first event where it says none.
    ///
    /// # Errors
    /// As [`decoder::RecordLayout::decode`].
    pub fn decode(&self) -> Result<Record<'r>, DecodeError> {
        match self.description.layout_of(self.event()) {
            Some(layout) => layout.decode(&self.raw),
            None => Err(DecodeError::UnknownKind(self.raw.kind)),
        }
    }
}

impl Reader {
    /// Puts the records in the order of time.
    pub fn in_time_order(self) -> TimeOrder {
        TimeOrder { reader: self, orderer: Orderer::default(), last: None, has_ended: false }
    }
}

impl TimeOrder {
    /// Returns the next record; `None` at the end. It borrows its bytes until the next call.
    ///
    /// # Errors
    /// Those of the source, as [`Reader::next_entry`] and [`Reader::record`].
    #[inline]
    pub fn next_record(&mut self) -> Result<Option<TimedRecord<'_>>, Error> {
        if let Some(last) = self.last.take() {
            self.reader.release(last);
        }
        let (time, handle) = loop {
            match self.orderer.pop() {
                Some(next) => break next,
                None if self.has_ended => return Ok(None),
                None => self.read_on()?,
            }
        };
        self.last = Some(handle);
        let Reader { windows, blocks, known, .. } = &mut self.reader;
        let raw = raw(windows, blocks, handle, known.endian)?;
        Ok(Some(TimedRecord { time, raw, handle, description: known }))
    }

    /// Returns true if the next record is at hand: [`Self::next_record`] does not wait for more of a pipe.
    #[inline]
    pub fn has_ready(&self) -> bool {
        self.orderer.has_ready()
    }

    /// Returns the reader, for what it knows of the recording.
    pub fn reader(&self) -> &Reader {
        &self.reader
    }

    /// Returns the reader, to take its notices.
    pub fn reader_mut(&mut self) -> &mut Reader {
        &mut self.reader
    }

    /// Returns the loss so far: what the reader lost, and records that came after newer ones had been handed out.
    pub fn loss(&self) -> Loss {
        let mut loss = self.reader.loss();
        loss.out_of_order = loss.out_of_order.saturating_add(self.orderer.late());
        loss
    }

    /// Reads until a record is ready, or the recording ends.
    fn read_on(&mut self) -> Result<(), Error> {
        while !self.orderer.has_ready() {
            let Some(entry) = self.reader.next_entry()? else {
                self.orderer.finish();
                self.has_ended = true;
                return Ok(());
            };
            match entry.kind {
                EntryKind::Kernel => self.orderer.push(entry.time.unwrap_or(Timestamp(0)), entry.record),
                EntryKind::RoundEnd => {
                    self.reader.release(entry.record);
                    if self.reader.has_rounds() {
                        self.orderer.finish_round();
                    }
                }
                EntryKind::Tool | EntryKind::Unknown => self.reader.release(entry.record),
            }
        }
        Ok(())
    }
}
