//! Code that processes generate while they run: their jitdumps, and the language runtimes that write it.

pub mod jit_dumps;
pub mod runtimes;
