//! `cargo xtask matrix [--full [PART]]`: compares symbols of programs of every toolchain and kind of debug information with other
//! symbolizers.

use std::process::Command;

use anyhow::bail;

use crate::workspace;

/// Runs the small set, which covers every pair of values, or with `--full` every combination that the toolchains of this machine can
/// build. Lists impossible ones with the message of the tool. PART selects those whose names contain it.
pub(crate) fn run(args: &[String]) -> anyhow::Result<()> {
    let (full, part) = match args {
        [] => (false, ""),
        [flag] if flag == "--full" => (true, ""),
        [flag, part] if flag == "--full" => (true, part.as_str()),
        _ => bail!("usage: cargo xtask matrix [--full [PART]]"),
    };
    let mut cargo = Command::new("cargo");
    cargo.args(["test", "-p", "prof-symbolizer", "--test", "matrix", "--"]);
    cargo.args(if full { ["--ignored", "every_combination"] } else { ["--exact", "every_pair"] });
    workspace::run(cargo.arg("--nocapture").env("MATRIX_PART", part).current_dir(workspace::root()))
}
