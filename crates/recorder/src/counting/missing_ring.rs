//! Why a thread has no ring for the reports of the tasks that it starts.

use std::{fmt, io};

use crate::error::{EAGAIN, EMFILE, ENFILE, ENOMEM, EPERM, ESRCH, Errno, MORE_DESCRIPTORS};

/// The reason why a thread has no ring for the reports of the tasks that it starts. Displays it, and what to try.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MissingRing {
    step: RingStep,
    /// The `errno` of the step that failed; 0 if there was none.
    errno: i32,
}

/// The steps that give a thread its ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum RingStep {
    /// Opening the event that owns the ring.
    Open,
    /// Mapping the ring.
    Map,
    /// Redirecting the records of the thread's counters into the ring.
    Redirect,
}

impl MissingRing {
    /// Returns the reason for a thread whose ring failed at `step`.
    pub(super) fn new(step: RingStep, error: &io::Error) -> Self {
        Self { step, errno: error.raw_os_error().unwrap_or(0) }
    }
}

impl fmt::Display for MissingRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let error = io::Error::from_raw_os_error(self.errno);
        match (self.step, self.errno) {
            (_, EMFILE) => write!(
                f,
                "no file descriptor is left for the ring of its reports (EMFILE); {MORE_DESCRIPTORS}"
            ),
            (_, ENFILE) => f.write_str(
                "the machine has as many files open as it may (ENFILE), so there is no ring for its reports; try a larger \
                 sysctl fs.file-max",
            ),
            (_, ENOMEM) => f.write_str(
                "the machine, or the cgroup of this process, has no memory left for the ring of its reports (ENOMEM)",
            ),
            (RingStep::Map, EPERM | EAGAIN) => {
                f.write_str("the limit of locked memory leaves no ring for its reports; try: ulimit -l unlimited")
            }
            (RingStep::Open, ESRCH) => f.write_str("they ended while they were opened"),
            (RingStep::Open, _) => write!(f, "the event for their reports could not be opened: {}", Errno(&error)),
            (RingStep::Map, _) => write!(f, "the ring for their reports could not be mapped: {}", Errno(&error)),
            (RingStep::Redirect, _) => write!(f, "the kernel sends no reports to their ring: {}", Errno(&error)),
        }
    }
}
