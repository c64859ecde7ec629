//! Bounds of profiles that grow while a program runs.

/// Maximum number of stacks, each prefix of a stack counted as one: a stack costs about 40 bytes. What is shown is kept beyond it.
pub const MAX_STACKS: usize = 120_000;
/// Maximum number of threads. Those that are shown are kept beyond it.
pub const MAX_THREADS: usize = 20_000;
/// Maximum number of raw call chains that are remembered, those of mapping generations that have ended among them.
pub const MAX_CHAINS: usize = 50_000;
