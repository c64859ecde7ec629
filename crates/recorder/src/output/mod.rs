//! Writes a recording as perf.data: the header, the four formats of the file, and the thread that writes behind a buffer.

mod build_ids;
mod format;
mod header;
mod machine_features;
mod tracing_data;
mod write_behind;

pub(crate) use build_ids::BuildIds;
pub(crate) use format::Output;
pub(crate) use header::{Description, FILE_MODE};
pub use write_behind::OUTPUT_BUFFER_BYTES;
pub(crate) use write_behind::{WriteBehind, append_rounds};

/// Extends a span of times, first and last, to include `time` if there is one.
pub(crate) fn include_time(span: &mut Option<(u64, u64)>, time: Option<u64>) {
    if let Some(time) = time {
        let (first, last) = span.unwrap_or((time, time));
        *span = Some((first.min(time), last.max(time)));
    }
}
