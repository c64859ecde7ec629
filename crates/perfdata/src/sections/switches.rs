//! The sections about switches between threads: when they were watched, when they were held back, and what the kernel counted of
//! threads.

use decoder::Endian;
use model::Tid;

/// For how long, and of whom, a recording tells where threads wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WatchedTime {
    /// The time at which it began, in nanoseconds on the clock of the recording.
    pub begin: u64,
    /// The time at which it ended.
    pub end: u64,
    /// Threads may be named in the recording and not be meant: only those that have samples are.
    pub only_sampled: bool,
}

impl WatchedTime {
    /// Encodes the section ([`super::id::WATCHED_TIME`]).
    pub fn to_section(&self) -> Vec<u8> {
        [self.begin, self.end, u64::from(self.only_sampled)].into_iter().flat_map(u64::to_ne_bytes).collect()
    }

    /// Decodes a section; `None` where it is cut, or ends before it begins.
    pub fn from_section(bytes: &[u8], endian: Endian) -> Option<Self> {
        let word = |index: usize| Some(endian.u64(*bytes.get(index * 8..)?.first_chunk()?));
        let watched = Self { begin: word(0)?, end: word(1)?, only_sampled: word(2)? & 1 != 0 };
        (watched.begin <= watched.end).then_some(watched)
    }
}

/// The name of the event whose samples were made from what was read of blocked threads from outside.
pub const BLOCKED_STACKS: &str = "blocked-stacks";
/// The name of the event whose samples have the stacks of threads that have waited for a page.
pub const FAULT_STACKS: &str = "fault-stacks";
/// The name of the event of parked tasks, which were read in the memory of their processes. Periods are nanoseconds of tasks; the raw data is
/// the number of tasks.
pub const TASKS: &str = "tasks";
/// The name of the event that has records of switches, and no samples.
pub const SWITCH_RECORDS: &str = "switch-records";

/// The spans in which switches were held back, and the kernel's counts of threads that were switched often.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct SwitchSampling {
    /// The gaps, from when to when, in nanoseconds on the clock of the recording.
    pub gaps: Vec<(u64, u64)>,
    /// Of each thread the readings, in the order of time.
    pub threads: Vec<(Tid, Vec<Schedstat>)>,
}

/// The kernel's counts of a thread at some time, all in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Schedstat {
    /// The time of the reading, on the clock of the recording.
    pub time: u64,
    /// The time for which it had run.
    pub running: u64,
    /// The time for which it had waited for a CPU.
    pub runnable: u64,
}

impl SwitchSampling {
    /// The bytes of the section ([`super::id::SWITCH_SAMPLING`]): how many gaps, begin and end of each; then of
    /// each thread its number, how many readings there are, and these.
    pub fn to_section(&self) -> Vec<u8> {
        let words = |reading: &Schedstat| [reading.time, reading.running, reading.runnable];
        let gaps = self.gaps.iter().flat_map(|(begin, end)| [*begin, *end]);
        let threads = self.threads.iter().flat_map(|(tid, readings)| {
            [tid.0 as u64, readings.len() as u64].into_iter().chain(readings.iter().flat_map(words))
        });
        let all = std::iter::once(self.gaps.len() as u64).chain(gaps).chain(threads);
        all.flat_map(u64::to_ne_bytes).collect()
    }

    /// Reads a section; `None` where it is cut, or its gaps or readings are not in order.
    pub fn from_section(bytes: &[u8], endian: Endian) -> Option<Self> {
        let mut words = bytes.chunks_exact(8).filter_map(|word| Some(endian.u64(*word.first_chunk()?)));
        let count = usize::try_from(words.next()?).ok().filter(|count| *count <= bytes.len() / 16)?;
        let mut sampling = Self::default();
        let mut last = 0;
        for _ in 0..count {
            let (begin, end) = (words.next()?, words.next()?);
            if begin < last || end < begin {
                return None;
            }
            last = end;
            sampling.gaps.push((begin, end));
        }
        while let Some(tid) = words.next() {
            let count = words.next()?;
            let mut reading =
                || Some(Schedstat { time: words.next()?, running: words.next()?, runnable: words.next()? });
            let mut readings: Vec<Schedstat> = Vec::new();
            for _ in 0..count {
                let read = reading()?;
                if readings.last().is_some_and(|last| last.time > read.time) {
                    return None;
                }
                readings.push(read);
            }
            sampling.threads.push((Tid(tid as i32), readings));
        }
        Some(sampling)
    }

    /// Returns the time for which switches were held back, in nanoseconds.
    pub fn held(&self) -> u64 {
        self.gaps.iter().map(|(begin, end)| end.saturating_sub(*begin)).fold(0, u64::saturating_add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn watched_times_come_back() {
        let reading = |time| Schedstat { time, running: 7, runnable: 9 };
        let threads = vec![(Tid(4), vec![reading(2), reading(5), reading(12)]), (Tid(5), Vec::new())];
        let sampling = SwitchSampling { gaps: vec![(1, 5), (5, 9)], threads };
        let section = sampling.to_section();
        assert_eq!(SwitchSampling::from_section(&section, Endian::NATIVE), Some(sampling.clone()));
        assert_eq!(sampling.held(), 8);
        assert_eq!(SwitchSampling::from_section(&section[..section.len() - 8], Endian::NATIVE), None);
        assert_eq!(SwitchSampling::from_section(&[0xff; 24], Endian::NATIVE), None);
        assert_eq!(SwitchSampling::from_section(&[], Endian::NATIVE), None);
        let backwards = SwitchSampling { gaps: vec![(5, 1)], ..sampling }.to_section();
        assert_eq!(SwitchSampling::from_section(&backwards, Endian::NATIVE), None);
    }

    #[test]
    fn sections_come_back() {
        let watched = WatchedTime { begin: 5, end: 7, only_sampled: true };
        let section = watched.to_section();
        assert_eq!(WatchedTime::from_section(&section, Endian::NATIVE), Some(watched));
        for cut in 0..section.len() {
            assert_eq!(WatchedTime::from_section(&section[..cut], Endian::NATIVE), None);
        }
        let backwards = WatchedTime { begin: 8, ..watched }.to_section();
        assert_eq!(WatchedTime::from_section(&backwards, Endian::NATIVE), None);
    }
}
