//! Observers: what looks at the records of a recording as they come, changes none, and may add samples of its own.

use std::io;
use std::time::Instant;

use super::{Chunk, Consumer, Ending, Recording, RecordingSink, RingKind};
use crate::notice::Notice;

/// Looks at the records of a recording as they are drained from the rings, those of members alone where whole CPUs are recorded in
/// the place of a command. To add one: implement this, and put it into the list of [`crate::record`].
pub trait RecordObserver {
    /// Called when the events are open and nothing has been recorded yet.
    fn begin(&mut self, recording: &Recording);

    /// Called with the records of one ring, in its order, before they go on.
    fn observe(&mut self, chunk: &Chunk);

    /// Returns samples to be recorded, which were made since the last round: none is older than that.
    fn take_records(&mut self) -> Vec<u8> {
        Vec::new()
    }

    /// Called after each round ([`RecordingSink::finished_round`]). Adds its notices for the user.
    fn finished_round(&mut self, _notices: &mut Vec<Notice>) {}

    /// Called when no record follows, before the output is finished. Adds its notices for the user.
    fn end(&mut self, _notices: &mut Vec<Notice>) {}
}

/// A stage that forwards everything, and tells observers of it.
pub(crate) struct Observed<'c, 'o> {
    consumer: &'c mut dyn Consumer,
    observers: Vec<&'c mut (dyn RecordObserver + 'o)>,
    notices: Vec<Notice>,
}

impl<'c, 'o> Observed<'c, 'o> {
    pub(crate) fn new(
        consumer: &'c mut dyn Consumer,
        observers: Vec<&'c mut (dyn RecordObserver + 'o)>,
    ) -> Self {
        Self { consumer, observers, notices: Vec::new() }
    }
}

impl RecordingSink for Observed<'_, '_> {
    fn next(&mut self) -> Option<&mut dyn RecordingSink> {
        Some(self.consumer)
    }

    fn begin(&mut self, recording: &Recording) -> io::Result<()> {
        self.observers.iter_mut().for_each(|observer| observer.begin(recording));
        self.consumer.begin(recording)
    }

    fn finished_round(&mut self) -> io::Result<()> {
        for observer in &mut self.observers {
            let records = observer.take_records();
            if !records.is_empty() {
                self.consumer.consume(Chunk::new(RingKind::Samples, records))?;
            }
        }
        self.consumer.finished_round()?;
        self.observers.iter_mut().for_each(|observer| observer.finished_round(&mut self.notices));
        Ok(())
    }

    fn take_notices(&mut self) -> Vec<Notice> {
        let mut notices = std::mem::take(&mut self.notices);
        notices.extend(self.consumer.take_notices());
        notices
    }

    fn end(&mut self, ending: &Ending) -> io::Result<()> {
        self.observers.iter_mut().for_each(|observer| observer.end(&mut self.notices));
        self.consumer.end(ending)
    }
}

impl Consumer for Observed<'_, '_> {
    fn consume(&mut self, chunk: Chunk) -> io::Result<Option<Vec<u8>>> {
        self.observers.iter_mut().for_each(|observer| observer.observe(&chunk));
        self.consumer.consume(chunk)
    }

    fn shorten_sample(&mut self, sample: &[u8], until: Instant, into: &mut Chunk) -> bool {
        self.consumer.shorten_sample(sample, until, into)
    }
}
