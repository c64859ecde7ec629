//! `cargo xtask ci`: runs every check and prints how long each takes: format, clippy, documentation, tidy, ceilings, crates without std,
//! packages, types of the page, the book, growth, fuzzing, the laboratory
//! of kernels, tests.
//!
//! The tests run last, so that the output ends with their summary.

use std::process::Command;
use std::time::Instant;

use anyhow::bail;

use crate::{book, count, fuzz, growth, kernels, no_std, package, page_types, test_runner, tidy, workspace};

/// How long each target is fuzzed. More than twenty targets take a minute, of thirty for all checks on two cores.
const FUZZ_SECONDS: u32 = 2;

/// Runs every check. Takes no arguments.
pub(crate) fn run(args: &[String]) -> anyhow::Result<()> {
    if !args.is_empty() {
        bail!("takes no arguments");
    }
    let root = workspace::root();
    let cargo = |args: &[&str]| workspace::run(Command::new("cargo").args(args).current_dir(&root));
    step("cargo fmt", || cargo(&["fmt", "--all", "--check"]))?;
    step("cargo clippy", || {
        cargo(&["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"])
    })?;
    step("cargo doc", || {
        let mut doc = Command::new("cargo");
        doc.args(["doc", "--workspace", "--no-deps", "--quiet"]).env("RUSTDOCFLAGS", "-D warnings");
        workspace::run(doc.current_dir(&root))
    })?;
    step("cargo xtask tidy", || tidy::run(&[]))?;
    step("cargo xtask count --check", || count::run(&["--check".to_owned()]))?;
    step("cargo xtask no-std", || no_std::run(&[]))?;
    step("cargo xtask package", || package::run(&[]))?;
    step("cargo xtask page-types", || page_types::run(&[]))?;
    step("cargo xtask book", || book::run(&[]))?;
    step("cargo test --no-run", || workspace::tested(&root).map(drop))?;
    // What `script` does, `flame` does as well: its half of the time buys little.
    step("cargo xtask growth, of flame", || growth::run_commands(&[], &growth::COMMANDS[..1]))?;
    step(&format!("cargo xtask fuzz, each target for {FUZZ_SECONDS} s"), || fuzz::each(FUZZ_SECONDS))?;
    step("cargo xtask kernels", || kernels::run(&[]))?;
    step("cargo test --workspace, and the second ring", || test_runner::run(&root))
}

/// Runs a check, and prints how long it took.
fn step(name: &str, check: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<()> {
    eprintln!("== {name}");
    let start = Instant::now();
    let outcome = check();
    eprintln!("== {name}: {:.0} s", start.elapsed().as_secs_f64());
    outcome
}
