//! Comparisons: what changed between two sides, each a recording or several runs.
//!
//! ```text
//! View of each run ──Side::add_run──▶ Side, Side ──Comparison::new──▶ tree (columns before, after), functions run by run
//!                                                                     └──assess──▶ rows with intervals, marks and verdicts
//! ```
//! A [`Side`] keeps no recording: each can be read, added and dropped before the next one is opened. Names are compared without
//! what compilers number ([`compared_name`]), and an inlined function is the same function.

mod assess;
mod join;
mod moved;
mod names;
mod paths;
mod row;
mod side;
pub mod statistics;
mod sums;
#[cfg(test)]
pub(crate) mod tests;

pub use assess::{Assessment, Exceeding, Experiment, Total, TotalKind};
pub use join::{Comparison, FunctionRuns};
pub use moved::Move;
pub use names::compared_name;
pub use paths::PathChange;
pub use row::{Evidence, MIN_MARKED_SHARE, Presence, Row, Verdict};
pub use side::{RunTotal, Side};

/// The column of the side before the change in [`Comparison::tree`].
pub const BEFORE: usize = 0;

/// The column of the side after the change in [`Comparison::tree`].
pub const AFTER: usize = 1;
