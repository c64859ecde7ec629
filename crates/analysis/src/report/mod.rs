//! What is said about a profile: its caption, what keeps it from being whole (hints), and what to type against that (advice).
//!
//! A new hint goes into `hints`, the command that it recommends into `advice` (names and stacks) or `rate_advice` (samples).

pub mod advice;
pub(crate) mod caption;
pub mod event_view;
pub mod hints;
mod interrupts;
pub(crate) mod missing;
pub mod packages;
pub mod rate_advice;
pub mod user_modules;

pub use caption::is_known_to_take_a_value;
pub use event_view::EventView;
pub use missing::missing_share;
pub(crate) use user_modules::is_library;
