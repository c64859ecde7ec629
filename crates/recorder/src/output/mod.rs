//! Writes a recording as perf.data: the header, the four formats of the file, and the thread that writes behind a buffer.

mod file_consumer;
mod format;
mod header;
mod machine_features;
mod tracing_data;
mod write_behind;

pub use file_consumer::{FileConsumer, OUTPUT_BUFFER_BYTES};
pub(crate) use format::Output;
pub(crate) use header::{BuildIds, Description, FILE_MODE};
pub(crate) use write_behind::{Exchange, WriteBehind};
