//! Profiles as bytes in other people's formats. The only crate that knows them; one module per format.
//!
//! Names come in raw and leave safe: what a symbol table or a thread called itself never breaks a line, a field or a
//! tag of the output.

pub mod annotate;
pub mod exchange;
pub mod explain;
pub mod flamegraph;
pub mod folded;
mod label_stacks;
mod names;
mod palette;
pub mod report;
pub mod script;
pub mod summary;
pub mod view;
mod waiting;

/// Reads a source file's lines by the path that debug information states; returns `None` for a file that cannot be read.
pub type SourceReader<'a> = dyn Fn(&str) -> Option<std::sync::Arc<[String]>> + 'a;

pub use names::{frame_name, printable, safe_label};
pub use palette::{Rgb, THREAD_TIME_LEGEND, thread_time_colour};
pub use waiting::is_off_cpu;
