//! The statistics of comparisons: how far a difference between runs can be trusted.
//!
//! The decision page "How changes are told from noise" in `docs/decisions` says why these and no others; `cargo xtask simulate` shows
//! how often they err.

mod family;
mod observations;
mod relabelling;
mod scale;

pub(super) use family::WITHIN;
pub use family::{CONFIDENCE, Estimate, Family, compare, compare_totals};
pub use observations::{Item, Observation};
pub use relabelling::{LEVEL, NEEDED_RUNS};
pub(super) use scale::STANDS_OUT;
