//! Why a recording could not be read.

use std::fmt;
use std::io;

use export::summary::counted;
use model::Name;
use thiserror::Error;

use crate::foreign::{ForeignError, Format};

/// The reason why a recording could not be opened or read on. The cause is the error's source.
#[derive(Error, Debug)]
#[non_exhaustive]
pub enum Error {
    /// A file could not be opened or listed.
    #[error("cannot read {name}")]
    Open {
        /// Path of the file.
        name: String,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A directory that `perf record --threads` did not write.
    #[error("{name} is a directory without a file `data`, so it is no recording of `perf record --threads`")]
    NotADirectoryOfParts {
        /// Path of the directory.
        name: String,
    },
    /// The bytes are no recording, or cannot be read on.
    #[error("cannot read {name}")]
    Read {
        /// The name of the recording.
        name: String,
        /// The reader's error, with the place in the recording.
        source: perfdata::Error,
    },
    /// The profile of another tool cannot be read.
    #[error("cannot read {name}")]
    Foreign {
        /// The name of the file.
        name: String,
        /// The reason why it cannot be read.
        source: ForeignError,
    },
    /// A recording is needed, and this is a profile of another tool.
    #[error(
        "{name} is {format}, and no recording: it has no records, so this command cannot read it; try: prof report {name}"
    )]
    NotARecording {
        /// The name of the file.
        name: String,
        /// The format that the file was recognised to have.
        format: Format,
    },
    /// Something is asked of a profile of another tool that it does not say.
    #[error("this is {format}: it does not say {what}; try without {flag}")]
    Lacks {
        /// The format that the file was recognised to have.
        format: Format,
        /// The fact that it does not state, as a clause.
        what: &'static str,
        /// The argument that asks for it.
        flag: &'static str,
    },
    /// The profile of another tool has no values of this name.
    #[error("the profile has no values of `{wanted}`; there are {}", quantities.join(", "))]
    NoSuchQuantity {
        /// The name, as typed.
        wanted: String,
        /// The names that there are.
        quantities: Vec<String>,
    },
    /// A thread could not be started.
    #[error("cannot start a thread to {purpose}")]
    Thread {
        /// The purpose of the thread, as a verb.
        purpose: &'static str,
        /// The error of the operating system.
        source: io::Error,
    },
    /// There are samples, and the filter admits none.
    #[error("{why}")]
    NothingAdmitted {
        /// The name that was asked for, and the names that exist.
        why: String,
    },
    /// The recording has no samples.
    #[error("there is no sample")]
    NoSamples,
    /// The event that was asked for has no samples, or there is none of that name.
    #[error("no sample is of the event `{wanted}`; there are {}", Counts(events))]
    NoSuchEvent {
        /// The event, as typed.
        wanted: String,
        /// Events that have samples, with how many.
        events: Vec<(Name, u64)>,
    },
    /// The recording does not say when threads were switched.
    #[error(
        "this recording does not say when threads ran and waited, which `{weight}` needs; try: prof record --off-cpu -- COMMAND"
    )]
    NoSwitches {
        /// The weight that was asked for.
        weight: &'static str,
    },
    /// Wakers are asked for, and not the time that threads were off the CPU.
    #[error(
        "--wakers tells who ended waits, which is not what is shown here; try: prof flame --off-cpu --wakers"
    )]
    WakersWithoutWaits,
    /// The recording does not say who woke threads.
    #[error(
        "this recording does not say who woke threads: that takes the right to record tracepoints; try: sudo prof record --off-cpu -- COMMAND"
    )]
    NoWakings,
    /// The number of threads that run is asked for, and not time on a CPU.
    #[error("--parallelism selects time on a CPU; try: --weight cpu, or --weight latency")]
    ParallelismOfOthers,
    /// Waits are asked for by cgroup.
    #[error("waits have no cgroups; try: --container NAME instead of --cgroup with {weight}")]
    WaitsWithoutCgroups {
        /// The weight that was asked for.
        weight: &'static str,
    },
    /// The output is of one event, and several have samples.
    #[error("there are samples of several events; choose one with --event NAME: {}", Counts(events))]
    SeveralEvents {
        /// Events that have samples, with how many.
        events: Vec<(Name, u64)>,
    },
}

impl Error {
    /// Returns true if the recording could be read, but has no samples of the requested kind.
    pub fn is_about_samples(&self) -> bool {
        matches!(
            self,
            Self::NothingAdmitted { .. }
                | Self::NoSamples
                | Self::NoSwitches { .. }
                | Self::WaitsWithoutCgroups { .. }
                | Self::NoSuchEvent { .. }
                | Self::NoSuchQuantity { .. }
                | Self::Lacks { .. }
                | Self::SeveralEvents { .. }
        )
    }
}

/// Shows events with their samples: `cycles (12 samples), cs (1 sample)`.
struct Counts<'c>(&'c [(Name, u64)]);

impl fmt::Display for Counts<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (name, samples)) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { ", " };
            write!(formatter, "{separator}{name} ({})", counted(*samples, "sample", "samples"))?;
        }
        Ok(())
    }
}
