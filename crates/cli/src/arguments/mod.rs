//! Groups of arguments that several commands share, and what they mean.

mod debuginfod;
pub mod events;
mod lists;
pub mod numbers;
mod query;
mod recording;
mod runtimes;
mod samples;
mod stacks;
mod symbols;

pub use debuginfod::DebuginfodArguments;
pub use lists::NumberList;
pub use query::QueryArguments;
pub use recording::RecordingArguments;
pub use runtimes::RuntimeArguments;
pub use samples::SampleArguments;
pub use stacks::{NamelessArguments, StackArguments};
pub use symbols::SymbolArguments;
pub mod window;
