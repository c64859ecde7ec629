//! The text form of `perf script`: a block per sample, which every stack collapser reads.
//!
//! The form is that of `tools/perf/builtin-script.c`, down to the blanks. It is made in two steps, since names come
//! late: [`Printer::sample`] writes a sample into a [`GappedText`] with gaps where symbols belong, and, once the places
//! behind the gaps are known, [`GappedText::fill`] writes the whole. A place of a call chain is formatted once, however often
//! it is sampled: see [`ChainLineTable`] and [`ChainLineTexts`].
//!
//! Names of the recorded machine come out harmless, as [`model::Name`] displays them.

mod address;
mod branches;
mod chain_lines;
pub mod dump;
mod fields;
mod gapped_text;
mod memory;
mod number;
mod printer;
mod registers;
pub mod tracepoint;

pub use address::{AddressStyle, LocatedAddress, SymbolLookup};
pub use chain_lines::{ChainLine, ChainLineId, ChainLineTable, ChainLineTexts};
pub use fields::{EventKind, FieldError, FieldSelection, Fields};
pub use gapped_text::GappedText;
pub use printer::{Printer, SampleStack, ScriptEvent};
