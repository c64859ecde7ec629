//! Reads a recording into counted profiles with names: the one way that every command takes.
//!
//! ```text
//! input ──Reader──▶ ordered ──Batch──▶ (unwind ──▶) replay (tracker) ──TrackedSample──▶ sink: aggregate ──▶ counter (profiles) | script | …
//!                                                                       └──▶ symbols (each unique place once)
//! ```
//!
//! The stages of this picture are the files beside this one. The folders hold what the stages work with:
//!
//! | folder | concern |
//! |---|---|
//! | `input` | opening a recording, and what its header says of processes and build ids |
//! | `foreign` | profiles of other tools: folded stacks and pprof |
//! | `samples` | which samples count, for which event, and CPU time that no sample stands for |
//! | `waits` | off-CPU and wall-clock time: intervals between switches, weighed by stack |
//! | `generated_code` | jitdumps and language runtimes |
//! | `symbols` | names for addresses: objects, kernel, perf maps, jitdumps, debuginfod |
//! | `embedded` | names, code and jitdump placements that prof writes into a recording, and reads back |
//! | `annotate` | instructions and source lines of sampled functions |
//! | `resources`, `object_ids` | services, programs and containers of processes, and identities of objects, as exports state them |
//! | `report` | captions, hints and advice that accompany a profile |
//!
//! The library prints nothing: it reports progress and warnings through [`Notices`]. `examples/hottest.rs` is a whole program
//! that prints the ten hottest functions of a perf.data file.

pub mod aggregate;
pub mod annotate;
mod batch;
pub mod comparable;
mod counter;
mod embedded;
mod error;
pub mod foreign;
pub mod gaps;
mod generated_code;
pub mod input;
pub mod load;
pub mod notices;
pub mod object_ids;
mod ordered;
pub mod program_samples;
pub mod replay;
mod report;
pub mod request;
pub mod resources;
pub mod runs;
mod samples;
pub mod symbols;
mod unwind;
mod waits;

pub use embedded::{archive, ephemeral_names, jit_placements};
pub use error::Error;
pub use generated_code::{jit_dumps, runtimes};
pub use load::{Analysis, EventProfile};
pub use notices::Notices;
pub use profile::TimeWeight;
pub use report::{
    EventView, advice, event_view, hints, is_known_to_take_a_value, missing_share, packages, rate_advice,
    user_modules,
};
pub use request::{Measure, Request, Servers};
pub use samples::{events, explained_filter};
pub use waits::{
    CauseId, LiveTimes, SpanWaker, TimeSlice, WaitSpans, WatchedEvent, thread_state, with_request,
};
