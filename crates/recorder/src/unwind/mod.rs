//! Unwinds samples while recording: a stage between the rings and a consumer.
//!
//! ```text
//! chunks of rings ─▶ UnwindingStage: order by rounds, then SampleUnwinder ─▶ OrderedConsumer: the live engine, or
//!                                                                           ChunkEncoder ─▶ Consumer: a file, a window
//! ```
//!
//! [`UnwindingStage`] receives chunks in the order of the rings, and forwards single records in the order of time. A sample whose
//! stack can be unwound while it is still in its ring comes as an `unwound_sample`; any other is unwound when its turn has come
//! (`sample_unwinder`).

mod chunk_encoder;
mod exec_times;
mod fresh_maps;
mod layouts;
mod ordered_consumer;
mod pending;
mod sample_unwinder;
mod stage;
mod totals;
mod unwound_sample;

pub use chunk_encoder::{ChunkEncoder, MIN_SPACES_TO_FORGET};
pub use ordered_consumer::OrderedConsumer;
pub use stacks::{MAX_CHAIN_ADDRESSES, MAX_REMARKS, Mechanisms, RefusedTables};
pub use stage::UnwindingStage;
pub(crate) use stage::{MAX_PENDING_BYTES, RELEASE_INTERVAL};
pub use totals::StackTotals;
pub(crate) use unwound_sample::UnwoundSample;
