//! Processes whose events the kernel ended at an exec.

use std::time::Duration;

use model::{Name, Pid, Timestamp};

/// A process that executed a program with more rights than its caller had.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PrivilegedExec {
    /// The process.
    pub pid: Pid,
    /// The name of the program.
    pub name: Name,
    /// The time at which the kernel ended its events, by the clock of records.
    pub(crate) time: Timestamp,
    /// The time until they were opened again, of which nothing is recorded; `None` where they were not.
    pub gap: Option<Duration>,
}
