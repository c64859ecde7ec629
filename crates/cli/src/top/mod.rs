//! The live view.
//!
//! ```text
//! recorder ──records──▶ engine (order, tracker, window of counted stacks) ──Snapshot──▶ state ──▶ screen | text | JSON
//!                          └──places without a name──▶ names (a thread of its own) ──┘
//! ```
//! What a snapshot holds is plain data; [`tables`] turns it into what views list, [`state`] and [`keys`] are the user's
//! choices, [`draw`] the screen. None of these four knows the time, the terminal or the profiled machine.

mod book;
mod chunks;
mod cursor;
mod described;
mod draw;
pub(crate) mod engine;
mod events;
mod filter;
mod growing;
mod keys;
pub(crate) mod live;
mod naming;
mod palette;
mod queue;
pub(crate) mod report;
mod sample_data;
mod save;
mod save_data;
mod screen;
mod snapshot;
mod state;
mod tables;
mod theme;
mod window;
