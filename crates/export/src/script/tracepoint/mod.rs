//! The raw data of tracepoints as text, printed by their formats.
//!
//! A recording with tracepoints carries the text of each one's `tracing/events/SYSTEM/NAME/format`: the offsets of the
//! fields, and a line of C that prints them, `print fmt: "prev_comm=%s …", REC->prev_comm, …`. This module parses and
//! evaluates the subset of C that such lines use. Where one goes beyond it (a function of the kernel, a statement), the
//! fields are printed one by one behind `[FAILED TO PARSE]`, as in perf.

mod arguments;
mod expression;
mod field;
mod format;
mod formats;
mod parse;
mod print;
mod printf;
mod token;

pub use format::TracepointFormat;
pub use formats::TracepointFormats;
