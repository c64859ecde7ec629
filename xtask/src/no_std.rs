//! `cargo xtask no-std`: compiles the `no_std` crates and their dependencies for a target without an operating system.

use std::path::PathBuf;
use std::process::Command;

use anyhow::bail;

use crate::{tidy, workspace};

/// A target without `std`, for which a crate that uses it, or a dependency of it, does not compile.
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
    // One at a time, because cargo unifies features of crates that it builds together.
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
