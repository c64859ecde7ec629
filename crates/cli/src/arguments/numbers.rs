//! Parsers of single numbers.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

use model::Name;

/// Returns a parser of numbers in `range`, whose error names the range.
pub fn within<T>(range: RangeInclusive<T>) -> impl Fn(&str) -> Result<T, String> + Clone
where
    T: FromStr + PartialOrd + Display + Clone,
{
    move |text| {
        let number = text.parse().ok().filter(|number| range.contains(number));
        number.ok_or_else(|| format!("a number from {} to {}", range.start(), range.end()))
    }
}

/// Parses a size with the unit `K`, `M` or `G`, in capitals because `m` means minutes, below 1 TiB.
///
/// # Errors
/// The text is no such size.
pub fn bytes_with_unit(text: &str) -> Result<u64, String> {
    let wrong = || "a size such as 512K, 64M or 1G".to_owned();
    let factor = match text.chars().last() {
        Some('K') => 1 << 10,
        Some('M') => 1 << 20,
        Some('G') => 1 << 30,
        _ => return Err(wrong()),
    };
    let number = text.get(..text.len() - 1).and_then(|number| number.parse::<u64>().ok());
    let size = number.and_then(|number| number.checked_mul(factor));
    size.filter(|size| (1..1 << 40).contains(size)).ok_or_else(wrong)
}

/// Parses a percentage.
///
/// # Errors
/// The text is not a number from 0 to 100.
pub fn percent(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(percent) if (0.0..=100.0).contains(&percent) => Ok(percent),
        _ => Err("not between 0 and 100".to_owned()),
    }
}

/// Parses the pid of a process or the tid of a thread.
///
/// # Errors
/// A sentence that says how to find a pid.
pub fn process_number(text: &str) -> Result<i32, String> {
    match text.parse() {
        Ok(number) if number > 0 => Ok(number),
        _ if text.is_empty() || text.starts_with('-') || text.parse::<i128>().is_ok() => {
            Err("processes and threads have numbers from 1 on; ps and pgrep print them".to_owned())
        }
        _ => Err(format!(
            "not the number of a process; to find one by name, try: pgrep -n '{}'",
            Name::from(text)
        )),
    }
}

/// The shortest time between two reports, or that a window or file spans.
pub const MIN_SPAN: Duration = Duration::from_millis(100);

/// Parses a number of seconds above 0, with or without a trailing `s`.
///
/// # Errors
/// The text is not such a number.
pub fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.strip_suffix('s').unwrap_or(text).parse::<f64>().ok();
    seconds
        .filter(|seconds| *seconds > 0.0)
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .ok_or_else(|| "a number of seconds above 0".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_says_what_would_be_right() {
        assert_eq!(process_number("17"), Ok(17));
        assert!(process_number("abc").unwrap_err().ends_with("pgrep -n 'abc'"));
        for bad in ["", "0", "-1", "99999999999999999999"] {
            assert!(process_number(bad).unwrap_err().contains("from 1 on"), "{bad}");
        }
        let level = within(1..=22);
        assert_eq!(level("22"), Ok(22));
        for bad in ["", "0", "-1", "23", "x", "1e3"] {
            assert_eq!(level(bad), Err("a number from 1 to 22".to_owned()), "{bad}");
        }
    }
}
