//! Opening events: the ladder of what a kernel or user may not have, the rings, and whom to open them on.

mod advice;
mod attach;
mod descendants;
mod descriptors;
mod duplicates;
mod hotplug;
mod ladder;
mod lost;
mod plan;
mod rings;
mod running;
mod selected;
mod targets;
mod task_clock;
mod variants;
mod whole_cpus;

pub(crate) use duplicates::Duplicates;
pub(crate) use hotplug::{Numbers, PULSE};
pub(crate) use ladder::{Kernel, Opener, Step, settle};
pub(crate) use plan::{OpenEvent, Opened, is_kernels_own};
pub(crate) use targets::processes;
pub(crate) use task_clock::{TaskClocks, TaskReports};
pub(crate) use whole_cpus::open;
