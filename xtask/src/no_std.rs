//! `cargo xtask no-std`: the crates that are called `no_std` are compiled for a target that has no operating system, with what they
//! depend on.

use std::path::PathBuf;
use std::process::Command;

use anyhow::bail;

use crate::{tidy, workspace};

/// A target without `std`: a crate that takes it, or whose dependencies do, does not compile.
const TARGET: &str = "x86_64-unknown-none";

/// Compiles each crate for the target, without its optional features. Takes no arguments.
pub(crate) fn run(args: &[String]) -> anyhow::Result<()> {
    if !args.is_empty() {
        bail!("takes no arguments");
    }
    if !is_installed()? {
        eprintln!("skipped: Rust's library for {TARGET} is not installed; try: rustup target add {TARGET}");
        return Ok(());
    }
    // Together they would have each other's features.
    for krate in tidy::NO_STD {
        let mut check = Command::new("cargo");
        check.args(["clippy", "--quiet", "--no-default-features", "--target", TARGET, "--package"]);
        check.arg(format!("prof-{krate}")).args(["--", "-D", "warnings"]);
        workspace::run(check.current_dir(workspace::root()))?;
    }
    Ok(())
}

fn is_installed() -> anyhow::Result<bool> {
    let sysroot = workspace::output(Command::new("rustc").args(["--print", "sysroot"]))?;
    Ok(PathBuf::from(sysroot.trim_end()).join("lib/rustlib").join(TARGET).join("lib").is_dir())
}
