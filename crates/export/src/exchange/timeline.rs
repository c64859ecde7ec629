//! The time axis of formats with single samples: times of samples, and gaps between them.

use model::{Gap, Timestamp};

use super::dictionary::{Dictionary, TimedSample};
use super::{ExportedEvent, ExportedRecording};

/// The time between samples, in nanoseconds, if the recording does not state it.
const DEFAULT_INTERVAL_NS: u64 = 1_000_000;

/// The time axis of a recording, in nanoseconds of its clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timeline {
    /// The time of the first sample.
    pub(super) origin: u64,
    /// The time from the first sample to the last.
    pub(super) length: u64,
    /// The time from one sample of a running thread to the next.
    pub(super) interval: u64,
    is_timed: bool,
}

impl Timeline {
    pub(super) fn new(recording: &ExportedRecording<'_>, dictionary: &Dictionary) -> Self {
        let interval = interval(recording.events.first());
        let (mut first, mut last, mut is_timed, mut longest) = (u64::MAX, 0, true, 0);
        for event in 0..recording.events.len() {
            let mut samples = 0_u64;
            for sample in dictionary.timed(recording, event) {
                samples += 1;
                match sample.time {
                    Some(time) => (first, last) = (first.min(time), last.max(time)),
                    // Times are used only if all samples have one.
                    None => is_timed = false,
                }
            }
            longest = longest.max(samples);
        }
        match is_timed && first <= last {
            true => Self { origin: first, length: last - first, interval, is_timed },
            false => Self { origin: 0, length: longest.saturating_mul(interval), interval, is_timed: false },
        }
    }

    /// Returns a time axis with this origin and interval, for tests.
    #[cfg(test)]
    pub(super) fn at(origin: u64, interval: u64) -> Self {
        Self { origin, length: 0, interval, is_timed: true }
    }

    /// Returns the time from the first sample to this one, in nanoseconds. `index` is its index among the samples of its
    /// event: samples without times are taken to be an interval apart.
    pub(super) fn since_start(&self, sample: &TimedSample, index: u64) -> u64 {
        match sample.time {
            Some(time) if self.is_timed => time.saturating_sub(self.origin),
            _ => index.saturating_mul(self.interval),
        }
    }

    /// Returns the gaps in the order of time, relative to the first sample. Losses of unknown time become gaps over the
    /// whole recording.
    pub(super) fn gaps(&self, recording: &ExportedRecording<'_>) -> Vec<Gap> {
        let since = |time: Timestamp| Timestamp(time.0.saturating_sub(self.origin));
        let gaps = recording.gaps.iter();
        let mut gaps: Vec<Gap> =
            gaps.map(|gap| Gap { start: since(gap.start), end: since(gap.end), lost: gap.lost }).collect();
        if gaps.iter().all(|gap| gap.lost == 0) {
            let losses = recording.events.iter().map(|event| event.view.profile().loss.samples);
            let losses = losses.filter(|&lost| lost > 0);
            gaps.extend(losses.map(|lost| Gap { start: Timestamp(0), end: Timestamp(self.length), lost }));
        }
        gaps.sort_by_key(|gap| gap.start);
        gaps
    }
}

fn interval(event: Option<&ExportedEvent<'_>>) -> u64 {
    let of_event = event.and_then(|event| match (event.frequency, event.period) {
        (Some(frequency), _) => 1_000_000_000_u64.checked_div(frequency),
        (None, period) => period.filter(|_| event.is_clock),
    });
    of_event.unwrap_or(DEFAULT_INTERVAL_NS).max(1)
}
