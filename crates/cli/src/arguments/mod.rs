//! Groups of arguments that several commands share, and what they mean.

pub mod events;
mod lists;
mod samples;
mod symbols;

pub use lists::NumberList;
pub use samples::SampleArguments;
pub use symbols::SymbolArguments;
