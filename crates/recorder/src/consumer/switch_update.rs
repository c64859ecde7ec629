//! Changes in how switches between threads are recorded.

use model::Tid;
use perfdata::sections::{Schedstat, WatchedTime};

/// A change in how switches between threads are recorded. It precedes every record of what happens after it. Times are on the
/// clock of the recording, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SwitchUpdate {
    /// Switches are watched from now on. The end of the span is not known yet.
    Watched(WatchedTime),
    /// From this time on switches are not recorded, because there are too many.
    Paused(u64),
    /// From this time on switches are recorded again.
    Resumed(u64),
    /// The kernel's running and runnable time of a thread. Only with [`crate::Options::low_memory`].
    SchedStat(Tid, Schedstat),
}
