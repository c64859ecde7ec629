//! How long to wait for the next attempt.

use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, SystemTime};

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

/// Parses the value of `Retry-After` (RFC 9110, 10.2.3): seconds, or a date. A date that has passed is no wait.
pub(crate) fn retry_after(value: &str, now: SystemTime) -> Option<Duration> {
    let value = value.trim();
    if let Ok(seconds) = value.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(date(value)?))?;
    Some(date.duration_since(now).unwrap_or_default())
}

/// Parses a date as HTTP writes it, `Sun, 06 Nov 1994 08:49:37 GMT`, to seconds since 1970. Dates before are `None`.
fn date(text: &str) -> Option<u64> {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let (_, rest) = text.split_once(", ")?;
    let fields: Vec<&str> = rest.split(' ').collect();
    let &[day, month, year, time, "GMT"] = fields.as_slice() else { return None };
    let month = MONTHS.iter().position(|name| *name == month)? as u64;
    let (day, year): (u64, u64) = (day.parse().ok()?, year.parse().ok()?);
    let mut time = time.split(':').map(|part| part.parse::<u64>().ok());
    let (hour, minute, second) = (time.next()??, time.next()??, time.next()??);
    let is_date =
        (1..=31).contains(&day) && (1970..=9999).contains(&year) && hour < 24 && minute < 60 && second <= 60;
    if !is_date {
        return None;
    }
    // Years begin in March, so that the leap day is the last of its year.
    let (year, month) = if month < 2 { (year - 1, month + 10) } else { (year, month - 2) };
    let days_before_month = (153 * month + 2) / 5;
    let days = 365 * year + year / 4 - year / 100 + year / 400 + days_before_month + day - 1;
    /// Days from 1 March of the year 0 to 1 January 1970.
    const DAYS_TO_1970: u64 = 719_468;
    Some(days.checked_sub(DAYS_TO_1970)? * 86_400 + hour * 3600 + minute * 60 + second)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_read_as_http_writes_them() {
        assert_eq!(date("Sun, 06 Nov 1994 08:49:37 GMT"), Some(784_111_777));
        assert_eq!(date("Thu, 01 Jan 1970 00:00:00 GMT"), Some(0));
        assert_eq!(date("Thu, 29 Feb 2024 12:00:00 GMT"), Some(1_709_208_000));
        for text in [
            "",
            "Sunday, 06-Nov-94 08:49:37 GMT",
            "Sun, 06 Nov 1994 08:49 GMT",
            "Sun, 99 Nov 1994 08:49:37 GMT",
        ] {
            assert_eq!(date(text), None, "{text}");
        }
    }

    #[test]
    fn servers_ask_in_seconds_or_for_a_date() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
        assert_eq!(retry_after("7", now), Some(Duration::from_secs(7)));
        assert_eq!(retry_after("Sun, 06 Nov 1994 08:50:07 GMT", now), Some(Duration::from_secs(30)));
        assert_eq!(retry_after("Sun, 06 Nov 1994 08:00:00 GMT", now), Some(Duration::ZERO));
        assert_eq!(retry_after("soon", now), None);
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
