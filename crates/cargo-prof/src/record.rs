//! Records the program with `prof record`, and draws the recording with `prof flame`.

use std::ffi::OsString;
use std::io::{ErrorKind, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus};

use anyhow::{Context, bail};

use crate::arguments::{Arguments, Kind};
use crate::build::{Target, Workspace};

/// Records and draws. Returns the exit code of the program.
///
/// # Errors
/// `prof` cannot be run, or the output folder cannot be written.
pub fn run(arguments: &Arguments, workspace: &Workspace, target: &Target) -> anyhow::Result<ExitCode> {
    std::fs::create_dir_all(&workspace.output)
        .with_context(|| format!("cannot create {}", workspace.output.display()))?;
    let recording = workspace.output.join(format!("{}.data", target.name));
    remove(&recording)?;
    let mut record = prof("record");
    record.args(&arguments.record).arg("-o").arg(&recording).arg("--").args(program_words(arguments, target));
    record.env("LD_LIBRARY_PATH", target.library_path());
    if arguments.runs_in_package() {
        record.current_dir(&target.package).env("CARGO_MANIFEST_DIR", &target.package);
    }
    let status = status(&mut record)?;
    if !recording.exists() {
        // prof has printed the reason.
        return Ok(ExitCode::from(code(status)));
    }
    let drawn = draw(arguments, workspace, target, &recording)?;
    Ok(if drawn.success() { ExitCode::from(code(status)) } else { ExitCode::from(code(drawn)) })
}

/// Returns the command that runs a target, as cargo runs it.
pub fn program_words(arguments: &Arguments, target: &Target) -> Vec<OsString> {
    let of_kind = match arguments.kind {
        Kind::Bench => Some("--bench".to_owned()),
        Kind::Test | Kind::Run | Kind::Example => None,
    };
    let filter = arguments.name.clone().filter(|_| arguments.runs_in_package());
    let words = of_kind.into_iter().chain(filter).chain(arguments.program.iter().cloned());
    std::iter::once(target.executable.clone().into_os_string()).chain(words.map(OsString::from)).collect()
}

fn draw(
    arguments: &Arguments,
    workspace: &Workspace,
    target: &Target,
    recording: &Path,
) -> anyhow::Result<ExitStatus> {
    let folded = arguments.flame.iter().any(|word| word == "--folded");
    let picture = match &arguments.output {
        Some(path) => Some(PathBuf::from(path)),
        None => (!folded).then(|| workspace.output.join(format!("{}.svg", target.name))),
    };
    let mut flame = prof("flame");
    flame.arg("-i").arg(recording).args(&arguments.flame);
    if let Some(path) = &picture {
        flame.arg("-o").arg(path);
    }
    if arguments.open && !folded && has_desktop() {
        flame.arg("--open");
    }
    let status = status(&mut flame)?;
    if let (true, Some(path)) = (status.success(), &picture)
        && !arguments.flame.iter().any(|word| word == "--quiet")
    {
        eprintln!("cargo prof: {} (recording: {})", path.display(), recording.display());
    }
    Ok(status)
}

/// Returns true if this runs on a terminal of a desktop.
fn has_desktop() -> bool {
    let screen = ["DISPLAY", "WAYLAND_DISPLAY"]
        .iter()
        .any(|name| std::env::var_os(name).is_some_and(|value| !value.is_empty()));
    screen && std::io::stderr().is_terminal()
}

/// Returns a command that runs `prof` from the folder of this program, or else from `PATH`.
pub fn prof(subcommand: &str) -> Command {
    let beside =
        std::env::current_exe().ok().map(|path| path.with_file_name("prof")).filter(|path| path.is_file());
    let mut command = Command::new(beside.map_or_else(|| OsString::from("prof"), PathBuf::into_os_string));
    command.arg(subcommand);
    command
}

pub fn status(command: &mut Command) -> anyhow::Result<ExitStatus> {
    match command.status() {
        Ok(status) => Ok(status),
        Err(error)
            if error.kind() == ErrorKind::NotFound && command.get_current_dir().is_none_or(Path::exists) =>
        {
            bail!("cannot find prof; try: cargo install --path crates/cli, in a clone of its repository")
        }
        Err(error) => Err(error).context("cannot run prof"),
    }
}

/// Returns the exit code as shells report it.
pub fn code(status: ExitStatus) -> u8 {
    use std::os::unix::process::ExitStatusExt;
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}

fn remove(path: &Path) -> anyhow::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot replace {}", path.display()))
        }
        _ => Ok(()),
    }
}
