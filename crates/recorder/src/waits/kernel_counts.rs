//! The kernel's counts of a thread's time, with the moment for which they hold.

use std::io;

use host::procfs;
use host::sys::clock::{self, ClockId};
use model::Tid;
use perfdata::sections::Schedstat;

/// Nanoseconds that a reading may take: a longer one was interrupted, nobody knows when the kernel counted, and it is repeated. Readings
/// of `/proc/self/schedstat` took 4 µs in the middle, 99.9 % at most 24 µs; beside eight endless loops on two CPUs 4 and 9 µs.
const MAX_READING_NANOSECONDS: u64 = 50_000;
/// Maximum number of attempts at a reading. At most 21 of 200,000 took longer than that, so three in a row hardly ever do.
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
