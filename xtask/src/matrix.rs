//! `cargo xtask matrix [--full]`: programs of every toolchain and form of debug information against other symbolizers.

use std::process::Command;

use anyhow::bail;

use crate::workspace;

/// Runs the small set, in which every two values meet; with `--full` every combination that the toolchains here can
/// make, listing the impossible ones with the tool's message.
pub(crate) fn run(args: &[String]) -> anyhow::Result<()> {
    let full = match args {
        [] => false,
        [flag] if flag == "--full" => true,
        _ => bail!("takes --full only"),
    };
    let mut cargo = Command::new("cargo");
    cargo.args(["test", "-p", "prof-symbolizer", "--test", "matrix", "--"]);
    cargo.args(if full { ["--ignored", "every_combination"] } else { ["--exact", "every_pair"] });
    workspace::run(cargo.arg("--nocapture").current_dir(workspace::root()))
}
