//! `/tmp/perf-PID.map`, which runtimes write about the code that they generate.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;

use model::Pid;

/// A map is cut here. Real ones have some megabytes.
const MAX_SIZE: u64 = 512 << 20;

/// The text of a process's map; `None` where there is none.
pub fn read(pid: Pid) -> Option<String> {
    // In a container the process has its own /tmp, and writes the number by which it knows itself.
    let own_number = own_pid_of(pid).unwrap_or(pid);
    let candidates = [format!("/proc/{pid}/root/tmp/perf-{own_number}.map"), format!("/tmp/perf-{pid}.map")];
    let file = candidates.iter().find_map(|path| open(path).ok())?;
    let mut bytes = Vec::new();
    file.take(MAX_SIZE).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// Anyone can put something with this name into /tmp: a pipe without a writer must not make us wait.
fn open(path: &str) -> io::Result<File> {
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::ErrorKind::InvalidInput.into()) }
}

/// The last number of `NSpid` in `/proc/PID/status`: the process's number in its own pid namespace.
fn own_pid_of(pid: Pid) -> Option<Pid> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    line.split_ascii_whitespace().last()?.parse().ok().map(Pid)
}
