//! The value of a counter, with the times for which it was enabled and running.

use decoder::values::CounterValue;
use decoder::{ReadFormat, ReadValues};

/// The count of one event, or the sum of several, with the times that it covers.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Reading {
    /// The count as read.
    pub value: u64,
    /// Nanoseconds for which the event was enabled (`PERF_FORMAT_TOTAL_TIME_ENABLED`).
    pub enabled_ns: u64,
    /// Nanoseconds of that for which it was counting (`PERF_FORMAT_TOTAL_TIME_RUNNING`).
    pub running_ns: u64,
}

impl Reading {
    /// Returns the count as it would be if the event had counted all the time that it was enabled: `value * enabled / running`.
    /// `None` where it never counted; `u64::MAX` where the result is larger.
    pub fn scaled(&self) -> Option<u64> {
        if self.running_ns == 0 {
            return None;
        }
        if self.running_ns >= self.enabled_ns {
            return Some(self.value);
        }
        // In 128 bits nothing overflows; perf, in 64 bits, divides first.
        let scaled = u128::from(self.value) * u128::from(self.enabled_ns) / u128::from(self.running_ns);
        Some(u64::try_from(scaled).unwrap_or(u64::MAX))
    }

    /// Returns the share of the enabled time in which the event counted, from 0 to 1; 1 where it was never enabled.
    pub fn share(&self) -> f64 {
        match self.enabled_ns {
            0 => 1.0,
            enabled => (self.running_ns as f64 / enabled as f64).min(1.0),
        }
    }

    /// Returns the sum of two readings.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        Self {
            value: self.value.saturating_add(other.value),
            enabled_ns: self.enabled_ns.saturating_add(other.enabled_ns),
            running_ns: self.running_ns.saturating_add(other.running_ns),
        }
    }

    /// Returns what was counted since `before`. No difference is below 0: the kernel may add the count of a thread that has ended
    /// later than its times.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        Self {
            value: self.value.saturating_sub(before.value),
            enabled_ns: self.enabled_ns.saturating_sub(before.enabled_ns),
            running_ns: self.running_ns.saturating_sub(before.running_ns),
        }
    }
}

/// Parses the words that `read(2)` gave: of each event its id (0 where the format has none) and its reading. `None`
/// where they are fewer than the format says.
pub(super) fn parse(format: ReadFormat, words: &[u64]) -> Option<Vec<(u64, Reading)>> {
    let values = ReadValues::parse(format, words)?;
    let (enabled_ns, running_ns) = (values.time_enabled.unwrap_or(0), values.time_running.unwrap_or(0));
    let reading = |counter: &CounterValue| Reading { value: counter.value, enabled_ns, running_ns };
    Some(values.counters.iter().map(|counter| (counter.id.unwrap_or(0), reading(counter))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(value: u64, enabled_ns: u64, running_ns: u64) -> Reading {
        Reading { value, enabled_ns, running_ns }
    }

    #[test]
    fn scaling_is_that_of_the_kernel_and_does_not_overflow() {
        assert_eq!(reading(100, 10, 10).scaled(), Some(100));
        assert_eq!(reading(100, 10, 4).scaled(), Some(250));
        assert_eq!(reading(5, 10, 0).scaled(), None);
        assert_eq!(reading(u64::MAX, u64::MAX, 1).scaled(), Some(u64::MAX));
        // `quot * enabled + rem * enabled / running` of the manual page, where that fits.
        for (value, enabled, running) in
            [(u64::MAX / 3, 3, 2), (1 << 62, 1_000_000_007, 1_000_000_006), (7, 9, 5)]
        {
            let (quotient, rest) = (value / running, value % running);
            let manual = quotient * enabled + rest * enabled / running;
            assert_eq!(reading(value, enabled, running).scaled(), Some(manual));
        }
    }

    #[test]
    fn shares_sums_and_differences() {
        assert!((reading(1, 10, 4).share() - 0.4).abs() < 1e-12);
        assert!((reading(0, 0, 0).share() - 1.0).abs() < 1e-12);
        let sum = reading(u64::MAX, 5, 4).plus(&reading(3, 5, 4));
        assert_eq!(sum, reading(u64::MAX, 10, 8));
        assert_eq!(reading(3, 10, 8).since(&reading(5, 4, 4)), reading(0, 6, 4));
    }

    #[test]
    fn each_event_of_a_group_has_the_times_of_the_group() {
        let format = ReadFormat::GROUP
            | ReadFormat::TOTAL_TIME_ENABLED
            | ReadFormat::TOTAL_TIME_RUNNING
            | ReadFormat::ID
            | ReadFormat::LOST;
        let words = [2, 10, 8, 100, 7, 0, 200, 8, 0];
        assert_eq!(parse(format, &words), Some(vec![(7, reading(100, 10, 8)), (8, reading(200, 10, 8))]));
        assert_eq!(parse(format, &words[..8]), None);
        assert_eq!(parse(ReadFormat::empty(), &[5]), Some(vec![(0, reading(5, 0, 0))]));
    }
}
