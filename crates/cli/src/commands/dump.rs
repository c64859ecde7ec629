//! `prof dump`: makes a running recording write its window.

use std::ffi::OsStr;
use std::io::{ErrorKind, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use analysis::Notices;
use anyhow::{Context, anyhow, bail, ensure};
use clap::Args;
use host::files::{ConnectError, RecordingConnection};
use host::process_handle::ProcessHandle;
use host::procfs;
use host::sources;
use host::sys::peer::Peer;
use host::sys::signals::SIGUSR2;
use host::timed_worker::{Outcome, TimedWorker};
use model::{Name, Pid, Tid};
use recorder::DUMP_SIGNAL_THREAD;

use crate::arguments::numbers::process_number;
use crate::console::Console;
use crate::output::Output;

/// Longest time to wait for the answer, in seconds: a window of 1 GB takes that long on a disk that writes 17 MB a second.
const MAX_WAIT: Duration = Duration::from_secs(60);

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
    let unreachable = match RecordingConnection::new(pid) {
        Ok(recording) => {
            let path = ask(recording, pid)?;
            let mut output = Output::stdout()?;
            writeln!(output, "{}", Name::from(path.as_os_str().as_bytes()))?;
            output.finish()?;
            return Ok(ExitCode::SUCCESS);
        }
        Err(ConnectError::System(error)) if error.kind() == ErrorKind::PermissionDenied => {
            bail!("process {pid} belongs to another user; try: sudo prof dump {pid}")
        }
        Err(ConnectError::System(_)) => "it may be in a container".to_owned(),
        Err(ConnectError::TakenBy(Peer { process, user })) => {
            format!("process {process} of user {user} has taken its address")
        }
    };
    signal(pid)?;
    console.say(&format!(
        "process {pid} cannot be reached by a socket ({unreachable}), so SIGUSR2 was sent; it prints itself what it writes"
    ));
    Ok(ExitCode::SUCCESS)
}

fn ask(recording: RecordingConnection, pid: Pid) -> anyhow::Result<PathBuf> {
    let (user, is_trusted) = (recording.user, recording.is_trusted());
    let answer = recording.ask("dump", MAX_WAIT).map_err(|error| match error.kind() {
        ErrorKind::WouldBlock => anyhow!(
            "recording {pid} has not answered within {} s; it may still write its window, if it is a recording",
            MAX_WAIT.as_secs()
        ),
        ErrorKind::InvalidData => anyhow!("process {pid} of user {user} does not answer as a recording does"),
        _ => anyhow::Error::new(error).context(format!(
            "recording {pid} does not answer (it may belong to another user; try: sudo prof dump {pid})"
        )),
    })?;
    let answer = answer.trim_ascii();
    if let Some(path) = answer.strip_prefix(b"ack ") {
        let path = Path::new(OsStr::from_bytes(path));
        // A relative path is relative to the working folder of the recording.
        let folder = std::fs::read_link(format!("/proc/{pid}/cwd")).unwrap_or_default();
        let path = folder.join(path);
        ensure!(
            is_trusted || is_file_of(path.clone(), user),
            "process {pid} of user {user} answered with {}, which is no file of that user, so it is not believed",
            Name::from(path.as_os_str().as_bytes())
        );
        return Ok(path);
    }
    match answer.strip_prefix(b"error: ") {
        Some(why) => bail!("recording {pid} cannot write its window: {}", Name::from(why)),
        None => bail!("recording {pid} ended before it answered; its window is in its last file"),
    }
}

/// Returns true if a path is that of a regular file of this user; false also if its file system does not say so in time.
fn is_file_of(path: PathBuf, user: u32) -> bool {
    let look = move || std::fs::symlink_metadata(path).is_ok_and(|file| file.is_file() && file.uid() == user);
    matches!(TimedWorker::default().run(sources::TIMEOUT, look), Outcome::Done(true))
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
