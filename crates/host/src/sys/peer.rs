//! The credentials of the other end of a socket: `SO_PEERCRED` of `unix(7)`.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use model::Pid;

use super::check;

/// The process at the other end, when it called `connect` or `listen`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Peer {
    /// Its pid; 0 if it has none in our pid namespace.
    pub process: Pid,
    /// Its effective user.
    pub user: u32,
}

/// Returns the credentials of the other end of a connected Unix socket.
///
/// # Errors
/// Those of `getsockopt(2)`.
pub fn credentials(socket: BorrowedFd<'_>) -> io::Result<Peer> {
    let mut peer = libc::ucred { pid: 0, uid: u32::MAX, gid: u32::MAX };
    let mut size = libc::socklen_t::try_from(size_of::<libc::ucred>()).unwrap_or(0);
    let fd = socket.as_raw_fd();
    // SAFETY: the kernel writes at most `size` bytes, which is the size of the structure.
    check(unsafe {
        let at = (&raw mut peer).cast();
        libc::getsockopt(fd, libc::SOL_SOCKET, libc::SO_PEERCRED, at, &raw mut size)
    })?;
    Ok(Peer { process: Pid(peer.pid), user: peer.uid })
}
