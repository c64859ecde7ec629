//! Finds the JavaScript functions that V8 ran in Node.js 18 to 24 when a sample was taken, without a switch of Node.js, and without stopping
//! it.
//!
//! ```text
//! object file (constants `v8dbg_…`) ─▶ V8 ─┐
//! stack words and code addresses of the sample ─┴▶ JavaScriptProcess ─▶ Found: functions and lines
//! memory of the process, as it is now ─▶ ProcessMemory ──┘
//! ```
//!
//! # What the caller supplies
//! The object file, the words of each native frame that V8 may have made, and a reader of the process's memory. The crate performs no I/O, and
//! believes nothing that it reads.

mod code;
mod function;
mod heap;
mod layout;
mod lines;
mod positions;
mod process;
mod scope;
mod text;
mod v8;

pub use function::{JavaScriptFunction, Tier};
pub use process::{Found, FrameOf, FrameWords, JavaScriptFrame, JavaScriptProcess};
pub use v8::{CodeRole, V8};
