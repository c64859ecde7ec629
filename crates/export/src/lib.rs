//! Profiles as bytes in other people's formats. The only crate that knows them; one module per format.
//!
//! Names come in raw and leave safe: what a symbol table or a thread called itself never breaks a line, a field or a
//! tag of the output.

pub mod annotate;
mod chart;
pub mod exchange;
pub mod explain;
mod flame_tree;
pub mod flamegraph;
pub mod folded;
mod frame_name;
mod function_name;
mod labels;
mod page;
mod palette;
pub mod report;
pub mod script;
mod stacks;
pub mod summary;
pub mod view;
mod waiting;

pub use frame_name::frame_name;
pub use labels::{printable, safe_label};
pub use palette::{LEGEND_OF_TIME, Rgb, colour_of_time};
pub use waiting::is_off_cpu;
