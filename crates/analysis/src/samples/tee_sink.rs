//! A sink that passes everything on to two others, so that a recording is read once for both.

use decoder::record::Read;
use decoder::{DecodeError, Record};
use tracker::{OrderedRecord, SampleSink, TrackedSample, Tracker};

/// Passes samples and records to `first`, and then to `second` if there is one.
pub(crate) struct TeeSink<First, Second> {
    pub(crate) first: First,
    pub(crate) second: Option<Second>,
}

impl<First: SampleSink, Second: SampleSink<Error = First::Error>> SampleSink for TeeSink<First, Second> {
    type Error = First::Error;

    fn sample(&mut self, sample: TrackedSample<'_>) -> Result<(), Self::Error> {
        let TrackedSample { tracker, event, sample, period, deferred } = sample;
        self.first.sample(TrackedSample { tracker: &mut *tracker, event, sample, period, deferred })?;
        match &mut self.second {
            Some(second) => second.sample(TrackedSample { tracker, event, sample, period, deferred }),
            None => Ok(()),
        }
    }

    fn settle(&mut self, tracker: &mut Tracker) {
        self.first.settle(tracker);
        if let Some(second) = &mut self.second {
            second.settle(tracker);
        }
    }

    fn record(&mut self, record: &Record<'_>) {
        self.first.record(record);
        if let Some(second) = &mut self.second {
            second.record(record);
        }
    }

    fn task_time(&mut self, read: &Read<'_>) {
        self.first.task_time(read);
        if let Some(second) = &mut self.second {
            second.task_time(read);
        }
    }

    fn undecodable(&mut self, record: &OrderedRecord<'_>, error: DecodeError) {
        // Each undecodable record must be counted and reported once, so only the first sink learns of it.
        self.first.undecodable(record, error);
    }
}
