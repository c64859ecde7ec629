//! The section that says when switches between threads were watched.

use decoder::Endian;

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

#[cfg(test)]
mod tests {
    use super::*;

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
