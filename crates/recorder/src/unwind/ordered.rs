//! What takes records when their turn in time has come.

use std::io;

use decoder::Sample;
use model::{EventIndex, SpaceId, Timestamp};
use tracker::{OrderedRecord, Tracker};

use crate::consumer::Destination;

/// Takes the records of a recording in the order of time over all rings, from [`super::InOrder`]: none that comes later is older.
/// It follows threads and mappings, for itself and for the stage before it.
pub trait OrderedConsumer: Destination {
    /// The recorded machine at the moment of the last record.
    fn tracker(&mut self) -> &mut Tracker;

    /// Takes the next record, as the kernel wrote it, and applies it to the tracker. Its event is `None` for records that the
    /// recorder has made, and for those of an unknown event. `time` is 0 where it has none.
    ///
    /// # Errors
    /// Those of the destination; the recording then ends.
    fn record(&mut self, time: Timestamp, record: OrderedRecord<'_>) -> io::Result<()>;

    /// Takes the next record, a sample of `event` that had to be decoded: its user stack is known now.
    ///
    /// # Errors
    /// Those of the destination; the recording then ends.
    fn sample(&mut self, time: Timestamp, event: EventIndex, sample: Sample<'_>) -> io::Result<()>;

    /// All that is ready has come, and a moment passes. Lets the tracker forget spaces, where there are too many, but for those
    /// that `is_known` holds for.
    fn forget_spaces(&mut self, is_known: &dyn Fn(SpaceId) -> bool);
}

impl<C: OrderedConsumer + ?Sized> OrderedConsumer for &mut C {
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
