//! The commands, one file each: arguments and implementation.

mod additional_data;
pub mod annotate;
pub mod archive;
pub mod completions;
pub mod diff;
pub mod doctor;
pub mod dump;
pub mod dump_names;
pub mod explain;
pub mod export;
mod exported;
pub mod file_helper;
pub mod flame;
pub mod list;
mod missing_samples;
pub mod name_lookup;
#[cfg(feature = "push")]
pub mod push;
pub mod record;
pub mod recording;
pub mod report;
pub mod script;
mod stack_completeness;
pub mod stat;
mod summary;
pub mod top;
pub mod view;
#[cfg(feature = "push")]
pub mod watch;
