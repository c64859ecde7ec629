//! The raw data of tracepoints, printed as their formats say.
//!
//! A recording with tracepoints carries the text of each one's `tracing/events/SYSTEM/NAME/format`: where the fields
//! lie, and a line of C, `print fmt: "prev_comm=%s …", REC->prev_comm, …`, that prints them. The subset of C that
//! such lines use is parsed and carried out here; where one goes beyond it (a function of the kernel, a statement),
//! the fields are printed one by one, marked `[FAILED TO PARSE]`, as perf does.

mod arguments;
mod expression;
mod format;
mod formats;
mod parse;
mod print;
mod printf;
mod token;

pub use format::TracepointFormat;
pub use formats::TracepointFormats;
