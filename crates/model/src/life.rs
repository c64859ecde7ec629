//! The lifetime of a process, and the user that it ran as.

use crate::Pid;

/// The lifetime of a process, as far as it is known.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ProcessLifetime {
    /// The time at which it began, in nanoseconds since 1970; exact to a tick of the kernel (10 ms).
    pub start: Option<u64>,
    /// The time at which it ended, in nanoseconds since 1970; `None` if it lives, or the time is not known.
    pub end: Option<u64>,
    /// The user that owns the files which it makes (fsuid).
    pub user: Option<u32>,
    /// Its number in its own pid namespace.
    pub own_number: Option<Pid>,
}

impl ProcessLifetime {
    /// Starts of one process that were read at different times lie so close together, in nanoseconds: a start is exact to
    /// 10 ms, and a wall clock is set a little now and then.
    pub const TOLERANCE: u64 = 2_000_000_000;

    /// Returns true if it can be the same process, by its start.
    pub fn may_be(&self, other: &Self) -> bool {
        match (self.start, other.start) {
            (Some(one), Some(another)) => one.abs_diff(another) <= Self::TOLERANCE,
            _ => true,
        }
    }
}
