//! `cargo xtask ci`: format, clippy, tidy, fuzzing, tests.
//!
//! The tests run last, so that the test runner's summary closes the output.

use std::process::Command;

use anyhow::bail;

use crate::{fuzz, test_runner, tidy, workspace};

const STEPS: &[&[&str]] = &[
    &["fmt", "--all", "--check"],
    &["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"],
];

/// How long each target is fuzzed.
const FUZZ_SECONDS: u32 = 60;

/// Runs every check. Takes no arguments.
pub(crate) fn run(args: &[String]) -> anyhow::Result<()> {
    if !args.is_empty() {
        bail!("takes no arguments");
    }
    let root = workspace::root();
    for step in STEPS {
        eprintln!("== cargo {}", step.join(" "));
        workspace::run(Command::new("cargo").args(*step).current_dir(&root))?;
    }
    eprintln!("== cargo xtask tidy");
    tidy::run(&[])?;
    eprintln!("== cargo xtask fuzz, each target for {FUZZ_SECONDS} s");
    fuzz::each(FUZZ_SECONDS)?;
    eprintln!("== cargo test --workspace");
    test_runner::run(&root)
}
