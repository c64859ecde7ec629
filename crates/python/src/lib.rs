//! Finds the Python functions that an interpreter (CPython 3.11 to 3.15) ran when a sample was taken, without a switch of the
//! interpreter, and without stopping it.
//!
//! ```text
//! object file ─▶ Interpreter ─┐
//! registers and stack words of the sample ─▶ Activation ─┴▶ PythonProcess ─▶ Run: functions and lines
//! memory of the process, as it is now ─▶ ProcessMemory ──┘
//! ```
//!
//! # What the caller supplies
//! The object file, the candidates of each native frame of `_PyEval_EvalFrameDefault`, and a reader of the process's memory. The crate performs
//! no I/O, and believes nothing that it reads.

mod code;
mod copies;
mod evidence;
mod interpreter;
mod layout;
mod lines;
mod looks;
mod misses;
mod process;
mod run;
mod split;
mod text;
mod votes;

pub use code::PythonFunction;
pub use evidence::{Activation, Candidate, Location};
pub use interpreter::Interpreter;
pub use looks::Look;
pub use process::{PythonProcess, ThreadView};
pub use run::{PythonFrame, Run};
