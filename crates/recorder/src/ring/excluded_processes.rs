//! Processes whose samples stay in their rings.

use std::sync::atomic::{AtomicU64, Ordering};

use decoder::{SampleFormat, offsets};

use crate::records::{u32_at, u64_at};

/// The process in a sample of an event that the recorder opens: all have IDENTIFIER and IP before it.
const PID: usize = offsets::in_sample(
    SampleFormat::IDENTIFIER.union(SampleFormat::IP).union(SampleFormat::TID),
    SampleFormat::TID,
);
const ID: usize = offsets::in_sample(SampleFormat::IDENTIFIER, SampleFormat::IDENTIFIER);
/// All process numbers are below this (`PID_MAX_LIMIT`, proc(5)).
const PID_LIMIT: u32 = 1 << 22;

/// The processes that certainly do not belong to the target, while whole CPUs are sampled. Their samples, which may have large stack
/// copies, are not copied out of the rings. A bit per process number takes 512 KiB.
#[derive(Debug)]
pub(crate) struct ExcludedProcesses {
    bits: Box<[AtomicU64]>,
    /// The ids of events whose samples are kept, whatever process they are of.
    kept_ids: Vec<u64>,
    dropped_samples: AtomicU64,
}

impl Default for ExcludedProcesses {
    fn default() -> Self {
        let words = (0..PID_LIMIT / u64::BITS).map(|_| AtomicU64::new(0));
        Self { bits: words.collect(), kept_ids: Vec::new(), dropped_samples: AtomicU64::new(0) }
    }
}

impl ExcludedProcesses {
    /// Excludes no process yet, and never samples of the events with `kept_ids`.
    pub(crate) fn except_events(kept_ids: Vec<u64>) -> Self {
        Self { kept_ids, ..Self::default() }
    }

    /// Returns true if a sample is of an event whose samples are kept, whatever process they are of.
    pub(crate) fn keeps_event_of(&self, sample: &[u8]) -> bool {
        !self.kept_ids.is_empty() && u64_at(sample, ID).is_some_and(|id| self.kept_ids.contains(&id))
    }

    /// Excludes the process that has this number now, or includes it again.
    pub(crate) fn set(&self, pid: u32, is_excluded: bool) {
        let bit = 1 << (pid % u64::BITS);
        let Some(word) = self.bits.get((pid / u64::BITS) as usize) else { return };
        // Relaxed: no other memory depends on the bit, and a sample more or less does not matter.
        if is_excluded {
            word.fetch_or(bit, Ordering::Relaxed);
        } else {
            word.fetch_and(!bit, Ordering::Relaxed);
        }
    }

    /// Returns true if the process that has this number now is excluded.
    pub(crate) fn contains(&self, pid: u32) -> bool {
        let word = self.bits.get((pid / u64::BITS) as usize);
        word.is_some_and(|word| word.load(Ordering::Relaxed) & 1 << (pid % u64::BITS) != 0)
    }

    /// Returns true, and counts the sample as dropped, if it is of an excluded process.
    pub(crate) fn drops(&self, sample: &[u8]) -> bool {
        let is_dropped =
            u32_at(sample, PID).is_some_and(|pid| self.contains(pid)) && !self.keeps_event_of(sample);
        if is_dropped {
            self.dropped_samples.fetch_add(1, Ordering::Relaxed);
        }
        is_dropped
    }

    /// Returns the number of samples that were dropped so far.
    pub(crate) fn dropped_samples(&self) -> u64 {
        self.dropped_samples.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_told_apart() {
        let excluded = ExcludedProcesses::default();
        for pid in [0, 63, 64, PID_LIMIT - 1] {
            excluded.set(pid, true);
            assert!(excluded.contains(pid) && !excluded.contains(pid + 1));
        }
        excluded.set(64, false);
        assert!(!excluded.contains(64) && excluded.contains(63));
        excluded.set(u32::MAX, true);
        assert!(!excluded.contains(u32::MAX), "no process has that number");
        let sample: Vec<u8> = [0, 0, 0, 63].iter().flat_map(|word: &u64| word.to_ne_bytes()).collect();
        assert!(excluded.drops(&sample) && !excluded.drops(&sample[..24]));
        assert_eq!(excluded.dropped_samples(), 1);
        let of_event_9 = ExcludedProcesses::except_events(vec![9]);
        of_event_9.set(63, true);
        let sample =
            |id: u64| -> Vec<u8> { [0, id, 0, 63].iter().flat_map(|word| word.to_ne_bytes()).collect() };
        assert!(of_event_9.drops(&sample(8)) && !of_event_9.drops(&sample(9)));
    }
}
