//! Opens the events of a recording on its target, and maps their rings.
//!
//! ```text
//! selected_events ─▶ negotiation: each event once, with fallbacks ─▶ opened: on every thread or CPU, with rings ─▶ running
//! ```
//!
//! [`whole_cpus`] chooses between threads and whole CPUs. Then [`negotiation`] finds out which attr of each event this kernel and
//! user may have ([`fallbacks`]; [`advice`] explains a refusal), and [`Opened`] opens these on the target: [`attach`] on the threads
//! of running processes. While the events run, [`hotplug`] follows CPUs that come and go, and [`lost_counts`] and
//! [`task_clock`] read what they counted.

mod advice;
mod attach;
mod descendants;
mod descriptors;
mod duplicates;
mod event_support;
mod fallbacks;
mod held_switches;
mod hotplug;
mod lost_counts;
mod negotiation;
mod opened;
mod reopen;
mod rings;
mod running;
mod selected_events;
mod sent_notices;
mod targets;
mod task_clock;
mod variants;
mod whole_cpus;

pub(crate) use advice::{NO_PLACE_FOR_A_PROBE, PROBED_BY_FTRACE, explain, explain_probe};
pub(crate) use attach::{all_threads, ended_processes};
pub(crate) use descendants::with_descendants;
pub(crate) use descriptors::Descriptors;
pub use descriptors::{attachable_threads, descriptors_for};
pub(crate) use duplicates::DuplicateFilter;
pub use event_support::{EventSupport, event_support, event_support_on_cpu};
pub(crate) use fallbacks::{Fallback, Kernel, Opener, Refusal, open_with_fallbacks};
pub(crate) use hotplug::EventIdMap;
pub(crate) use opened::{OpenEvent, Opened};
pub(crate) use rings::map_fitting;
pub use rings::{SIDEBAND_SIZE, default_ring_bytes, mlock_kb_for};
pub(crate) use selected_events::{counts_on, selected_events};
pub(crate) use targets::processes;
pub(crate) use task_clock::{TaskClocks, TaskReports};
pub(crate) use whole_cpus::{open, whole_cpu_rate};

use crate::error::Error;

/// Returns an error if the kernel has no perf events at all.
pub(crate) fn require_perf_events() -> Result<(), Error> {
    match host::sysctl::has_perf_events() {
        true => Ok(()),
        false => Err(Error::NoPerfEvents(
            "/proc/sys/kernel/perf_event_paranoid is missing: no perf events in this kernel, or no /proc",
        )),
    }
}
