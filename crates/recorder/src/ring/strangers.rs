//! Processes whose samples stay in their rings.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::records::u32_at;

/// Offset of the process in a sample with IDENTIFIER, IP and TID, in the kernel's order (checklist row L).
const PID: usize = 24;
/// No process has a number from this on (`PID_MAX_LIMIT`, proc(5)).
const PID_LIMIT: u32 = 1 << 22;

/// The processes that are certainly not meant, where whole CPUs are sampled: who empties a ring leaves their samples there, whose
/// stack copies may be large. A bit for each number, of which memory is used only where there are processes.
#[derive(Debug)]
pub(crate) struct Strangers {
    bits: Box<[AtomicU64]>,
    dropped: AtomicU64,
}

impl Default for Strangers {
    fn default() -> Self {
        let words = (0..PID_LIMIT / u64::BITS).map(|_| AtomicU64::new(0));
        Self { bits: words.collect(), dropped: AtomicU64::new(0) }
    }
}

impl Strangers {
    /// Says whether the process that has this number now is a stranger.
    pub(crate) fn set(&self, pid: u32, is_stranger: bool) {
        let bit = 1 << (pid % u64::BITS);
        let Some(word) = self.bits.get((pid / u64::BITS) as usize) else { return };
        // Nothing else is read by what this says: a sample more or less in a ring is no matter.
        if is_stranger {
            word.fetch_or(bit, Ordering::Relaxed);
        } else {
            word.fetch_and(!bit, Ordering::Relaxed);
        }
    }

    /// Returns true if a process is a stranger.
    pub(crate) fn has(&self, pid: u32) -> bool {
        let word = self.bits.get((pid / u64::BITS) as usize);
        word.is_some_and(|word| word.load(Ordering::Relaxed) & 1 << (pid % u64::BITS) != 0)
    }

    /// Returns true if a sample is a stranger's, and may be left; it is then counted.
    pub(super) fn leave(&self, sample: &[u8]) -> bool {
        let is_left = u32_at(sample, PID).is_some_and(|pid| self.has(pid));
        if is_left {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
        is_left
    }

    /// Samples that were left in their rings.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_told_apart() {
        let strangers = Strangers::default();
        for pid in [0, 63, 64, PID_LIMIT - 1] {
            strangers.set(pid, true);
            assert!(strangers.has(pid) && !strangers.has(pid + 1));
        }
        strangers.set(64, false);
        assert!(!strangers.has(64) && strangers.has(63));
        strangers.set(u32::MAX, true);
        assert!(!strangers.has(u32::MAX), "no process has that number");
        let sample: Vec<u8> = [0, 0, 0, 63].iter().flat_map(|word: &u64| word.to_ne_bytes()).collect();
        assert!(strangers.leave(&sample) && !strangers.leave(&sample[..24]));
        assert_eq!(strangers.dropped(), 1);
    }
}
