//! The statistics of comparisons: how far a difference between runs can be trusted.
//!
//! The decision page "How changes are told from noise" in `docs/decisions` says why these and no others; `cargo xtask simulate` shows
//! how often they err.

mod distribution;
mod family;
mod moderation;
mod observations;
mod relabelling;
mod scale;

pub use family::{CONFIDENCE, Estimate, Family, LEVEL, POWER, compare, compare_totals, needed_runs};
pub use observations::{Design, Item, Observation};
