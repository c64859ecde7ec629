//! The screen of the live view, and its intervals as text and JSON.
//!
//! The crate `live` makes snapshots and lists; [`state`] and [`keys`] are the user's choices, [`draw`] the screen. None of
//! these three knows the time, the terminal or the profiled machine. [`code`] has a thread that reads the code of functions.

mod app;
mod code_view;
mod draw;
pub(crate) mod event_loop;
mod keys;
mod list_cursor;
mod palette;
pub(crate) mod report;
mod save;
mod save_recording;
mod screen;
mod theme;
