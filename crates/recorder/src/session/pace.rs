//! How fast rounds follow each other.

use std::time::Duration;

/// The time to the first round; the times grow from there. It shows whether the stacks fit their copies.
const FIRST: Duration = Duration::from_millis(2);

/// The shortest interval between rounds once they have grown that far, also while the consumer is in haste.
pub(crate) const SOON: Duration = Duration::from_millis(10);

/// A round comes when its fullest ring will take so much longer to be full: who empties it may be late.
const LEFT: Duration = Duration::from_millis(36);
/// The fill of its fullest ring, of 1, at which a round comes at the latest.
const MOST_FILL: f64 = 0.4;
/// The fill before which no round comes, where a ring is full so soon.
const LEAST_FILL: f64 = 0.15;

/// A ring that is no fuller than this can wait for the next round, whatever its pace is.
const LITTLE_FILL: f64 = 0.25;
/// The fill beyond the expected one up to which a ring can wait. Readers look at each quarter that was written: one that is left then
/// is less than three quarters full at the next look.
const MORE_THAN_EXPECTED: f64 = 0.05;

/// The time between rounds. Each costs as much as ten samples, so that there should be few; samples are seen to where they lie,
/// in the ring, which must not be full before.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    time: Duration,
    slowest: Duration,
    /// The expected fill of the fullest ring at the next round.
    expected: f64,
}

impl Pace {
    /// Begins fast, and gets no slower than `slowest`.
    pub(crate) fn new(slowest: Duration) -> Self {
        Self { time: FIRST, slowest, expected: 0.0 }
    }

    /// The time to the next round.
    pub(crate) fn time(&self, in_haste: bool) -> Duration {
        if in_haste { self.time.min(SOON) } else { self.time }
    }

    /// Returns the share of a ring, from 0 to 1, that may be full before it is emptied early.
    pub(crate) fn waits_until(&self) -> f64 {
        (self.expected + MORE_THAN_EXPECTED).max(LITTLE_FILL)
    }

    /// A round began, `elapsed` after the one before; in between, the ring with the most records was `written` so many times full.
    pub(crate) fn adapt(&mut self, elapsed: Duration, written: f64) {
        let full = elapsed.as_secs_f64() / written;
        let wanted = (full - LEFT.as_secs_f64()).min(MOST_FILL * full).max(LEAST_FILL * full);
        let wanted = Duration::try_from_secs_f64(wanted).unwrap_or(self.slowest);
        let time = (2 * self.time).min(wanted).min(self.slowest);
        self.expected = time.as_secs_f64() / full;
        self.time = time.max((2 * self.time).min(SOON));
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
        assert_eq!(pace.waits_until(), LITTLE_FILL);
    }

    #[test]
    fn rounds_come_before_rings_are_full() {
        let pace_where_full_after = |milliseconds: u32| {
            let mut pace = Pace::new(SLOWEST);
            for _ in 0..7 {
                let time = pace.time(false);
                pace.adapt(time, time.as_secs_f64() * 1000.0 / f64::from(milliseconds));
            }
            (pace.time(false).as_micros(), (100.0 * pace.waits_until()).round())
        };
        assert_eq!(pace_where_full_after(10_000), (100_000, 25.0));
        assert_eq!(pace_where_full_after(400), (100_000, 30.0));
        assert_eq!(pace_where_full_after(200), (80_000, 45.0));
        assert_eq!(pace_where_full_after(65), (26_000, 45.0));
        assert_eq!(pace_where_full_after(56), (20_000, 41.0));
        assert_eq!(pace_where_full_after(44), (SOON.as_micros(), 25.0));
        assert_eq!(pace_where_full_after(20), (SOON.as_micros(), 25.0), "no faster than that");
    }
}
