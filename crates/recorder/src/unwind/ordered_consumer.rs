//! The trait of consumers that take records in the order of time.

use std::io;

use decoder::Sample;
use model::{EventIndex, SpaceId, Timestamp};
use tracker::{OrderedRecord, Tracker};

use crate::consumer::RecordingSink;

/// Takes the records of a recording in the order of time over all rings, from a [`super::UnwindingStage`]: no record is older than
/// one that came before it. Its tracker follows threads and mappings for both.
pub trait OrderedConsumer: RecordingSink {
    /// Returns the tracker, in the state of the recorded machine at the last record.
    fn tracker(&mut self) -> &mut Tracker;

    /// Takes the next record, as the kernel wrote it, and applies it to the tracker. Its event is `None` for records that the
    /// recorder has made, and for those of an unknown event. `time` is 0 for a record without one.
    ///
    /// # Errors
    /// Those of the destination; the recording then ends.
    fn record(&mut self, time: Timestamp, record: OrderedRecord<'_>) -> io::Result<()>;

    /// Takes the next record, a sample of `event` that the stage had to decode: with its user stack unwound, or with the raw
    /// stack where that is kept.
    ///
    /// # Errors
    /// Those of the destination; the recording then ends.
    fn sample(&mut self, time: Timestamp, event: EventIndex, sample: Sample<'_>) -> io::Result<()>;

    /// Lets the tracker forget spaces, if it has too many, except those for which `is_known` returns true. Called after each
    /// round.
    fn forget_spaces(&mut self, is_known: &dyn Fn(SpaceId) -> bool);
}

impl<C: OrderedConsumer> OrderedConsumer for &mut C {
    fn tracker(&mut self) -> &mut Tracker {
        (**self).tracker()
    }

    fn record(&mut self, time: Timestamp, record: OrderedRecord<'_>) -> io::Result<()> {
        (**self).record(time, record)
    }

    fn sample(&mut self, time: Timestamp, event: EventIndex, sample: Sample<'_>) -> io::Result<()> {
        (**self).sample(time, event, sample)
    }

    fn forget_spaces(&mut self, is_known: &dyn Fn(SpaceId) -> bool) {
        (**self).forget_spaces(is_known);
    }
}
