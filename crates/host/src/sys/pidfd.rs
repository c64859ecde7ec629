//! A reference to a process that stays valid when its pid is reused: `pidfd_open(2)`.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use model::{Pid, Tid};

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
        Self::open_with(pid.0, 0)
    }

    /// Opens the thread that has this tid now.
    ///
    /// # Errors
    /// `ESRCH` if there is none, `EINVAL` before Linux 6.9.
    pub fn open_thread(tid: Tid) -> io::Result<Self> {
        Self::open_with(tid.0, libc::PIDFD_THREAD)
    }

    fn open_with(number: i32, flags: libc::c_uint) -> io::Result<Self> {
        // SAFETY: no memory is involved; the descriptor that comes back is ours alone.
        let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, number, flags) };
        let fd = check(libc::c_int::try_from(fd).unwrap_or(-1))?;
        // SAFETY: as above.
        Ok(Self { fd: unsafe { OwnedFd::from_raw_fd(fd) } })
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

impl AsFd for PidFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
