//! Writes profiles and samples in output formats. No other crate knows an output format.
//!
//! Each command's output has a folder: `annotate`, `explain`, `flamegraph`, `report`, `script` and `view` (the HTML page).
//! Profile formats of other tools are in `exchange`, with a file or folder for each. A new format of `prof export` is a
//! file there and a variant of [`exchange::Format`].
//!
//! Names come from the profiled machine and may be hostile. Every writer escapes them, so that no name breaks a line, a
//! field or a tag of the output.

pub mod annotate;
pub mod difference;
pub mod exchange;
pub mod explain;
mod figures;
pub mod flamegraph;
pub mod folded;
mod interner;
mod label_stacks;
mod names;
mod palette;
pub mod report;
pub mod script;
mod source_text;
pub mod summary;
mod table;
pub mod view;
pub mod wait_chains;
mod waiting;

pub use names::{ShownNames, fit_name, frame_name, printable, safe_label};
pub use palette::{Rgb, THREAD_TIME_LEGEND, frame_colour};
pub use source_text::{SourceReader, SourceText};
pub use waiting::is_off_cpu;
