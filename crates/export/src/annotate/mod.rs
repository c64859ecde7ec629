//! Functions with their samples at source lines and instructions, as text or JSON.

mod arrows;
mod json;
mod text;

use profile::code::CodeRange;

use crate::SourceReader;

pub use json::write as write_json;
pub use text::write as write_text;

/// A function with all pieces of its code.
pub struct AnnotatedFunction {
    /// Its name.
    pub name: String,
    /// Its pieces, heaviest first.
    pub ranges: Vec<CodeRange>,
}

impl AnnotatedFunction {
    /// Returns the weight of the samples taken in it.
    pub fn weight(&self) -> u64 {
        self.ranges.iter().map(|range| range.weight).fold(0, u64::saturating_add)
    }
}

/// The event, totals, sources and style of an annotated listing, which its functions share.
pub struct Listing<'a> {
    /// Name of the event.
    pub event: &'a str,
    /// The unit of weights: `samples`, or what the event counts.
    pub unit: &'a str,
    /// Weight of all samples.
    pub total: u64,
    /// Samples lost.
    pub lost: u64,
    /// Reads source files.
    pub sources: &'a SourceReader<'a>,
    /// True to show ranges of instructions without samples.
    pub full: bool,
    /// True to colour hot rows.
    pub colour: bool,
}
