//! Moves records from the kernel's rings into chunks.
//!
//! [`Readers`] has a thread per CPU, which wakes when a ring runs full, and lets the writer empty rings that hold little at each
//! round. Both drain the [`shared_rings`] of a CPU by the ring [`protocol`], into memory of a [`buffer_pool`], and leave the
//! chunks as messages to the writer. Samples of [`ExcludedProcesses`] are not copied, nor are unfilled bytes of stack copies.

mod buffer_pool;
mod excluded_processes;
mod protocol;
mod reader;
mod shared_rings;

pub(crate) use excluded_processes::ExcludedProcesses;
pub use protocol::{RingMemory, drain_whole};
pub(crate) use reader::Readers;
pub(crate) use shared_rings::{DrainOptions, RingSource};
