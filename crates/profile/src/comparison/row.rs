//! A function on both sides, and what is said of it.

use super::statistics::Estimate;
use crate::FrameId;

/// Share of a side from which a function is marked and can pass a threshold.
pub const MIN_MARKED_SHARE: f64 = 0.005;

/// The basis of what is said.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Evidence {
    /// One recording on each side: intervals count samples, and nothing is marked.
    SingleRecordings,
    /// Fewer runs of a side than a test needs.
    TooFewRuns,
    /// Enough runs to test.
    Runs,
}

/// The sides that a function has samples on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Presence {
    /// On both.
    Both,
    /// Only after.
    New,
    /// Only before.
    Gone,
}

impl Presence {
    /// Its name in JSON and CSV.
    pub fn name(self) -> &'static str {
        match self {
            Self::Both => "both",
            Self::New => "new",
            Self::Gone => "gone",
        }
    }
}

/// The fate of a function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// No change beyond noise is known.
    Unchanged,
    /// It takes longer.
    Grown,
    /// It takes less time.
    Shrunk,
    /// Its callers, callees or siblings lost what it gained, or the other way round. The index of the move.
    Moved(usize),
}

impl Verdict {
    /// Its name in JSON and CSV, and beside a row.
    pub fn name(self) -> &'static str {
        match self {
            Self::Unchanged => "unchanged",
            Self::Grown => "grown",
            Self::Shrunk => "shrunk",
            Self::Moved(_) => "moved",
        }
    }
}

/// A function on both sides. Weights are means over runs.
#[derive(Clone, PartialEq, Debug)]
pub struct Row {
    /// The function, in the frames of the comparison's tree.
    pub frame: FrameId,
    /// Self weights before and after.
    pub means: [f64; 2],
    /// Weights with callees before and after.
    pub totals: [f64; 2],
    /// The larger of its self shares of both sides.
    pub share: f64,
    /// The self weight after, less that before times [`super::Assessment::factor`].
    pub difference: f64,
    /// The sides on which it has samples.
    pub presence: Presence,
    /// The estimate of its self weight, relative to everything else. `None` if it holds less than a quarter of a per cent.
    pub estimate: Option<Estimate>,
    /// The fate.
    pub verdict: Verdict,
}
