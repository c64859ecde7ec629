//! What a profile keeps apart, and what it keeps of each sample.

/// The choice of what a profile counts separately: threads, processes, CPUs, single samples.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Detail {
    /// Threads, not only their names.
    pub threads: bool,
    /// Threads of one process whose names differ in digits alone are one: `worker-*`.
    pub pools: bool,
    /// Processes, with their threads on top of them.
    pub processes: bool,
    /// CPUs, with threads on top of them. Processes are not kept apart then.
    pub cpus: bool,
    /// Containers, with threads on top of them. Processes and CPUs are not kept apart then.
    pub containers: bool,
    /// Cgroups, with threads on top of them. Processes, CPUs and containers are not kept apart then.
    pub cgroups: bool,
    /// The columns of single samples, in the order of time; `None` if only counts are kept.
    pub samples: Option<Columns>,
}

/// The choice of columns that are kept beside thread, stack and period.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Columns {
    /// True to keep the time of each sample.
    pub times: bool,
    /// On which CPU.
    pub cpus: bool,
}
