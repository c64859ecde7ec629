//! The text form of `perf script`: a block per sample, which every stack collapser reads.
//!
//! The form is that of `tools/perf/builtin-script.c`, down to the blanks. It is made in two steps, since names come
//! late: [`Printer::sample`] writes a sample into a [`Text`] with gaps where symbols belong, and, once the places
//! behind the gaps are known, [`Text::fill`] writes the whole. A place of a call chain is formatted once, however often
//! it is sampled: see [`LineNumbers`] and [`LineTexts`].
//!
//! Names of the recorded machine come out harmless, as [`model::Name`] displays them.

mod branches;
pub mod dump;
mod fields;
mod lines;
mod memory;
mod number;
mod places;
mod printer;
mod registers;
mod text;
pub mod tracepoint;

pub use fields::{EventKind, FieldError, Fields, Selection};
pub use lines::{Line, LineId, LineNumbers, LineTexts};
pub use places::{Place, Style, Symbols};
pub use printer::{Printer, ScriptEvent, Stack};
pub use text::Text;
