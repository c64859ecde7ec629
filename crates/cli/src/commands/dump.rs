//! `prof dump`: makes a running recording write its window.

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
use host::process_handle::ProcessHandle;
use host::procfs;
use host::sys::signals::SIGUSR2;
use model::{Name, Pid, Tid};
use recorder::DUMP_SIGNAL_THREAD;

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
    /// Process number of the running prof record --overwrite
    #[arg(value_name = "PID", allow_negative_numbers = true, value_parser = process_number)]
    pid: i32,
}

/// Sends the request, waits for the file, and prints its path.
///
/// # Errors
/// There is no such recording, it belongs to another user, or it cannot write the file.
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
            bail!("process {pid} belongs to another user; try: sudo prof dump {pid}")
        }
        Err(_) => {
            signal(pid)?;
            console.say(&format!(
                "process {pid} cannot be reached by a socket (it may be in a container), so SIGUSR2 was sent; it prints itself what it writes"
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
                "recording {pid} does not answer (it may belong to another user; try: sudo prof dump {pid})"
            )
        })?;
    let answer = answer.trim_ascii();
    if let Some(path) = answer.strip_prefix(b"ack ") {
        let path = Path::new(OsStr::from_bytes(path));
        // A relative path is relative to the working folder of the recording.
        let folder = std::fs::read_link(format!("/proc/{pid}/cwd")).unwrap_or_default();
        return Ok(folder.join(path));
    }
    match answer.strip_prefix(b"error: ") {
        Some(why) => bail!("recording {pid} cannot write its window: {}", Name::from(why)),
        None => bail!("recording {pid} ended before it answered; its window is in its last file"),
    }
}

/// Sends SIGUSR2 to a recording whose socket cannot be reached. Checks first that the process is a recording that writes a file then:
/// SIGUSR2 ends other processes.
fn signal(pid: Pid) -> anyhow::Result<()> {
    let process = ProcessHandle::of_process(pid);
    let threads = procfs::threads(pid).with_context(|| format!("process {pid} does not exist"))?;
    let is_called = |tid, name: &str| procfs::comm(pid, tid).is_ok_and(|comm| comm == name.as_bytes());
    ensure!(
        is_called(Tid(pid.0), "prof") && threads.into_iter().any(|tid| is_called(tid, DUMP_SIGNAL_THREAD)),
        "process {pid} is no recording that keeps a window; to find one, try: pgrep -f 'prof record.*--overwrite'"
    );
    process.send(SIGUSR2).with_context(|| format!("cannot send SIGUSR2 to process {pid}"))
}
