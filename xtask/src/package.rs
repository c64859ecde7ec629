//! `cargo xtask package`: runs `cargo package` for all crates, as if they were published. `--verify` builds the packages, which takes as
//! long as a build from scratch.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail};

use crate::workspace;

/// Packages a copy of the workspace without `publish = false`. That line prevents accidental publishing, but with it cargo does not
/// resolve our crates among each other.
pub(crate) fn run(args: &[String]) -> anyhow::Result<()> {
    let verify = match args {
        [] => false,
        [flag] if flag == "--verify" => true,
        _ => bail!("usage: cargo xtask package [--verify]"),
    };
    let root = workspace::root();
    let copy = tempfile::tempdir()?;
    for file in workspace::files(&root)? {
        copy_file(&root.join(&file), &copy.path().join(&file))?;
    }
    let manifest = copy.path().join("Cargo.toml");
    let text = std::fs::read_to_string(&manifest)?;
    let Some((before, after)) = text.split_once("publish = false\n") else {
        bail!("Cargo.toml has no line `publish = false`");
    };
    std::fs::write(&manifest, format!("{before}publish = true\n{after}"))?;
    let mut package = Command::new("cargo");
    package.args([
        "package",
        "--workspace",
        "--exclude",
        "xtask",
        "--exclude",
        "prof-fuzz",
        "--allow-dirty",
        "--quiet",
    ]);
    if !verify {
        package.arg("--no-verify");
    }
    workspace::run(
        package.arg("--target-dir").arg(root.join("target/package-check")).current_dir(copy.path()),
    )
}

fn copy_file(from: &Path, to: &Path) -> anyhow::Result<()> {
    if let Some(folder) = to.parent() {
        std::fs::create_dir_all(folder)?;
    }
    std::fs::copy(from, to).with_context(|| from.display().to_string()).map(drop)
}
