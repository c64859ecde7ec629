//! The newest records of a recording in memory, and the state of the machine before them, for files of a part of it.

mod blocks;
mod mappings;
mod state;

pub use blocks::Window;
pub(crate) use blocks::{Block, Blocks};
pub(crate) use state::SidebandState;
