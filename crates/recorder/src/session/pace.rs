//! Chooses the interval between rounds from how fast the rings fill.

use std::time::Duration;

/// Time to the first round, from which intervals grow. The first round shows whether stacks fit into their copies.
const FIRST_INTERVAL: Duration = Duration::from_millis(2);

/// Shortest interval between rounds once intervals have grown that far; also the interval while the consumer waits for a round.
pub(crate) const MIN_INTERVAL: Duration = Duration::from_millis(10);

/// A round begins when the fullest ring would need this much longer to be full, as the thread that drains it may be late.
const MARGIN: Duration = Duration::from_millis(36);
/// Fill of the fullest ring, from 0 to 1, at which a round begins at the latest.
const MAX_FILL: f64 = 0.4;
/// Fill of the fullest ring, from 0 to 1, before which no round begins, however fast the ring fills.
const MIN_FILL: f64 = 0.15;

/// A ring that is no fuller than this (from 0 to 1) waits for the next round, whatever the pace.
const ALWAYS_WAITING_FILL: f64 = 0.25;
/// Fill above the expected one up to which a ring waits for the next round. Readers check a ring after each quarter that was written:
/// a ring that waits is less than three quarters full at the next check.
const EXPECTED_FILL_MARGIN: f64 = 0.05;

/// The interval between rounds. A round costs as much as ten samples, so there should be few; but samples are unwound in their rings
/// only in rounds, and a ring must not be full before its round.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    time: Duration,
    slowest: Duration,
    /// The expected fill of the fullest ring at the next round.
    expected: f64,
}

impl Pace {
    /// Starts with a short interval, which grows up to `slowest`.
    pub(crate) fn new(slowest: Duration) -> Self {
        Self { time: FIRST_INTERVAL, slowest, expected: 0.0 }
    }

    /// Returns the interval to the next round, at most [`MIN_INTERVAL`] if the consumer waits for it.
    pub(crate) fn time(&self, wanted_soon: bool) -> Duration {
        if wanted_soon { self.time.min(MIN_INTERVAL) } else { self.time }
    }

    /// Returns the fill of a ring, from 0 to 1, above which it is drained before the next round.
    pub(crate) fn max_waiting_fill(&self) -> f64 {
        (self.expected + EXPECTED_FILL_MARGIN).max(ALWAYS_WAITING_FILL)
    }

    /// Adapts to a round that begins `elapsed` after the previous one. `written`: how many times the busiest ring was filled in between.
    pub(crate) fn adapt(&mut self, elapsed: Duration, written: f64) {
        let full = elapsed.as_secs_f64() / written;
        let wanted = (full - MARGIN.as_secs_f64()).min(MAX_FILL * full).max(MIN_FILL * full);
        let wanted = Duration::try_from_secs_f64(wanted).unwrap_or(self.slowest);
        let time = (2 * self.time).min(wanted).min(self.slowest);
        self.expected = time.as_secs_f64() / full;
        self.time = time.max((2 * self.time).min(MIN_INTERVAL));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLOWEST: Duration = Duration::from_millis(100);

    #[test]
    fn rounds_slow_down_until_rings_fill_up() {
        let mut pace = Pace::new(SLOWEST);
        let mut times = Vec::new();
        for _ in 0..7 {
            times.push((pace.time(false).as_millis(), pace.time(true).as_millis()));
            pace.adapt(pace.time(false), 0.0);
        }
        assert_eq!(times, [(2, 2), (4, 4), (8, 8), (16, 10), (32, 10), (64, 10), (100, 10)]);
        assert_eq!(pace.max_waiting_fill(), ALWAYS_WAITING_FILL);
    }

    #[test]
    fn rounds_come_before_rings_are_full() {
        let pace_where_full_after = |milliseconds: u32| {
            let mut pace = Pace::new(SLOWEST);
            for _ in 0..7 {
                let time = pace.time(false);
                pace.adapt(time, time.as_secs_f64() * 1000.0 / f64::from(milliseconds));
            }
            (pace.time(false).as_micros(), (100.0 * pace.max_waiting_fill()).round())
        };
        assert_eq!(pace_where_full_after(10_000), (100_000, 25.0));
        assert_eq!(pace_where_full_after(400), (100_000, 30.0));
        assert_eq!(pace_where_full_after(200), (80_000, 45.0));
        assert_eq!(pace_where_full_after(65), (26_000, 45.0));
        assert_eq!(pace_where_full_after(56), (20_000, 41.0));
        assert_eq!(pace_where_full_after(44), (MIN_INTERVAL.as_micros(), 25.0));
        assert_eq!(pace_where_full_after(20), (MIN_INTERVAL.as_micros(), 25.0), "no faster than that");
    }
}
