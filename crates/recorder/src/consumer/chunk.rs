//! Chunks of records that were drained from one ring.

use crate::records;
use crate::unwind::UnwoundSample;

/// The kind of ring that records were drained from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RingKind {
    /// The ring of the sampling events.
    Samples,
    /// The ring of the sideband event, which is always enabled and reports mappings, names and threads.
    Sideband,
    /// The ring of the READ records with the CPU times of tasks. Its records are checked and reach consumers as
    /// [`RingKind::Sideband`].
    TaskTimes,
}

/// Whole records of one ring, in the order of the ring and in the machine's byte order.
#[derive(Debug)]
pub struct Chunk {
    /// The ring that the records were drained from.
    pub ring: RingKind,
    /// The records.
    pub bytes: Vec<u8>,
    /// Those of them that are samples whose stacks were unwound in the ring, in the same order.
    pub(crate) unwound: Vec<UnwoundSample>,
    /// The counts of the drain that they came from.
    pub drained: DrainStats,
}

impl Chunk {
    /// Makes a chunk of records as the kernel writes them, with all counts 0.
    pub fn new(ring: RingKind, bytes: Vec<u8>) -> Self {
        Self { ring, bytes, unwound: Vec::new(), drained: DrainStats::default() }
    }

    /// Removes the records for which `keep` returns false, and an incomplete record at the end; returns how many whole ones it removed.
    pub(crate) fn retain(&mut self, mut keep: impl FnMut(&[u8]) -> bool) -> u64 {
        let (mut read, mut written, mut next, mut kept) = (0, 0, 0, 0);
        let removed = records::retain(&mut self.bytes, |record| {
            let is_kept = keep(record);
            if let Some(sample) = self.unwound.get_mut(next).filter(|sample| sample.offset == read) {
                sample.offset = written;
                self.unwound.swap(kept, next);
                next += 1;
                kept += usize::from(is_kept);
            }
            read += record.len();
            written += if is_kept { record.len() } else { 0 };
            is_kept
        });
        self.unwound.truncate(kept);
        removed
    }
}

/// Counts of the records that were drained from a ring.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct DrainStats {
    /// Samples among the records.
    pub samples: u64,
    /// THROTTLE records.
    pub throttles: u64,
    /// Records that the ring had no room for, as its LOST records say.
    pub lost: u64,
    /// Bytes that were dropped because they, or bytes before them, are no whole record.
    pub bad_bytes: u64,
    /// Bytes that were in the ring before it was drained.
    pub fill: u64,
}
