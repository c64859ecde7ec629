//! Opening events: the ladder of what a kernel or user may not have, the rings, and whom to open them on.

mod advice;
mod attach;
mod descendants;
mod descriptors;
mod duplicates;
mod event_support;
mod hotplug;
mod ladder;
mod lost_counts;
mod plan;
mod rings;
mod running;
mod selected;
mod settling;
mod targets;
mod task_clock;
mod told;
mod variants;
mod whole_cpus;

pub(crate) use advice::{NO_PLACE_FOR_A_PROBE, PROBED_BY_FTRACE, explain, explain_probe};
pub(crate) use attach::{all_threads, gone};
pub(crate) use descendants::with_descendants;
pub(crate) use descriptors::Descriptors;
pub use descriptors::{attachable_threads, descriptors_for};
pub(crate) use duplicates::DuplicateFilter;
pub use event_support::{EventSupport, event_support, event_support_on_cpu};
pub(crate) use hotplug::Numbers;
pub(crate) use ladder::{Kernel, Opener, Refusal, Step, settle};
pub(crate) use plan::{OpenEvent, Opened};
pub(crate) use rings::map_fitting;
pub use rings::{SIDEBAND_SIZE, default_ring_bytes, mlock_kb_for};
pub(crate) use selected::{counts_on, selected};
pub(crate) use targets::processes;
pub(crate) use task_clock::{TaskClocks, TaskReports};
pub(crate) use whole_cpus::open;
