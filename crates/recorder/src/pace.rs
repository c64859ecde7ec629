//! How fast rounds follow each other.

use std::time::Duration;

/// How soon the first round comes; the times grow from there, so that a recording that dies young is not empty. Rounds follow
/// each other as quickly while the consumer is in haste.
pub(crate) const FIRST: Duration = Duration::from_millis(10);

/// About how full the fullest ring should be at each round, of 1. Samples are seen to where they lie: what the kernel wrote
/// long ago has left the caches, and the fuller the ring, the sooner its reader has to copy them out.
const FILL: f64 = 0.15;

/// The time between rounds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    time: Duration,
    slowest: Duration,
}

impl Pace {
    /// Begins fast, and gets no slower than `slowest`.
    pub(crate) fn new(slowest: Duration) -> Self {
        Self { time: FIRST, slowest }
    }

    /// The time to the next round.
    pub(crate) fn time(&self, in_haste: bool) -> Duration {
        if in_haste { FIRST } else { self.time }
    }

    /// A round began, `elapsed` after the one before; the fullest ring was as full as `fill`, of 1.
    pub(crate) fn adapt(&mut self, elapsed: Duration, fill: f64) {
        let filling =
            Duration::try_from_secs_f64(elapsed.as_secs_f64() * FILL / fill).unwrap_or(self.slowest);
        self.time = (2 * self.time).min(filling).clamp(FIRST, self.slowest);
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
        for _ in 0..5 {
            times.push(pace.time(false).as_millis());
            pace.adapt(pace.time(false), 0.0);
        }
        assert_eq!(times, [10, 20, 40, 80, 100]);
        assert_eq!(pace.time(true), FIRST);
        pace.adapt(SLOWEST, 2.0 * FILL);
        assert_eq!(pace.time(false), SLOWEST / 2);
        pace.adapt(SLOWEST / 2, 2.0 * FILL);
        assert_eq!(pace.time(false), SLOWEST / 4);
        pace.adapt(SLOWEST / 4, 1.0);
        assert_eq!(pace.time(false), FIRST, "no faster than that");
    }
}
