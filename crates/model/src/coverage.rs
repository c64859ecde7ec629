//! Compares what an event's samples stand for with what the event itself counted.

use alloc::string::String;

/// Fewer missing samples than this are the last, unfinished periods of a few threads.
const MIN_MISSING_SAMPLES: u64 = 20;
/// A smaller share than this of what is due is within what clocks and counters differ by.
const MIN_MISSING_SHARE: f64 = 0.05;

/// The number of events that the samples stand for, beside the number that the event has counted.
#[derive(Clone, PartialEq, Debug)]
pub struct Coverage {
    /// The event's name.
    pub event: String,
    /// Samples that reached us.
    pub samples: u64,
    /// The sum of their periods: events, or nanoseconds of a clock.
    pub sampled: u64,
    /// The event's own count, in the same unit; `None` where that is not known, or not comparable.
    pub counted: Option<u64>,
}

impl Coverage {
    /// Returns the number of samples that are missing for want of whole periods; `lost` ones were taken and are
    /// accounted for elsewhere.
    /// `None` where that are few.
    pub fn missing(&self, lost: u64) -> Option<u64> {
        let counted = self.counted?;
        // Without samples, the period of a lost one is not known.
        let period = self.sampled.checked_div(self.samples)?.max(1);
        let taken = self.sampled.saturating_add(period.saturating_mul(lost));
        let missing = counted.saturating_sub(taken);
        let is_large = missing as f64 > MIN_MISSING_SHARE * counted as f64;
        (is_large && missing / period > MIN_MISSING_SAMPLES).then_some(missing / period)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::borrow::ToOwned;

    fn coverage(samples: u64, sampled: u64, counted: Option<u64>) -> Coverage {
        Coverage { event: "cpu-clock".to_owned(), samples, sampled, counted }
    }

    #[test]
    fn only_many_missing_samples_are_told() {
        let of_ten = |samples, counted| coverage(samples, 10 * samples, Some(counted));
        assert_eq!(of_ten(400, 6_800).missing(0), Some(280));
        assert_eq!(of_ten(400, 6_800).missing(270), None, "they were lost");
        assert_eq!(of_ten(10_000, 100_300).missing(0), None, "a small share");
        assert_eq!(of_ten(10, 210).missing(0), None, "a few samples");
        assert_eq!(of_ten(400, 100).missing(0), None, "more than was counted");
        assert_eq!(coverage(0, 0, Some(1_000)).missing(0), None);
        assert_eq!(coverage(400, 4_000, None).missing(0), None);
    }
}
