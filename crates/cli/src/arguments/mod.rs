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

use std::sync::OnceLock;

use clap::Command;

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

/// Makes the command that was typed, whose usage errors show. The program sets it first of all.
pub static TYPED_COMMAND: OnceLock<fn() -> Command> = OnceLock::new();

/// Exits with a usage error in the form of clap, with the usage of the command that was typed.
pub fn exit_with_usage_error(text: &str) -> ! {
    let mut command = TYPED_COMMAND.get().map(|typed| typed()).unwrap_or_default();
    command.error(clap::error::ErrorKind::MissingRequiredArgument, text).exit()
}
