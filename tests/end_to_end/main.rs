//! The command from end to end: real programs, real recordings, and what other tools say of the same.
//!
//! About fifty, one for each promise of README, run by `cargo test --workspace`. The others are marked as ignored for their time:
//! `cargo xtask ci` runs them, and so does `cargo test -p prof-cli --test end_to_end -- --ignored`.
//!
//! A test whose other party is missing (perf, a compiler, permission to record) prints that it is skipped, and passes.
//! Where `CI` is set no program may be missing, and the same test fails.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod advice;
mod agreement;
mod annotate;
mod archive;
mod attaching;
mod background;
mod bad_input;
mod browser;
mod build_ids;
mod byte_order;
mod calm;
mod compilers;
mod containers;
mod counts;
mod differences;
mod documented;
mod events;
mod exit_codes;
mod explain;
mod exports;
mod faults;
mod flags;
mod folded;
mod foreign_files;
mod hostile_names;
mod javascript;
mod jit_dumps;
mod listing;
mod lives;
mod names;
mod neighbours;
mod noted_calls;
mod other_tools;
mod outputs;
mod packaging;
mod perf;
mod perf_maps;
mod perf_reads;
mod perf_versions;
mod pool;
mod privileged_execs;
mod prof;
mod programs;
mod push;
mod python;
mod refusals;
mod report;
mod runs;
mod runtime_shares;
mod script;
mod shares;
mod short_lives;
mod signals;
mod silent_files;
mod sources;
mod stacks;
mod stat;
mod svg;
mod tasks;
mod terminal;
mod tmux;
mod top;
mod unprivileged;
mod view;
mod view_keys;
mod visits;
mod wait_chains;
mod waits;
mod webdriver;
mod windows;
