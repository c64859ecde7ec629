//! Parked goroutines of Go programs, with their stacks, from the memory of running processes, which are neither stopped nor changed.
//!
//! ```text
//! program's file ─▶ GoProgram: version, offsets, addresses of the runtime's variables
//!                      │   memory of the process
//!                      ▼         │
//!            GoProcess::snapshot ◀┘ list of goroutines ─▶ those that wait ─▶ stacks by frame pointers ─▶ read again: torn?
//!                      └─▶ Snapshot: stacks, with the number of goroutines that have each
//! ```
//! The memory is of the process, which may have written anything: all that is read has a bound, and chains that are no call chains of
//! the program's code are counted as torn.

mod call;
mod layout;
mod memory_pages;
mod process;
mod program;
mod snapshot;

pub use process::GoProcess;
pub use program::{GoProgram, NotUnderstood};
pub use snapshot::{Choice, Counts, Snapshot, TaskStack};
