//! Processes that open and read files for this one, and the sockets to them.
//!
//! Such a process is this program again, started with a socket as standard input. It is never waited for: a call to a file system that
//! does not answer cannot be ended.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use crate::sys::poll::PollSet;

/// Starts this program again with the words `command`, and returns the socket to it. A process group of its own keeps the terminal's
/// signals away from it.
///
/// # Errors
/// The process or its socket cannot be created.
pub(crate) fn start<W: AsRef<std::ffi::OsStr>>(command: &[W]) -> io::Result<(File, Child)> {
    let (ours, theirs) = sockets()?;
    let child = Command::new("/proc/self/exe")
        .args(command)
        .current_dir("/")
        .process_group(0)
        .stdin(theirs)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    Ok((ours, child))
}

/// Returns two ends of a socket; the first does not block. They are files, because the standard library reads sockets with a system
/// call that readers of recordings may not use.
///
/// # Errors
/// Those of `socketpair(2)`.
pub(crate) fn sockets() -> io::Result<(File, File)> {
    let (ours, theirs) = UnixStream::pair()?;
    ours.set_nonblocking(true)?;
    Ok((File::from(OwnedFd::from(ours)), File::from(OwnedFd::from(theirs))))
}

/// Fills `bytes` from a socket that does not block.
///
/// # Errors
/// `TimedOut` when `until` has passed, `UnexpectedEof` if the other end is closed, or those of `read(2)`.
pub(crate) fn read_until(socket: &mut File, mut bytes: &mut [u8], until: Instant) -> io::Result<()> {
    while !bytes.is_empty() {
        match socket.read(bytes) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(read) => bytes = &mut bytes[read..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                let left = until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero());
                let mut set = PollSet::default();
                set.add(socket.as_fd());
                set.wait(Some(left.ok_or(io::ErrorKind::TimedOut)?))?;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
