//! The screen of `prof top`, and its intervals as text and JSON.
//!
//! The crate `live` makes snapshots, and rows of them. [`event_loop`] receives snapshots, keys and signals, and hands them to [`app`],
//! which holds what the user has chosen; [`keys`] says what each key does to it, and [`draw`] draws it. `app`, `keys` and `draw` know
//! neither the time nor the terminal nor the profiled machine. [`code_view`] has a thread that reads the code of functions.

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
