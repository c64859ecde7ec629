//! What a consumer learns of switches between threads beside their records.

use model::Tid;
use perfdata::sections::{Schedstat, WatchedTime};

/// News of switches between threads, beside their records. They come before any record of what happens later. Times are on
/// the clock of the recording, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SwitchUpdate {
    /// Switches are watched; from when on and of whom. The end is not known.
    Watched(WatchedTime),
    /// Switches are held back from this time on, because there are too many.
    Paused(u64),
    /// They are recorded again.
    Resumed(u64),
    /// The kernel's counts of a thread. Only with [`crate::Options::low_memory`].
    SchedStat(Tid, Schedstat),
}
