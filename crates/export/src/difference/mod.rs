//! Comparisons of two sides as a page of text, Markdown for a comment, JSON and CSV.

mod figures;
mod headline;
mod json;
mod page;

use std::io::{self, Write};

use profile::FrameId;
use profile::comparison::{Assessment, Comparison, Exceeding};

use crate::names::ShownNames;

pub use crate::report::Format;

/// The unit of weights.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit<'a> {
    /// Nanoseconds.
    Time,
    /// Samples.
    Samples,
    /// Events of this name.
    Events(&'a str),
}

/// A side as it is called.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SideName {
    /// The recordings or the slice, as they were typed.
    pub name: String,
    /// A line on what was recorded, where and when.
    pub title: String,
}

/// A library that is another build on the other side.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Library {
    /// The name of the file, without its folder.
    pub module: String,
    /// The beginnings of the build ids before and after.
    pub build_ids: [String; 2],
    /// The self weights of its functions before and after, means over runs.
    pub means: [u64; 2],
}

/// A threshold, and what passed it.
#[derive(Clone, PartialEq, Debug)]
pub struct Threshold {
    /// The growth that is allowed, in per cent.
    pub percent: f64,
    /// The growth that layout alone may cause, in per cent, if the program was built anew.
    pub allowance: Option<f64>,
    /// The parts that grew more than both.
    pub exceeding: Vec<Exceeding>,
}

/// A comparison with all that is said about it.
pub struct Difference<'a> {
    /// The sides, joined.
    pub comparison: &'a Comparison,
    /// The changes, and how sure they are.
    pub assessment: &'a Assessment,
    /// The sides, before and after.
    pub sides: [SideName; 2],
    /// True if the runs of both sides are pairs.
    pub is_paired: bool,
    /// The name of the event.
    pub event: &'a str,
    /// The unit of weights.
    pub unit: Unit<'a>,
    /// Differences between the recordings that may explain changes: another machine, another rate; and what keeps them from being
    /// whole.
    pub notes: Vec<String>,
    /// Libraries that are other builds.
    pub libraries: Vec<Library>,
    /// The threshold, if one was asked for.
    pub threshold: Option<Threshold>,
    /// The names of functions in text.
    pub shown_names: ShownNames,
}

/// Writes a comparison.
///
/// # Errors
/// Those of `output`.
pub fn write(difference: &Difference<'_>, format: Format, output: &mut dyn Write) -> io::Result<()> {
    match format {
        Format::Text { width } => page::text(difference, width, output),
        Format::Json => json::write(difference, output),
        Format::Markdown => page::markdown(difference, output),
        Format::Csv => json::csv(difference, output),
    }
}

/// Chooses the names of functions of a comparison for text; whole ones if `are_full`.
pub fn shown_names(comparison: &Comparison, are_full: bool) -> ShownNames {
    let names: Vec<String> = comparison.tree().frames().iter().map(|frame| figures::names(frame).0).collect();
    ShownNames::new(names.iter().map(String::as_str), are_full)
}

impl Difference<'_> {
    /// The name of a function, safe to print, and its module.
    fn name(&self, frame: FrameId) -> (String, String) {
        self.comparison.tree().frames().get(frame.index()).map_or_else(Default::default, figures::names)
    }

    /// The name of a function as text has it.
    fn shown_name(&self, frame: FrameId) -> String {
        self.shown_names.of(&self.name(frame).0).into_owned()
    }

    /// The number of runs of each side.
    fn runs(&self) -> [usize; 2] {
        [profile::comparison::BEFORE, profile::comparison::AFTER].map(|side| self.comparison.runs(side).len())
    }

    /// A remark that weights are means, if there are several runs.
    fn per_run(&self) -> &'static str {
        if self.runs().iter().any(|&runs| runs > 1) { ", means per run" } else { "" }
    }
}
