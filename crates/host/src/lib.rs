//! Everything that the operating system gives: perf events and their rings, `/proc` and `/sys`, files.
//!
//! No record format is known here. All `unsafe` of the project lives in the module [`sys`].

pub mod cgroup;
pub mod cpus;
pub mod debuginfod;
pub mod defined_probe;
pub mod files;
pub mod in_root;
pub mod jvm;
pub mod kallsyms;
pub mod machine;
mod mounts;
pub mod objects;
pub mod perf_map;
pub mod procfs;
pub mod survey;
pub mod sys;
pub mod sysctl;
pub mod sysfs;
pub mod timed_worker;
pub mod topology;
pub mod tracefs;
