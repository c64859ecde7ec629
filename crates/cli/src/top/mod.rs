//! The screen of `prof top`, and its intervals as text and JSON.
//!
//! The crate `live` makes snapshots, and rows of them. [`event_loop`] receives snapshots, keys and signals, and hands them to [`app`],
//! which holds what the user has chosen; [`keys`] says what each key does to it, and [`draw`] draws it. `app`, `keys` and `draw` know
//! neither the time nor the terminal nor the profiled machine.

mod app;
mod draw;
pub(crate) mod event_loop;
mod keys;
mod list_cursor;
pub(crate) mod report;
mod save;
mod screen;
mod theme;
