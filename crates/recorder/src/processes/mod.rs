//! What is known of processes while recording: records of those that existed before, who has generated code, containers, files that
//! will not be found later, Java virtual machines, and which processes still live.

mod container_table;
mod held_files;
mod jvms;
mod liveness;
mod process_table;
mod synthesis;

pub use container_table::Containers;
pub use held_files::{Holding, NameSources};
pub(crate) use jvms::AskingJvms;
pub use liveness::Census;
pub(crate) use process_table::ProcessTable;
pub(crate) use synthesis::{Synthesis, mappings};
