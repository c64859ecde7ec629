//! From a perf.data file to named, counted stacks: the one way that every command takes.
//!
//! ```text
//! input ──Reader──▶ ordered ──Batch──▶ (unwind ──▶) replay (tracker) ──TrackedSample──▶ sink: aggregate (profiles) | script | …
//!                                                                       └──▶ symbols (each unique place once)
//! ```

pub mod admission;
pub mod aggregate;
mod build_ids;
pub mod caption;
pub mod downloads;
pub mod events;
pub mod hints;
pub mod input;
mod lives;
mod ordered;
pub mod remedies;
pub mod replay;
pub mod runtimes;
pub mod symbols;
mod undecodable;
mod unsampled;
mod unwind;
