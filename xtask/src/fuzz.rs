//! `cargo xtask fuzz TARGET…|all [--secs N] [--seed N] [--corpus DIR]…`: hostile bytes for the readers, from our own
//! mutator, on the stable compiler.
//!
//! `cargo xtask fuzz commands [--count N] [--seed N] [--corpus DIR]`: mutated recordings for `prof script` and
//! `prof flame`.

use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use anyhow::{Context, bail};

use crate::workspace;

/// The entry points, in pairs that are fuzzed side by side.
const PAIRS: [[&str; 2]; 3] = [["record", "attr"], ["file", "pipe"], ["compressed", "tracing_data"]];

/// Builds the fuzzer with optimisation and every check, and runs it.
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

/// Every target for so many seconds, two at a time.
pub(crate) fn each(seconds: u32) -> anyhow::Result<()> {
    let root = workspace::root();
    let fuzzer = build(&root, "prof-fuzz")?;
    let start = |target| -> anyhow::Result<Child> {
        Command::new(&fuzzer)
            .args([target, "--secs", &seconds.to_string()])
            .current_dir(&root)
            .spawn()
            .with_context(|| format!("cannot run {}", fuzzer.display()))
    };
    for pair in PAIRS {
        let running = pair.map(start);
        // Both are waited for, even where one has found something.
        let ended = running.map(|child| Ok::<_, anyhow::Error>(child?.wait()?.success()));
        for (target, ended) in pair.into_iter().zip(ended) {
            if !ended? {
                bail!("fuzzing {target} found something");
            }
        }
    }
    Ok(())
}

/// The folder of fuzz builds has the program of this package.
fn build(root: &Path, package: &str) -> anyhow::Result<PathBuf> {
    let arguments = ["build", "--quiet", "--profile", "fuzz", "--package", package];
    workspace::run(Command::new("cargo").args(arguments).current_dir(root))?;
    Ok(root.join("target/fuzz").join(package))
}
