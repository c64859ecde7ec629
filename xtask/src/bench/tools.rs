//! The programs that are compared: ours in release, perf, and inferno's two.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

use crate::workspace;

/// The folders and programs that a benchmark uses.
pub(super) struct Tools {
    pub(super) prof: PathBuf,
    /// The folder with `inferno-collapse-perf` and `inferno-flamegraph`.
    pub(super) inferno: PathBuf,
    /// For files that come and go.
    pub(super) scratch: PathBuf,
}

impl Tools {
    /// Builds `prof` in release, and looks for perf.
    pub(super) fn prepare() -> anyhow::Result<Self> {
        let root = workspace::root();
        workspace::output(Command::new("perf").arg("--version"))
            .context("perf is needed (Debian: linux-perf)")?;
        workspace::run(
            Command::new("cargo")
                .args(["build", "--quiet", "--release", "--package", "prof-cli"])
                .current_dir(&root),
        )?;
        let scratch = root.join("target/bench");
        std::fs::create_dir_all(&scratch).with_context(|| scratch.display().to_string())?;
        let inferno = root.join("target/oracles/bin");
        Ok(Self { prof: root.join("target/release/prof"), inferno, scratch })
    }

    /// Installs inferno's programs below `target`, where they are not yet.
    pub(super) fn install_inferno(&self) -> anyhow::Result<()> {
        if self.inferno.join("inferno-flamegraph").is_file() {
            return Ok(());
        }
        let root = self.inferno.parent().unwrap_or(&self.inferno);
        workspace::run(Command::new("cargo").args(["install", "--quiet", "--root"]).arg(root).arg("inferno"))
    }

    /// A command line of ours.
    pub(super) fn prof<const N: usize>(&self, args: [&dyn AsRef<std::ffi::OsStr>; N]) -> Vec<OsString> {
        let mut command = vec![self.prof.clone().into_os_string()];
        command.extend(args.iter().map(|arg| arg.as_ref().to_owned()));
        command
    }

    /// perf's way from a recording to an SVG, as a shell's pipeline.
    pub(super) fn pipeline(&self, input: &Path, svg: &Path) -> Vec<OsString> {
        let script = "perf script -i \"$1\" 2>/dev/null | \"$2/inferno-collapse-perf\" 2>/dev/null \
                      | \"$2/inferno-flamegraph\" > \"$3\" 2>/dev/null";
        let mut command: Vec<OsString> = ["sh", "-c", script, "sh"].map(OsString::from).to_vec();
        command.extend([input, &self.inferno, svg].map(|path| path.as_os_str().to_owned()));
        command
    }
}

/// Processor, cores and kernel.
pub(super) fn machine() -> String {
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let named = cpuinfo.lines().find_map(|line| line.strip_prefix("model name"));
    let model = named.and_then(|line| line.split(':').nth(1)).map_or("an unknown processor", str::trim);
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let perf = workspace::output(Command::new("perf").arg("--version")).unwrap_or_default();
    format!("{cores} cores of {model}, Linux {}, {}", kernel.trim(), perf.trim())
}
