//! The engine of live views: from a running recording to snapshots of its last seconds, and from these to rows.
//!
//! ```text
//! recorder ──records──▶ Engine (order, SampleReader, window of counted stacks) ──Snapshot──▶ views ──▶ screen | text | JSON
//!                          └──addresses without a name──▶ symbol worker (a thread of its own) ──┘
//! ```
//!
//! A [`Snapshot`](snapshot::Snapshot) is plain data, which nobody changes; [`views`] turns it into what is listed or drawn,
//! knowing neither the time nor the profiled machine.

pub mod code;
mod counting;
mod engine;
mod events;
pub mod filter;
mod queue;
mod record;
mod remarks;
mod shared_call_tree;
mod shared_list;
pub mod snapshot;
mod symbol_table;
mod symbol_worker;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod thread_time;
pub mod views;
mod window;

pub use engine::{Engine, News, Order, Settings};
pub use record::record;
pub use shared_list::SharedList;
