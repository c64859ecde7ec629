//! Writing a recording as perf.data: its header, the shapes a file may have, and the thread that writes behind a buffer.

mod file_consumer;
mod format;
mod header;
mod machine_features;
mod tracing_data;
mod write_behind;

pub use file_consumer::{FileConsumer, OUTPUT_BUFFER_BYTES};
pub(crate) use format::Output;
pub(crate) use header::{BuildIds, Description, MODE};
pub(crate) use write_behind::{Exchange, WriteBehind};
