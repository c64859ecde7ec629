//! Rings: how records come out of the kernel.

mod memory;
mod protocol;
mod reader;
mod rings;
mod stack_place;
mod strangers;

pub use protocol::{RingMemory, drain_whole};
pub(crate) use reader::Readers;
pub(crate) use rings::{RingSource, Samples};
pub(crate) use stack_place::StackPlace;
pub(crate) use strangers::Strangers;
