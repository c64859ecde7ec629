//! Records the program with `prof record`, and draws the recording with `prof flame`.

use std::io::IsTerminal;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitCode, ExitStatus};

use anyhow::{Context, anyhow};

use crate::arguments::{Arguments, Kind};
use crate::build::Target;

/// Records and draws. Returns the exit code of the program.
///
/// # Errors
/// `prof` cannot be run, or the output folder cannot be written.
pub fn run(arguments: &Arguments, output: &Path, target: &Target) -> anyhow::Result<ExitCode> {
    std::fs::create_dir_all(output).with_context(|| format!("cannot create {}", output.display()))?;
    let recording = output.join(format!("{}.data", target.name));
    if recording.exists() {
        std::fs::remove_file(&recording)
            .with_context(|| format!("cannot replace {}", recording.display()))?;
    }
    let mut record = prof("record");
    record.args(&arguments.record).arg("-o").arg(&recording).arg("--").arg(&target.executable);
    record.env("LD_LIBRARY_PATH", target.library_path());
    if arguments.runs_in_package() {
        record.args((arguments.kind == Kind::Bench).then_some("--bench")).args(&arguments.name);
        record.current_dir(&target.package).env("CARGO_MANIFEST_DIR", &target.package);
    }
    let recorded = status(record.args(&arguments.program))?;
    if !recording.exists() {
        // prof has printed the reason.
        return Ok(code(recorded));
    }
    let drawn = draw(arguments, &recording)?;
    Ok(code(if drawn.success() { recorded } else { drawn }))
}

fn draw(arguments: &Arguments, recording: &Path) -> anyhow::Result<ExitStatus> {
    let folded = arguments.flame.iter().any(|word| word == "--folded");
    let default = (!folded).then(|| recording.with_extension("svg"));
    let picture = arguments.output.clone().or(default);
    let mut flame = prof("flame");
    flame.arg("-i").arg(recording).args(&arguments.flame);
    if let Some(path) = &picture {
        flame.arg("-o").arg(path);
    }
    flame.args((!arguments.no_open && !folded && has_desktop()).then_some("--open"));
    let status = status(&mut flame)?;
    if let (true, false, Some(path)) = (status.success(), arguments.quiet, &picture) {
        eprintln!("cargo prof: {} (recording: {})", path.display(), recording.display());
    }
    Ok(status)
}

/// Returns true if this runs on a terminal of a desktop.
fn has_desktop() -> bool {
    let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    ["DISPLAY", "WAYLAND_DISPLAY"].into_iter().any(is_set) && std::io::stderr().is_terminal()
}

/// Returns a command that runs `prof` from the folder of this program, or else from `PATH`.
fn prof(subcommand: &str) -> Command {
    let beside = std::env::current_exe().map(|path| path.with_file_name("prof"));
    let mut command = Command::new(beside.ok().filter(|path| path.is_file()).unwrap_or("prof".into()));
    command.arg(subcommand);
    command
}

fn status(command: &mut Command) -> anyhow::Result<ExitStatus> {
    let install = "cargo install --path crates/cli, in a clone of its repository";
    command.status().map_err(|error| anyhow!("cannot run prof: {error}; try: {install}"))
}

/// Returns the exit code as shells report it.
fn code(status: ExitStatus) -> ExitCode {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    ExitCode::from(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
}
