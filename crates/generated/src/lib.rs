//! Parses the files in which runtimes describe the code that they generate.
//!
//! Two forms exist, both of perf: the perf map (`/tmp/perf-PID.map`, text, one function per line, without times) and
//! jitdump (`jit-PID.dump`, binary, with times, lines, unwinding information and the code itself).
//!
//! # What the caller supplies
//! The bytes: lines of a perf map ([`PerfMapSearch::push_line`]), a file of a jitdump ([`JitDump::read`]). Whoever opens the file decides
//! which one it is, and whether it can be believed (`host::perf_map`). Crates that open no files are given a [`DumpSource`].
//!
//! # What is not handled
//! Whether an address lies in generated code at all, and at which time: `tracker` knows that.

mod dump_source;
mod jit_dump;
mod perf_map;

pub use dump_source::{DumpFile, DumpReader, DumpSource, READ_INTERVAL};
pub use jit_dump::{Function, JitDump, JitDumpError, Line, Placement, UnwindingInfo, is_dump};
pub use perf_map::{MappedFunction, PerfMapSearch};
