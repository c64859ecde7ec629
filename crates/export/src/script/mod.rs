//! The text form of `perf script`: a block per sample, which every stack collapser reads.
//!
//! The form equals that of `tools/perf/builtin-script.c`, including white space. Samples are formatted in two steps,
//! because symbols are looked up for many of them together: [`Printer::sample`] writes a sample into a [`GappedText`] with
//! gaps for symbols; once the symbols are resolved, [`GappedText::fill`] writes the whole. A line of a call chain is
//! formatted once, however often it is sampled ([`ChainLineTable`], [`ChainLineTexts`]).
//!
//! Names from the recorded machine are printed with unsafe characters replaced, as [`model::Name`] displays them.

mod address;
mod branches;
mod chain_lines;
mod fields;
mod gapped_text;
mod printer;
mod tracepoint;

pub use address::{AddressStyle, LocatedAddress, SymbolLookup};
pub use chain_lines::{ChainLine, ChainLineId, ChainLineTable, ChainLineTexts};
pub use fields::{EventKind, FieldError, FieldSelection, Fields};
pub use gapped_text::GappedText;
pub use printer::{Printer, SampleStack, ScriptEvent};
pub use tracepoint::TracepointFormat;
