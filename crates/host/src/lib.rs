//! Access to the operating system: perf events and their rings, `/proc` and `/sys`, files.
//!
//! This crate knows no record format. All `unsafe` code of the project is in the module [`sys`].

pub mod cgroup;
pub mod cpus;
pub mod debuginfod;
pub mod defined_probe;
pub mod dump_files;
pub mod files;
mod helper_process;
#[cfg(feature = "http")]
pub mod http;
pub mod in_root;
pub mod jvm;
pub mod kallsyms;
pub mod live_processes;
pub mod machine;
mod mounts;
pub mod objects;
pub mod perf_map;
pub mod process_handle;
pub mod process_memory;
pub mod procfs;
pub mod slow_files;
pub mod sources;
pub mod survey;
pub mod sys;
pub mod sysctl;
pub mod sysfs;
pub mod timed_worker;
pub mod topology;
pub mod tracefs;
