//! The value of a counter with its times (`perf_event_open(2)`, "Reading results").

use decoder::ReadFormat;

/// The reading of a counter: its count, and the time that it covers: of one event, or the sum of several.
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
    /// The count as it would be had the event counted all the time: `value * enabled / running`, without overflow. `None` where it
    /// never counted.
    pub fn scaled(&self) -> Option<u64> {
        if self.running_ns == 0 {
            return None;
        }
        if self.running_ns >= self.enabled_ns {
            return Some(self.value);
        }
        // 64 by 64 bits fit into 128; the kernel's tools, without these, divide first.
        let scaled = u128::from(self.value) * u128::from(self.enabled_ns) / u128::from(self.running_ns);
        Some(u64::try_from(scaled).unwrap_or(u64::MAX))
    }

    /// The share of the time in which it counted, from 0 to 1; 1 where it was never enabled.
    pub fn share(&self) -> f64 {
        match self.enabled_ns {
            0 => 1.0,
            enabled => (self.running_ns as f64 / enabled as f64).min(1.0),
        }
    }

    /// Adds both readings together.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        Self {
            value: self.value.saturating_add(other.value),
            enabled_ns: self.enabled_ns.saturating_add(other.enabled_ns),
            running_ns: self.running_ns.saturating_add(other.running_ns),
        }
    }

    /// Returns the count since `before`. Counts of threads that ended may be summed up later than their times:
    /// nothing goes below 0.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        Self {
            value: self.value.saturating_sub(before.value),
            enabled_ns: self.enabled_ns.saturating_sub(before.enabled_ns),
            running_ns: self.running_ns.saturating_sub(before.running_ns),
        }
    }
}

/// Returns the number of words that `read(2)` gives for an event with `members` in its group, itself included.
pub(super) fn words(format: ReadFormat, members: usize) -> usize {
    let has = |bit| usize::from(format.contains(bit));
    let times = has(ReadFormat::TOTAL_TIME_ENABLED) + has(ReadFormat::TOTAL_TIME_RUNNING);
    let each = 1 + has(ReadFormat::ID) + has(ReadFormat::LOST);
    has(ReadFormat::GROUP)
        + times
        + each * if format.contains(ReadFormat::GROUP) { members.max(1) } else { 1 }
}

/// Parses the words that `read(2)` gave: of each event its id (0 where the format has none) and its reading. `None`
/// where it is shorter than it says.
pub(super) fn parse(format: ReadFormat, words: &[u64]) -> Option<Vec<(u64, Reading)>> {
    let mut rest = words.iter().copied();
    let has = |bit| format.contains(bit);
    let group = has(ReadFormat::GROUP);
    let first = rest.next()?;
    let mut time = |bit| if has(bit) { rest.next() } else { Some(0) };
    let enabled_ns = time(ReadFormat::TOTAL_TIME_ENABLED)?;
    let running_ns = time(ReadFormat::TOTAL_TIME_RUNNING)?;
    let count = if group { usize::try_from(first).ok()? } else { 1 };
    // At least a word each: what does not fit is no count.
    if count > words.len() {
        return None;
    }
    let mut readings = Vec::with_capacity(count);
    for _ in 0..count {
        let value = if group { rest.next()? } else { first };
        let id = if has(ReadFormat::ID) { rest.next()? } else { 0 };
        if has(ReadFormat::LOST) {
            rest.next()?;
        }
        readings.push((id, Reading { value, enabled_ns, running_ns }));
    }
    Some(readings)
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
    fn layouts_of_the_manual() {
        let all = ReadFormat::TOTAL_TIME_ENABLED
            | ReadFormat::TOTAL_TIME_RUNNING
            | ReadFormat::ID
            | ReadFormat::LOST;
        let single = [100, 10, 8, 7, 0];
        assert_eq!(words(all, 3), single.len());
        assert_eq!(parse(all, &single), Some(vec![(7, reading(100, 10, 8))]));
        let group = all | ReadFormat::GROUP;
        let three = [3, 10, 8, 100, 7, 0, 200, 8, 0, 300, 9, 0];
        assert_eq!(words(group, 3), three.len());
        let readings = parse(group, &three).unwrap();
        assert_eq!(readings, [(7, reading(100, 10, 8)), (8, reading(200, 10, 8)), (9, reading(300, 10, 8))]);
        // Before Linux 6.0 there is no LOST.
        assert_eq!(
            parse(group - ReadFormat::LOST, &[1, 10, 8, 100, 7]),
            Some(vec![(7, reading(100, 10, 8))])
        );
        for short in 0..three.len() {
            assert_eq!(parse(group, &three[..short]), None, "{short}");
        }
        assert_eq!(parse(group, &[u64::MAX, 1, 1]), None);
    }
}
