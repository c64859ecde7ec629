//! Groups of arguments that several commands share, and what they mean.

pub mod events;
mod lists;
pub mod numbers;
mod samples;
mod symbols;

pub use lists::NumberList;
pub use samples::SampleArguments;
pub use symbols::SymbolArguments;
pub mod window;
