//! Hostile bytes for every entry point that takes them.
//!
//! A [`Target`] is a plain function: it takes any bytes and must neither panic nor run long nor take much memory.
//! `cargo test` runs each target on its seeds, on what was once found (`regressions/TARGET/`) and on some mutations
//! of both; `cargo xtask fuzz TARGET --secs N` goes on mutating for as long as
//! asked. `cargo xtask fuzz commands` gives mutated recordings to the program itself.

pub mod commands;
pub mod mutator;
pub mod objects;
pub mod run;
pub mod seeds;
pub mod targets;

pub use targets::{TARGETS, Target};
