//! Groups of arguments shared by several commands, and their parsers.

pub mod call_graph;
#[cfg(feature = "push")]
mod connection;
mod debuginfod;
mod deferred;
pub mod drawing;
pub mod events;
mod lists;
pub mod numbers;
mod query;
mod recording;
mod runtimes;
mod samples;
mod sampling;
mod stacks;
mod symbols;
mod target;
pub mod window;

#[cfg(feature = "push")]
pub use connection::ConnectionArguments;
pub use debuginfod::DebuginfodArguments;
pub use deferred::Deferred;
pub use lists::NumberList;
pub use query::QueryArguments;
pub use recording::RecordingArguments;
pub use runtimes::RuntimeArguments;
pub use samples::SampleArguments;
pub use sampling::SamplingArguments;
pub use stacks::{NamelessArguments, StackArguments};
pub use symbols::SymbolArguments;
pub use target::TargetArguments;

/// Exits with a usage error in the form of clap, with the usage of the command that was typed.
pub fn exit_with_usage_error(text: &str) -> ! {
    crate::usage::typed_command().error(clap::error::ErrorKind::MissingRequiredArgument, text).exit()
}
