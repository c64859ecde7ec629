//! `cargo xtask matrix [--full [PART]]`: programs of every toolchain and form of debug information against other symbolizers.

use std::process::Command;

use anyhow::bail;

use crate::workspace;

/// Runs the small set, in which every two values meet; with `--full` every combination that the toolchains here can
/// make, listing the impossible ones with the tool's message. PART keeps those of them whose names contain it.
pub(crate) fn run(args: &[String]) -> anyhow::Result<()> {
    let (full, part) = match args {
        [] => (false, ""),
        [flag] if flag == "--full" => (true, ""),
        [flag, part] if flag == "--full" => (true, part.as_str()),
        _ => bail!("takes --full and a part of the names of those to build, no more"),
    };
    let mut cargo = Command::new("cargo");
    cargo.args(["test", "-p", "prof-symbolizer", "--test", "matrix", "--"]);
    cargo.args(if full { ["--ignored", "every_combination"] } else { ["--exact", "every_pair"] });
    workspace::run(cargo.arg("--nocapture").env("MATRIX_PART", part).current_dir(workspace::root()))
}
