//! `cargo xtask page-types`: checks the types in the comments of the page of `prof view` with the compiler of TypeScript.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::bail;

use crate::workspace;

/// The package of the compiler in the registry of npm.
const COMPILER: &str = "typescript@7.0.2";

/// Checks the modules of the page. Takes no arguments. Skipped if npm cannot install the compiler.
pub(crate) fn run(args: &[String]) -> anyhow::Result<()> {
    if !args.is_empty() {
        bail!("takes no arguments");
    }
    let page = workspace::root().join("crates/export/src/view/page");
    let version = compiler(&page, &["--version"]).stdout(Stdio::null()).stderr(Stdio::null()).status();
    if !version.is_ok_and(|status| status.success()) {
        eprintln!("skipped: npm is not installed, or cannot get {COMPILER}");
        return Ok(());
    }
    workspace::run(&mut compiler(&page, &["--project", "tsconfig.json"]))
}

fn compiler(folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::new("npm");
    command.args(["exec", "--yes", "--package", COMPILER, "--", "tsc"]).args(args);
    command.current_dir(folder).stdin(Stdio::null());
    command
}
