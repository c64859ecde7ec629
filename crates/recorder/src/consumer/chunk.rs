//! Records as they come out of one ring.

/// The kind of a CPU's ring, of which each CPU has two.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RingKind {
    /// The sampling events'.
    Samples,
    /// The always enabled event's that tells of mappings, names, threads.
    Sideband,
    /// That of the CPU times of tasks. Consumers get its records as [`RingKind::Sideband`], checked.
    TaskTimes,
}

/// Records of one ring, whole and in the order of the ring, in the machine's byte order.
#[derive(Debug)]
pub struct Chunk {
    /// The ring that they came from.
    pub ring: RingKind,
    /// The records.
    pub bytes: Vec<u8>,
    /// The reader's account of them.
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
    /// Bytes that were no whole records: given up, with all behind them.
    pub bad_bytes: u64,
    /// The number of bytes that were in the ring.
    pub fill: u64,
}
