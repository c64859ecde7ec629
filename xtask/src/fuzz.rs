//! `cargo xtask fuzz TARGET…|all [--secs N] [--seed N] [--corpus DIR]…`: fuzzes the parsers with our own mutator, on the stable
//! compiler.
//!
//! `cargo xtask fuzz commands [--count N] [--seed N] [--corpus DIR]`: runs `prof script` and `prof flame` on mutated recordings.

use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::thread;

use anyhow::{Context, bail};

use crate::workspace;

/// Builds the fuzzer with optimization and all checks, and runs it.
pub(crate) fn run(args: &[String]) -> anyhow::Result<()> {
    let root = workspace::root();
    let fuzzer = build(&root, "prof-fuzz")?;
    let mut command = Command::new(fuzzer);
    command.args(args).current_dir(&root);
    if args.first().is_some_and(|target| target == "commands") {
        command.arg("--prof").arg(build(&root, "prof-cli")?.with_file_name("prof"));
        if !args.iter().any(|arg| arg == "--corpus") {
            command.arg("--corpus").arg(root.join("../shared/corpus"));
        }
    }
    workspace::run(&mut command)
}

/// Fuzzes every target for `seconds`, as many at a time as there are cores.
pub(crate) fn each(seconds: u32) -> anyhow::Result<()> {
    let root = workspace::root();
    let fuzzer = workspace::tested(&root)?.join("prof-fuzz");
    let targets = workspace::output(Command::new(&fuzzer).arg("--list"))?;
    let targets: Vec<&str> = targets.lines().collect();
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let mut found = Vec::new();
    for targets in targets.chunks(cores) {
        let start = |target: &&str| -> anyhow::Result<Child> {
            Command::new(&fuzzer)
                .args([target, "--secs", &seconds.to_string()])
                .current_dir(&root)
                .spawn()
                .with_context(|| format!("cannot run {}", fuzzer.display()))
        };
        // Waits for all, even if one has found something.
        let running: Vec<_> = targets.iter().map(start).collect();
        for (target, child) in targets.iter().zip(running) {
            if !child?.wait()?.success() {
                found.push(*target);
            }
        }
    }
    if !found.is_empty() {
        bail!("fuzzing {} found something", found.join(", "));
    }
    Ok(())
}

/// Builds a package with optimization and all checks, and returns the path of the program that has its name.
fn build(root: &Path, package: &str) -> anyhow::Result<PathBuf> {
    let arguments = ["build", "--quiet", "--profile", "fuzz", "--package", package];
    workspace::run(Command::new("cargo").args(arguments).current_dir(root))?;
    Ok(root.join("target/fuzz").join(package))
}
