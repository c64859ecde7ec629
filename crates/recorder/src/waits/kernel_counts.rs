//! The kernel's counts of a thread's time, with the moment for which they hold.

use std::io;

use host::procfs;
use host::sys::clock::{self, ClockId};
use model::Tid;
use perfdata::sections::Schedstat;

/// Nanoseconds that a reading may take: the time of a longer one is too uncertain, and it is repeated.
const MAX_READING_NANOSECONDS: u64 = 50_000;
/// Maximum number of attempts at a reading.
const MAX_READING_ATTEMPTS: usize = 3;

/// Reads for how long the kernel says that a thread ran and was ready for a CPU, and how often it was switched in. The time of the
/// reading, of `clock`, is its middle.
///
/// # Errors
/// The thread has ended, or the kernel does not count.
pub(super) fn read(tid: Tid, clock: ClockId) -> io::Result<(Schedstat, u64)> {
    let attempt = || {
        let before = clock::now(clock)?;
        let [running, runnable, switches] = procfs::schedstat(tid)?;
        let took = clock::now(clock)?.saturating_sub(before);
        io::Result::Ok((took, (Schedstat { time: before + took / 2, running, runnable }, switches)))
    };
    let mut shortest = attempt()?;
    for _ in 1..MAX_READING_ATTEMPTS {
        if shortest.0 <= MAX_READING_NANOSECONDS {
            break;
        }
        let again = attempt()?;
        if again.0 < shortest.0 {
            shortest = again;
        }
    }
    Ok(shortest.1)
}
