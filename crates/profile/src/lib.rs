//! Samples to a counted profile, and a profile to views.
//!
//! ```text
//! raw call chain ──ChainCache──▶ StackId ──Profile::add──▶ counts per thread and stack
//!                       (miss: mapped, then StackTable::intern)
//! places, symbolized once each ──View──▶ FrameTree ──rows──▶ stacks of frames with weights
//! ```
//! Everything is a number until a format makes text of it.

mod async_rust;
mod branches;
mod chain_cache;
pub mod code;
pub mod comparison;
mod count;
mod detail;
pub mod explain;
mod filter;
mod folded_starts;
mod frame;
mod frame_chain;
mod growth;
mod index;
pub mod live;
mod one_liners;
mod pattern;
mod places;
mod pools;
mod profile;
pub mod queries;
mod runs;
pub mod runtime_names;
mod samples;
mod shape;
mod short_names;
mod shown_frames;
mod stack;
mod start_frames;
#[cfg(test)]
mod testing;
mod threads;
mod time_weight;
pub mod timeline;
mod tree;
mod view;
pub mod waiting;

pub use chain_cache::{ChainCache, ChainKey, RawChain};
pub use count::{Count, Weight};
pub use detail::{Columns, Detail};
pub use filter::{HOST, SampleFacts, SampleFilter, TimeRange, is_container, is_in_cgroup};
pub use frame::{FrameId, FrameKind, FrameTable, Label, ViewFrame, module_of};
pub use pattern::{Pattern, PatternError};
pub use places::PlaceId;
pub use pools::names as pool_names;
pub use profile::{MOST_CLASSES, Presence, Profile};
pub use samples::{Sample, Samples};
pub use shape::Shape;
pub use short_names::short_name;
pub use shown_frames::Show;
pub use stack::{StackId, StackTable};
pub use start_frames::StartPart;
pub use threads::{Thread, ThreadId, Threads, Where};
pub use time_weight::TimeWeight;
pub use tree::FrameTree;
pub use view::{Census, Nameless, StackNodes, View};
