//! Selects events by perf's grammar: a pure function of text and a [`Catalogue`] of the machine's events.
//!
//! `parse` cuts the text into terms without knowing the machine. [`select`] looks each term up in the catalogue and returns
//! [`Event`]s, from which the module `attr` makes attrs for the kernel.

mod catalogue;
mod error;
mod listing;
pub(crate) mod mangled;
mod measure;
mod modifiers;
mod names;
mod nearest;
mod parse;
mod probes;
mod select;
mod terms;
mod this_machine;

use decoder::Attr;
use decoder::attr::TYPE_SOFTWARE;
use model::CpuId;
use perfdata::sections::TASKS;

pub use catalogue::{Catalogue, Pmu, Tracepoint, matches};
pub use error::EventError;
pub use listing::{EventKind, ListedEvent, listing};
pub use measure::Measure;
pub use modifiers::{Modifiers, Precision};
pub use nearest::nearest;
pub use probes::Probe;
pub use select::select;
pub(crate) use select::{clock_event, default_events, dummy_event};
pub(crate) use this_machine::core_pmus;
#[cfg(test)]
pub(crate) use this_machine::pmu;
pub use this_machine::{ThisMachine, core_pmu_name, this_machine};

/// The rate at which to sample.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rate {
    /// Samples per second; the kernel steers the period.
    Frequency(u64),
    /// Take one sample per this number of events (nanoseconds, for the clocks).
    Period(u64),
}

/// Size of a stack copy, in bytes, if the size is fixed and not given: most stacks of most programs are shallower.
pub const DEFAULT_STACK_COPY: u32 = 16 << 10;

/// The kind of call chain to take with each sample.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CallChain {
    /// No call chain, only the sampled address.
    None,
    /// The kernel's walk over frame pointers, in the kernel (by its own unwinder) and in user space.
    FramePointers,
    /// The kernel's walk, and the user's registers with a copy of the stack: for [`crate::unwind::UnwindingStage`].
    Stacks {
        /// Size of each copy in bytes, a multiple of 8 below 65,536; `None` to adapt it while recording.
        size: Option<u32>,
        /// True to keep the copies in the recording.
        keep: bool,
    },
    /// The kernel's walk in the kernel, and in user space the calls that the processor remembers (Intel's LBR in its
    /// call stack mode): up to 32, without tables or frame pointers.
    LastBranches,
}

impl Default for CallChain {
    /// Complete stacks, from copies whose sizes adapt while recording.
    fn default() -> Self {
        Self::Stacks { size: None, keep: false }
    }
}

/// An event to be sampled, as the user selected it.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Event {
    /// The name in the recording: as typed, or of the parameter `name=`.
    pub name: String,
    /// The counted event: `type`, `config…` and the breakpoint fields are set, nothing else.
    pub attr: Attr,
    /// Privilege levels, precision and the like.
    pub modifiers: Modifiers,
    /// The rate of the parameter `freq=` or `period=`.
    pub rate: Option<Rate>,
    /// True if each occurrence is sampled where no rate is given (tracepoints, breakpoints, probes).
    pub every_occurrence: bool,
    /// The CPUs on which its PMU counts, where not on all.
    pub cpus: Option<Vec<CpuId>>,
    /// True if these are the CPUs of a kind of core. Else the PMU is outside of the cores, and counts for no thread.
    pub core: bool,
    /// The index of the group's leader in the list of events, for members of a group.
    pub leader: Option<usize>,
    /// True if the user did not name it: where the machine does not have it, another event replaces it.
    pub is_default: bool,
    /// System and name of a tracepoint.
    pub tracepoint: Option<(String, String)>,
    /// The probed function, for probes in programs and in the kernel.
    pub probe: Option<Probe>,
    /// The ftrace filter, for tracepoints.
    pub filter: Option<String>,
    /// True if it is sampled on whole CPUs, whatever the target is, from its opening to its end: what wakes the target's threads
    /// happens in other threads.
    pub everywhere: bool,
    /// True if it tells where threads wait. Such events are paused while there are too many switches.
    pub watches: bool,
    /// True if the kernel writes a record of each switch for it, in and out, beside its samples.
    pub records_switches: bool,
    /// True if the recorder makes its samples by reading blocked threads in `/proc`, or tasks in memory; the kernel takes none.
    pub read_outside: bool,
    /// The call chain of the parameter `call-graph=`.
    pub call_chain: Option<CallChain>,
    /// The limit of the parameter `max-stack=`.
    pub max_stack: Option<u16>,
    /// The unit and scale of its count.
    pub measure: Measure,
}

impl Event {
    /// Returns true if it tells where threads wait.
    pub(crate) fn is_of_waits(&self) -> bool {
        self.watches || self.read_outside
    }

    /// Returns true if its samples are of parked tasks.
    pub(crate) fn is_of_tasks(&self) -> bool {
        self.read_outside && self.name == TASKS
    }

    /// Returns true if it has records of switches, and no samples.
    pub(crate) fn is_switch_records(&self) -> bool {
        self.records_switches && self.attr.is_dummy()
    }
}

/// Returns true if samples of the event carry what BPF programs write with `bpf_perf_event_output()`, and nothing else.
pub(crate) fn is_bpf_output(attr: &Attr) -> bool {
    /// `PERF_COUNT_SW_BPF_OUTPUT`
    const BPF_OUTPUT: u64 = 10;
    attr.kind == TYPE_SOFTWARE && attr.config == BPF_OUTPUT
}
