//! `cargo xtask sweep OBJECT [--reference FILE] [--debug-dir DIR] [--step BYTES]`: compares symbols of all code of a program with
//! other symbolizers.

use std::process::Command;

use anyhow::{Context, bail};

use crate::workspace;

/// Compares function, inlined calls and lines of every address (or every `--step` bytes) of the object's code. If the object is
/// stripped, the other symbolizers read `--reference`, the same code with debug information.
pub(crate) fn run(args: &[String]) -> anyhow::Result<()> {
    let mut cargo = Command::new("cargo");
    cargo.args(["test", "--quiet", "--release", "-p", "prof-symbolizer", "--test", "matrix", "--"]);
    cargo.args(["--ignored", "--exact", "a_sweep", "--nocapture"]);
    let mut args = args.iter();
    let mut object = None;
    while let Some(arg) = args.next() {
        let variable = match arg.as_str() {
            "--reference" => "SWEEP_REFERENCE",
            "--debug-dir" => "SWEEP_DEBUG_DIR",
            "--step" => "SWEEP_STEP",
            _ if object.is_none() && !arg.starts_with('-') => {
                object = Some(std::path::absolute(arg)?);
                continue;
            }
            _ => bail!("takes an object, --reference FILE, --debug-dir DIR and --step BYTES, not {arg}"),
        };
        let value = args.next().with_context(|| format!("{arg} needs a value"))?;
        let is_path = variable != "SWEEP_STEP";
        let value = if is_path { std::path::absolute(value)?.into_os_string() } else { value.into() };
        cargo.env(variable, value);
    }
    cargo.env("SWEEP_OBJECT", object.context("which object?")?);
    workspace::run(cargo.current_dir(workspace::root()))
}
