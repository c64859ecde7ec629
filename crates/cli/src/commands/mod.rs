//! One file per command: its arguments, and what it does.

pub mod annotate;
pub mod archive;
pub mod call_graph;
pub mod completions;
pub mod doctor;
pub mod dump;
pub mod dump_names;
pub mod explain;
pub mod export;
mod extras;
pub mod flame;
pub mod hold;
mod in_parts;
pub mod list;
mod missing;
pub mod record;
pub mod report;
pub mod script;
mod sink;
pub mod stat;
mod summary;
pub mod top;
pub mod view;
