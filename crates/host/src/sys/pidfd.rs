//! A reference to a process that stays valid when its pid is reused: `pidfd_open(2)`.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use model::{Pid, Tid};
use rustix::io::Errno;
use rustix::process::{self, PidfdFlags, WaitId, WaitIdOptions, pidfd_open, waitid};

use super::check;

/// A reference to a process or thread. It is readable in a [`super::poll::PollSet`] after its end.
#[derive(Debug)]
pub struct PidFd {
    fd: OwnedFd,
}

impl PidFd {
    /// Opens the process that has this pid now.
    ///
    /// # Errors
    /// `ESRCH` if there is none, `EINVAL` for the tid of a thread that is not the first of its process, `ENOSYS` before Linux 5.3.
    pub fn open(pid: Pid) -> io::Result<Self> {
        Self::open_with(pid.0, PidfdFlags::empty())
    }

    /// Opens the thread that has this tid now.
    ///
    /// # Errors
    /// `ESRCH` if there is none, `EINVAL` before Linux 6.9.
    pub fn open_thread(tid: Tid) -> io::Result<Self> {
        Self::open_with(tid.0, PidfdFlags::from_bits_retain(libc::PIDFD_THREAD))
    }

    fn open_with(number: i32, flags: PidfdFlags) -> io::Result<Self> {
        Ok(Self { fd: pidfd_open(task(number).ok_or(Errno::SRCH)?, flags)? })
    }

    /// Sends a signal.
    ///
    /// # Errors
    /// `ESRCH` if the process has ended, `EPERM` if it belongs to another user.
    pub fn send(&self, signal: i32) -> io::Result<()> {
        let info = std::ptr::null::<libc::siginfo_t>();
        // SAFETY: a null `info` is allowed (pidfd_send_signal(2)) and no other memory is involved.
        let result =
            unsafe { libc::syscall(libc::SYS_pidfd_send_signal, self.fd.as_raw_fd(), signal, info, 0) };
        check(libc::c_int::try_from(result).unwrap_or(-1)).map(drop)
    }
}

/// Sends a signal to the process that has this number now.
///
/// # Errors
/// Those of `kill(2)`.
pub fn send_to_number(number: i32, signal: i32) -> io::Result<()> {
    // SAFETY: numbers only.
    check(unsafe { libc::kill(number, signal) }).map(drop)
}

/// Returns true if a process or thread has this number, even one that has ended and was not waited for.
pub fn number_exists(number: i32) -> bool {
    // EPERM: it is another user's.
    send_to_number(number, 0).map_or_else(|error| error.raw_os_error() != Some(libc::ESRCH), |()| true)
}

/// Returns true if our child with this pid has ended; it can still be waited for. `None` if it is no child of ours, or was waited for.
pub fn has_child_ended(pid: i32) -> Option<bool> {
    let flags = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    waitid(WaitId::Pid(task(pid)?), flags).ok().map(|ended| ended.is_some())
}

/// Returns the number of a process or thread, as that; `None` for others, which mean groups of processes.
fn task(number: i32) -> Option<process::Pid> {
    Some(number).filter(|&number| number > 0).and_then(process::Pid::from_raw)
}

impl AsFd for PidFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
