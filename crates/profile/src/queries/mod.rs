//! Questions to profiles: which functions, called by whom, calling what, and how profiles differ.
//!
//! ```text
//! View, View… ──CallTree::of──▶ CallTree (a column of weights for each) ──▶ functions
//!                                   │                                   ──▶ from_leaves, callers, callees
//! ```
//! The columns of one tree share its frames: several events of a recording, or a recording before and after a change.

mod call_tree;
mod callers;
mod functions;

pub(crate) use call_tree::Place;
pub use call_tree::{CallTree, CallTreeBuilder, NodeId};
pub use functions::{ByLabel, FunctionTable, RowKeys, Weights};
