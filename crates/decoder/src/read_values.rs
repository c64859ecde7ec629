//! What `read(2)` gives of an event that was opened by `perf_event_open(2)`, in words of the machine's byte order ("Reading
//! results").

use alloc::vec::Vec;

use crate::flags::ReadFormat;
use crate::values::CounterValue;

/// The times and counters of an event, or of a group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReadValues {
    /// `PERF_FORMAT_TOTAL_TIME_ENABLED`, nanoseconds.
    pub time_enabled: Option<u64>,
    /// `PERF_FORMAT_TOTAL_TIME_RUNNING`, nanoseconds.
    pub time_running: Option<u64>,
    /// One counter, or those of the group with its leader first.
    pub counters: Vec<CounterValue>,
}

impl ReadFormat {
    /// Returns the number of words that describe each counter.
    const fn words_of_counter(self) -> usize {
        1 + self.contains(Self::ID) as usize + self.contains(Self::LOST) as usize
    }

    /// Returns the number of words that `read(2)` gives of an event, or of a group with `members` events.
    pub const fn read_words(self, members: usize) -> usize {
        let times = self.contains(Self::TOTAL_TIME_ENABLED) as usize
            + self.contains(Self::TOTAL_TIME_RUNNING) as usize;
        if self.contains(Self::GROUP) {
            let members = if members == 0 { 1 } else { members };
            (1 + times).saturating_add(members.saturating_mul(self.words_of_counter()))
        } else {
            times + self.words_of_counter()
        }
    }
}

impl ReadValues {
    /// Parses the words that `read(2)` gave. `None` where they are fewer than `format` and their own count of members say: a pinned
    /// event that got no counter gives none at all.
    pub fn parse(format: ReadFormat, words: &[u64]) -> Option<Self> {
        let mut rest = words.iter().copied();
        let has = |bit| format.contains(bit);
        let is_group = has(ReadFormat::GROUP);
        // The number of members, or the only value.
        let first = rest.next()?;
        let mut time = |bit| if has(bit) { rest.next().map(Some) } else { Some(None) };
        let time_enabled = time(ReadFormat::TOTAL_TIME_ENABLED)?;
        let time_running = time(ReadFormat::TOTAL_TIME_RUNNING)?;
        let count = if is_group { usize::try_from(first).ok()? } else { 1 };
        if count > words.len() {
            return None;
        }
        let mut counters = Vec::with_capacity(count);
        for _ in 0..count {
            let value = if is_group { rest.next()? } else { first };
            let id = if has(ReadFormat::ID) { Some(rest.next()?) } else { None };
            let lost = if has(ReadFormat::LOST) { Some(rest.next()?) } else { None };
            counters.push(CounterValue { value, id, lost });
        }
        Some(Self { time_enabled, time_running, counters })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counter(value: u64, id: u64) -> CounterValue {
        CounterValue { value, id: Some(id), lost: Some(0) }
    }

    #[test]
    fn layouts_are_those_of_the_manual() {
        let all = ReadFormat::TOTAL_TIME_ENABLED
            | ReadFormat::TOTAL_TIME_RUNNING
            | ReadFormat::ID
            | ReadFormat::LOST;
        let times = |counters| ReadValues { time_enabled: Some(10), time_running: Some(8), counters };
        let single = [100, 10, 8, 7, 0];
        assert_eq!(all.read_words(3), single.len());
        assert_eq!(ReadValues::parse(all, &single), Some(times(alloc::vec![counter(100, 7)])));
        let group = all | ReadFormat::GROUP;
        let three = [3, 10, 8, 100, 7, 0, 200, 8, 0, 300, 9, 0];
        assert_eq!(group.read_words(3), three.len());
        let expected = times(alloc::vec![counter(100, 7), counter(200, 8), counter(300, 9)]);
        assert_eq!(ReadValues::parse(group, &three), Some(expected));
        // Before Linux 6.0 there is no LOST.
        let without_lost = times(alloc::vec![CounterValue { lost: None, ..counter(100, 7) }]);
        let words = [1, 10, 8, 100, 7];
        assert_eq!(ReadValues::parse(group - ReadFormat::LOST, &words), Some(without_lost));
        for short in 0..three.len() {
            assert_eq!(ReadValues::parse(group, &three[..short]), None, "{short}");
        }
        assert_eq!(ReadValues::parse(group, &[u64::MAX, 1, 1]), None);
        assert_eq!((group.read_words(0), ReadFormat::empty().read_words(7)), (6, 1));
    }
}
