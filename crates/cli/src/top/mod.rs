//! The screen of the live view, and its intervals as text and JSON.
//!
//! The crate `live` makes snapshots and lists; [`state`] and [`keys`] are the user's choices, [`draw`] the screen. None of
//! these three knows the time, the terminal or the profiled machine. [`code`] has a thread that reads the code of functions.

mod code;
mod cursor;
mod draw;
mod keys;
mod palette;
pub(crate) mod report;
mod save;
mod save_data;
mod screen;
pub(crate) mod screen_loop;
mod state;
mod theme;
