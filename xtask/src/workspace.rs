//! The workspace: its root, its files, its metadata, and running commands in it.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};

/// Returns the root folder of the workspace.
pub(crate) fn root() -> PathBuf {
    let xtask = Path::new(env!("CARGO_MANIFEST_DIR"));
    xtask.parent().unwrap_or(xtask).to_path_buf()
}

/// Lists every existing file that git tracks or would add, relative to the root.
pub(crate) fn files(root: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let out = output(
        Command::new("git")
            .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
            .current_dir(root),
    )?;
    let mut files: Vec<PathBuf> =
        out.split('\0').filter(|name| !name.is_empty()).map(PathBuf::from).collect();
    files.retain(|file| root.join(file).is_file());
    files.sort();
    files.dedup();
    Ok(files)
}

/// Returns `cargo metadata` of the workspace members.
pub(crate) fn metadata(root: &Path) -> anyhow::Result<serde_json::Value> {
    let out = output(
        Command::new("cargo").args(["metadata", "--no-deps", "--format-version", "1"]).current_dir(root),
    )?;
    serde_json::from_str(&out).context("cargo metadata printed no JSON")
}

/// Builds what `cargo test --workspace` runs, and returns the folder of the programs. Who builds their packages alone compiles most crates
/// a second time, for other features.
pub(crate) fn tested(root: &Path) -> anyhow::Result<PathBuf> {
    run(Command::new("cargo").args(["test", "--quiet", "--workspace", "--no-run"]).current_dir(root))?;
    Ok(root.join("target/debug"))
}

/// Runs a command and returns its output. The error of a failed command contains its standard error.
pub(crate) fn output(command: &mut Command) -> anyhow::Result<String> {
    let out = command.output().with_context(|| format!("cannot start {command:?}"))?;
    if !out.status.success() {
        bail!("{command:?}: {}\n{}", out.status, String::from_utf8_lossy(&out.stderr));
    }
    String::from_utf8(out.stdout).with_context(|| format!("{command:?} printed no UTF-8"))
}

/// Runs a command that inherits stdout and stderr.
pub(crate) fn run(command: &mut Command) -> anyhow::Result<()> {
    let status = command.status().with_context(|| format!("cannot start {command:?}"))?;
    if !status.success() {
        bail!("{command:?}: {status}");
    }
    Ok(())
}
