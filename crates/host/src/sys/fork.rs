//! Forks a process that works on its own until its work is done.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};

use std::time::{Duration, Instant};

use super::check;
use super::perf_event::own_pid;
use crate::procfs;

/// Waits until this is the only thread, `longest` at most: what another has locked at a fork stays locked in the child. Nobody else waits
/// for threads of a recorder that read files and processes. One that a file system keeps waiting holds no lock that the child needs.
pub fn wait_for_other_threads(longest: Duration) {
    let own = own_pid();
    let until = Instant::now() + longest;
    while procfs::threads(own).is_ok_and(|threads| threads.len() > 1) && Instant::now() < until {
        std::thread::sleep(longest / 256);
    }
}

/// Runs `work` with `socket` in a child process that nobody waits for. Of our descriptors, the child has the socket alone, so that it
/// keeps nothing open if it cannot end. Must be called while there is one thread.
///
/// # Errors
/// Those of `fork(2)`.
pub fn serve_detached(socket: &File, work: impl FnOnce(&File)) -> io::Result<()> {
    // SAFETY: there is one thread, as the contract says; so the child may use all of the library.
    if check(unsafe { libc::fork() })? != 0 {
        return Ok(());
    }
    let code = match keep_only(socket) {
        Ok(socket) => {
            work(&socket);
            0
        }
        Err(_) => 1,
    };
    // SAFETY: ends the process without running what its parent has registered for its own end.
    unsafe { libc::_exit(code) }
}

/// Leaves the terminal's process group and the working folder, and closes everything but the socket, which gets number 0.
fn keep_only(socket: &File) -> io::Result<File> {
    let null = File::options().read(true).write(true).open("/dev/null")?;
    std::env::set_current_dir("/")?;
    // SAFETY: no memory is involved. The descriptors that are closed belong to objects of the parent, which the child never drops: it
    // ends by `_exit`.
    unsafe {
        libc::setpgid(0, 0);
        check(libc::dup2(socket.as_raw_fd(), 0))?;
        check(libc::dup2(null.as_raw_fd(), 1))?;
        check(libc::dup2(null.as_raw_fd(), 2))?;
        // Before Linux 5.9, there is no such call.
        if libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, 0) != 0 {
            for number in 3..1024 {
                libc::close(number);
            }
        }
        std::mem::forget(null);
        Ok(File::from_raw_fd(0))
    }
}
