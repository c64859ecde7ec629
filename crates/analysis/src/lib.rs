//! Reads a recording into counted profiles with names: the one way that every command takes.
//!
//! ```text
//! input ──Reader──▶ ordered ──Batch──▶ (unwind ──▶) replay (tracker) ──TrackedSample──▶ sink: aggregate ──▶ counter (profiles) | script | …
//!                                                                       └──▶ symbols (each unique place once)
//! ```
//!
//! The library prints nothing: what a person should hear while it works goes through [`Notices`]. `examples/hottest.rs` is a
//! whole program that prints the ten hottest functions of a perf.data file.

pub mod admission;
pub mod aggregate;
pub mod annotate;
pub mod archive;
mod both;
mod build_ids;
mod caption;
pub mod carried_dumps;
mod counter;
pub mod downloads;
mod error;
pub mod event_view;
pub mod events;
pub mod gaps;
pub mod hints;
pub mod input;
pub mod jit_dumps;
pub mod lives;
pub mod load;
pub mod notices;
mod ordered;
pub mod own_code;
pub mod remedies;
pub mod replay;
pub mod request;
pub mod runtimes;
pub mod symbols;
mod undecodable;
mod unsampled;
mod unwind;
pub mod vanishing;
mod waits;

pub use caption::is_known_to_take_a_value;
pub use error::Error;
pub use event_view::EventView;
pub use load::{Analysis, EventProfile};
pub use notices::Notices;
pub use request::{Measure, Request, Servers};
pub use waits::{
    CauseId, LiveTimes, TimeSlice, TimeWeight, WaitSpan, WatchedEvent, thread_state, with_request,
};
