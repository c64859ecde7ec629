//! What `/proc` tells of recorded processes: records of those that existed before, when those with generated code began and whose
//! they are, their containers, programs and services, files that will not be found later, Java virtual machines, and which processes are dead.

mod container_table;
mod dead_process_sweep;
mod held_files;
mod jvm_maps;
mod process_table;
mod resources;
mod synthesis;
mod users;

// When so many processes are remembered as the file has room for, all are forgotten, also those whose end was lost.
use perfdata::sections::MAX_ENTRIES as MAX_PROCESSES;

pub use container_table::Containers;
pub(crate) use dead_process_sweep::{DeadProcessSweep, MIN_PROCESSES_TO_SWEEP, SWEEP_INTERVAL};
pub use held_files::{FileHolder, NameSources};
pub(crate) use jvm_maps::JvmMapRequester;
pub(crate) use process_table::ProcessTable;
pub use resources::ProcessResources;
pub(crate) use synthesis::{Synthesis, mappings};
