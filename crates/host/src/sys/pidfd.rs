//! A process that cannot be mistaken for a later one of the same number: `pidfd_open(2)`.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use model::{Pid, Tid};

use super::check;

/// A process or a thread; readable in a [`super::poll::PollSet`] when it has ended.
#[derive(Debug)]
pub struct PidFd {
    fd: OwnedFd,
}

impl PidFd {
    /// The process that has the number `pid` now.
    ///
    /// # Errors
    /// `ESRCH` where there is none, `EINVAL` for the number of a thread that leads no process, `ENOSYS` before
    /// Linux 5.3.
    pub fn open(pid: Pid) -> io::Result<Self> {
        Self::open_with(pid.0, 0)
    }

    /// The thread that has the number `tid` now, whether or not it leads its process.
    ///
    /// # Errors
    /// `ESRCH` where there is none, `EINVAL` before Linux 6.9.
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
    /// `ESRCH` where the process has ended, `EPERM` where it is another user's.
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
