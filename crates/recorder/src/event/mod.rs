//! Which events: perf's grammar, as a pure function of text and a [`Catalogue`] of what the machine offers.
//!
//! `parse` cuts the text into terms without knowing the machine; [`select`] looks each up in the catalogue and
//! gives [`Event`]s, from which the module `attr` makes what the kernel takes.

mod call_chain;
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

pub use call_chain::{CallChain, DEFAULT_STACK_COPY};
pub use catalogue::{Catalogue, Pmu, Tracepoint, matches};
pub use error::EventError;
pub use listing::{Kind, Listed, listing};
pub use measure::Measure;
pub use modifiers::{Modifiers, Precision};
pub use nearest::nearest;
pub(crate) use nearest::of as nearest_of;
pub use probes::Probe;
pub use select::select;
pub(crate) use select::{clock_event, default_events};
pub(crate) use this_machine::core_pmus;
#[cfg(test)]
pub(crate) use this_machine::pmu;
pub use this_machine::{ThisMachine, this_machine};

/// The rate at which to sample.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rate {
    /// Samples per second; the kernel steers the period.
    Frequency(u64),
    /// One sample per so many events (nanoseconds, for the clocks).
    Period(u64),
}

/// An event to be sampled, as the user selected it.
#[derive(Clone, PartialEq, Debug)]
pub struct Event {
    /// As typed, or as `name=` says; what the recording calls it.
    pub name: String,
    /// The counted event: `type`, `config…` and the breakpoint fields are set, nothing else.
    pub attr: Attr,
    /// Privilege levels, precision and the like.
    pub modifiers: Modifiers,
    /// `freq=` or `period=` of this event.
    pub rate: Option<Rate>,
    /// Without one, sample each occurrence rather than by frequency (tracepoints, breakpoints).
    pub every_occurrence: bool,
    /// The CPUs that its PMU counts on, where not on all.
    pub cpus: Option<Vec<CpuId>>,
    /// True if these are the CPUs of a kind of core; else the PMU belongs to no core, and to no thread.
    pub core: bool,
    /// The place in the list of the group's leader, for members of a group.
    pub leader: Option<usize>,
    /// Nobody asked for it by name: where the machine does not have it, another will do.
    pub is_default: bool,
    /// System and name of a tracepoint.
    pub tracepoint: Option<(String, String)>,
    /// The place of a user-space probe.
    pub probe: Option<Probe>,
    /// An ftrace filter, for tracepoints.
    pub filter: Option<String>,
    /// Sampled on whole CPUs whatever the target is, from its opening to its end: what happens to the target's threads happens
    /// in others.
    pub everywhere: bool,
    /// Tells where threads wait: held back while there are too many switches, and, where it is the target's own, with a record
    /// of each switch.
    pub watches: bool,
    /// Its samples are made from what is read of blocked threads from outside; it takes none itself.
    pub read_outside: bool,
    /// `call-graph=` of this event.
    pub call_chain: Option<CallChain>,
    /// `max-stack=` of this event.
    pub max_stack: Option<u16>,
    /// The measure in which its count is read.
    pub measure: Measure,
}

/// Returns true if the event is what BPF programs write (`bpf_perf_event_output()`): its samples are nothing but that.
pub(crate) fn is_bpf_output(attr: &Attr) -> bool {
    /// `PERF_COUNT_SW_BPF_OUTPUT`
    const BPF_OUTPUT: u64 = 10;
    attr.kind == TYPE_SOFTWARE && attr.config == BPF_OUTPUT
}
