//! Parsers of lists and ranges: `0-3,5`, `1.5,2`.

use std::ops::RangeInclusive;

use model::Timestamp;
use profile::TimeRange;

/// Numbers and ranges of numbers in the kernel's form: `0-3,5`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NumberList(pub Vec<RangeInclusive<u32>>);

impl std::str::FromStr for NumberList {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |part: &str| {
            part.trim().parse::<u32>().map_err(|_| format!("`{part}` is not a number; try for example 0-3,5"))
        };
        let range = |part: &str| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let range = number(first)?..=number(last)?;
            if range.is_empty() { Err(format!("the range `{part}` is descending")) } else { Ok(range) }
        };
        text.split(',').map(range).collect::<Result<_, _>>().map(Self)
    }
}

/// Parses a time range in seconds from the start of the recording: `0.5,1.2`. Either end may be omitted: `,3`, `7,`. With `@`, the times
/// are those of the recorder's clock, as `prof script` and `perf script` print them: `@7175.9,@7176.4`.
///
/// # Errors
/// A sentence that describes the mistake.
pub fn time_range(text: &str) -> Result<TimeRange, String> {
    let (start, end) = text
        .split_once(',')
        .ok_or_else(|| "a range is START,END in seconds; either may be omitted".to_owned())?;
    let on_clock = |end: &str| end.trim().strip_prefix('@').map(str::to_owned);
    let ends = [start, end].map(|end| (end.trim().is_empty(), on_clock(end)));
    let from_start = ends.iter().any(|(is_empty, on_clock)| !is_empty && on_clock.is_none());
    if from_start && ends.iter().any(|(_, on_clock)| on_clock.is_some()) {
        return Err(
            "one end has an @ and the other has none: with it they are times of the recording's clock"
                .to_owned(),
        );
    }
    let [(_, on_clock_start), (_, on_clock_end)] = &ends;
    let range = TimeRange {
        start: nanoseconds(on_clock_start.as_deref().unwrap_or(start))?,
        end: nanoseconds(on_clock_end.as_deref().unwrap_or(end))?,
        from_start,
    };
    match (range.start, range.end) {
        (Some(start), Some(end)) if start > end => Err("the range ends before it starts".to_owned()),
        _ => Ok(range),
    }
}

/// Parses seconds with up to nine decimals, without rounding.
fn nanoseconds(text: &str) -> Result<Option<Timestamp>, String> {
    let text = text.trim();
    if text.is_empty() {
        return Ok(None);
    }
    let wrong = || format!("`{text}` is not a number of seconds");
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    if fraction.len() > 9 || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(wrong());
    }
    let whole = if whole.is_empty() { 0 } else { whole.parse::<u64>().map_err(|_| wrong())? };
    let fraction = format!("{fraction:0<9}").parse::<u64>().map_err(|_| wrong())?;
    let nanoseconds = whole.checked_mul(1_000_000_000).and_then(|whole| whole.checked_add(fraction));
    nanoseconds.map(|nanoseconds| Some(Timestamp(nanoseconds))).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_lists() {
        assert_eq!("0-3,5".parse(), Ok(NumberList(vec![0..=3, 5..=5])));
        for wrong in ["3-1", "a", "", "1,,2"] {
            assert!(wrong.parse::<NumberList>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn time_ranges() {
        let range = |start: Option<u64>, end: Option<u64>| {
            Ok(TimeRange { start: start.map(Timestamp), end: end.map(Timestamp), from_start: true })
        };
        let on_clock = |start: Option<u64>, end: Option<u64>| {
            range(start, end).map(|range| TimeRange { from_start: false, ..range })
        };
        assert_eq!(time_range("1.5,2"), range(Some(1_500_000_000), Some(2_000_000_000)));
        assert_eq!(time_range(",0.000000001"), range(None, Some(1)));
        assert_eq!(time_range("7,"), range(Some(7_000_000_000), None));
        assert_eq!(time_range("@1.5,@2"), on_clock(Some(1_500_000_000), Some(2_000_000_000)));
        assert_eq!(time_range("@7,"), on_clock(Some(7_000_000_000), None));
        assert_eq!(time_range(",@7"), on_clock(None, Some(7_000_000_000)));
        for wrong in ["2,1", "1", "1e3,", "99999999999999,", "@1,2", "1,@2", "@,1", "@@1,"] {
            assert!(time_range(wrong).is_err(), "{wrong}");
        }
    }
}
