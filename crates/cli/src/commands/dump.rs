//! `prof dump`: lets a running recording write what it keeps.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use analysis::Notices;
use anyhow::{Context, bail, ensure};
use clap::Args;
use host::files::connect_to_recording;
use host::procfs;
use host::sys::pidfd::PidFd;
use host::sys::signals::SIGUSR2;
use model::{Name, Pid, Tid};

use crate::arguments::numbers::process_number;
use crate::console::Console;
use crate::output::Output;

/// The arguments of `prof dump`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  prof record -a --overwrite --window 30s &
  prof dump $!")]
pub struct DumpArguments {
    /// The recording: the process of prof record --overwrite
    #[arg(value_name = "PID", allow_negative_numbers = true, value_parser = process_number)]
    pid: i32,
}

/// Asks the recording, waits for the file, and prints its path.
///
/// # Errors
/// Where there is no such recording, it is another user's, or it could not write.
pub fn run(arguments: &DumpArguments, console: &Console) -> anyhow::Result<ExitCode> {
    let pid = Pid(arguments.pid);
    match connect_to_recording(pid) {
        Ok(stream) => {
            let path = ask(stream, pid)?;
            let mut output = Output::stdout()?;
            writeln!(output, "{}", Name::from(path.as_os_str().as_bytes()))?;
            output.finish()?;
        }
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            bail!("process {pid} is another user's; try: sudo prof dump {pid}")
        }
        Err(_) => {
            signal(pid)?;
            console.say(&format!(
                "process {pid} lives apart from us (in a container): it was sent SIGUSR2, and says itself what it writes"
            ));
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn ask(mut stream: UnixStream, pid: Pid) -> anyhow::Result<PathBuf> {
    let mut answer = Vec::new();
    stream
        .write_all(b"dump\n")
        .and_then(|()| BufReader::new(stream).read_until(b'\n', &mut answer))
        .with_context(|| {
            format!(
                "recording {pid} does not listen (to us: it may be another user's; try: sudo prof dump {pid})"
            )
        })?;
    let answer = answer.trim_ascii();
    if let Some(path) = answer.strip_prefix(b"ack ") {
        let path = Path::new(OsStr::from_bytes(path));
        // The recording's folder need not be ours.
        let folder = std::fs::read_link(format!("/proc/{pid}/cwd")).unwrap_or_default();
        return Ok(folder.join(path));
    }
    match answer.strip_prefix(b"error: ") {
        Some(why) => bail!("recording {pid} cannot write what it keeps: {}", Name::from(why)),
        None => bail!("recording {pid} ended before it answered; what it kept is in its last file"),
    }
}

/// For recordings that no socket leads to. Of all processes, only one that waits for the signal may be sent it: others it ends.
fn signal(pid: Pid) -> anyhow::Result<()> {
    let process = PidFd::open(pid).with_context(|| format!("process {pid} does not exist (any more)"))?;
    let is_prof = procfs::comm(pid, Tid(pid.0)).is_ok_and(|comm| comm == b"prof");
    let waits = procfs::blocks_signal(pid, SIGUSR2).unwrap_or(false);
    ensure!(
        is_prof && waits,
        "process {pid} is no recording that keeps a window; these are: pgrep -f 'prof record.*--overwrite'"
    );
    process.send(SIGUSR2).with_context(|| format!("cannot send SIGUSR2 to process {pid}"))
}
