//! Compares what an event's samples stand for with what the event itself counted.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;

/// Fewer missing samples than this are the last, unfinished periods of a few threads.
const MIN_MISSING_SAMPLES: u64 = 20;
/// A smaller share than this of what is due is within what clocks and counters differ by.
pub const MIN_MISSING_SHARE: f64 = 0.05;

/// The main reason why an event has fewer samples than it has counted.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Shortfall {
    /// The reason is not known.
    #[default]
    Unknown,
    /// Threads and processes ended, each within a period.
    ShortLives,
    /// Threads live on that run for less than a period at a time: each of their events, one per CPU, has an unfinished one.
    ShortRuns,
    /// The kernel throttled the event.
    Throttled,
    /// Ticks of a clock came so late that several were one.
    LateTicks,
    /// The kernel ended the events of processes that executed programs with more rights.
    MoreRights,
    /// Samples were lost, and how many could not be read.
    UnreadLosses,
    /// Samples were lost.
    Losses,
}

impl Shortfall {
    /// All, by the numbers that stand for them in files.
    const ALL: [Self; 8] = [
        Self::Unknown,
        Self::ShortLives,
        Self::ShortRuns,
        Self::Throttled,
        Self::LateTicks,
        Self::MoreRights,
        Self::UnreadLosses,
        Self::Losses,
    ];

    /// Returns the number that stands for the reason in a file.
    pub fn number(self) -> u64 {
        Self::ALL.iter().position(|reason| *reason == self).map_or(0, |place| place as u64)
    }

    /// Returns the reason with this number; [`Shortfall::Unknown`] for one of a later version.
    pub fn from_number(number: u64) -> Self {
        usize::try_from(number).ok().and_then(|place| Self::ALL.get(place)).copied().unwrap_or_default()
    }

    /// Returns the reason in words. `period` is the mean period of a sample, in words.
    pub fn in_words(self, period: &str) -> String {
        match self {
            Self::Unknown => "why is not known".to_owned(),
            Self::ShortLives => format!("threads that end within {period} have none"),
            Self::ShortRuns => format!("threads lack their last {period} on each CPU"),
            Self::Throttled => "the kernel throttled the event".to_owned(),
            Self::LateTicks => "ticks of the clock came so late that several were one".to_owned(),
            Self::MoreRights => "what programs with more rights did is among it".to_owned(),
            Self::UnreadLosses => "lost samples are among them, and how many could not be read".to_owned(),
            Self::Losses => "samples were lost".to_owned(),
        }
    }
}

/// Samples that an event lacks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MissingSamples {
    /// The position of the event in the recording.
    pub event: u64,
    /// Samples that there should be.
    pub due: u64,
    /// Those of them that are missing for want of whole periods; lost ones are counted elsewhere.
    pub missing: u64,
    /// The mean period of a sample, in the event's unit.
    pub period: u64,
    /// The reason.
    pub reason: Shortfall,
}

impl MissingSamples {
    /// Returns the missing share in per cent.
    pub fn percent(&self) -> f64 {
        100.0 * self.missing as f64 / self.due.max(1) as f64
    }
}

/// The number of events that the samples stand for, beside the number that the event has counted.
#[derive(Clone, PartialEq, Eq, Debug)]
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

    fn coverage(samples: u64, sampled: u64, counted: Option<u64>) -> Coverage {
        Coverage { event: "cpu-clock".to_owned(), samples, sampled, counted }
    }

    #[test]
    fn reasons_have_numbers_that_come_back() {
        for (number, reason) in Shortfall::ALL.into_iter().enumerate() {
            assert_eq!((reason.number(), Shortfall::from_number(number as u64)), (number as u64, reason));
        }
        assert_eq!(Shortfall::from_number(u64::MAX), Shortfall::Unknown);
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
