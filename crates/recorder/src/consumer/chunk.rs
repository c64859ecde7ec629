//! Chunks of records that were drained from one ring.

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
    /// The counts of the drain that they came from.
    pub drained: DrainStats,
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
