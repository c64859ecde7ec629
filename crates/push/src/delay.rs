//! How long to wait for the next attempt.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// The wait after the first failure.
const FIRST: Duration = Duration::from_secs(1);
/// The longest wait that doubling leads to.
const LONGEST: Duration = Duration::from_secs(60);
/// The longest wait that a server may ask for.
const LONGEST_ASKED: Duration = Duration::from_secs(600);

/// Waits that double from failure to failure.
#[derive(Clone, Copy, Debug)]
pub struct Backoff {
    next: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { next: FIRST }
    }
}

impl Backoff {
    /// Returns how long to wait now: what the server asked for, bounded, or else between half of and the whole of a time that doubles, at
    /// random, so that many senders do not come at the same time.
    pub fn next(&mut self, asked: Option<Duration>) -> Duration {
        let whole = self.next;
        self.next = (2 * whole).min(LONGEST);
        // A hasher's keys are random.
        let random = RandomState::new().hash_one(0) as u32;
        let jittered = whole / 2 + (whole / 2).mul_f64(f64::from(random) / f64::from(u32::MAX));
        asked.map_or(jittered, |asked| asked.clamp(jittered.min(FIRST), LONGEST_ASKED))
    }
}

/// Parses the value of `Retry-After` (RFC 9110, 10.2.3) where it is a number of seconds. Dates are not heard: engines ask in seconds.
pub(crate) fn retry_after(value: &str) -> Option<Duration> {
    value.trim().parse().ok().map(Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_ask_in_seconds() {
        assert_eq!(retry_after("7"), Some(Duration::from_secs(7)));
        assert_eq!(retry_after("soon"), None);
    }

    #[test]
    fn waits_double_up_to_a_minute_and_hear_the_server() {
        let mut backoff = Backoff::default();
        for seconds in [1, 2, 4, 8, 16, 32, 60, 60] {
            let wait = backoff.next(None);
            let most = Duration::from_secs(seconds);
            assert!((most / 2..=most).contains(&wait), "{wait:?} of {most:?}");
        }
        assert_eq!(backoff.next(Some(Duration::from_secs(5))), Duration::from_secs(5));
        assert_eq!(backoff.next(Some(Duration::from_secs(1 << 40))), LONGEST_ASKED);
        assert!(Backoff::default().next(Some(Duration::ZERO)) >= FIRST / 2);
    }
}
