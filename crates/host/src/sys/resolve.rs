//! Resolves paths below a folder as if it were the root: `openat2(2)`.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Opens `path` with `O_PATH`, resolved as by a process whose root directory is `root`: neither `..` nor a link leads out. If the
/// last component is a link, opens the link itself.
///
/// # Errors
/// Those of `openat2(2)`: `EXDEV` if the path crosses a mount, `ENOSYS` before Linux 5.6, `EPERM` if a seccomp filter does not
/// know the call, `EAGAIN` if a folder is moved meanwhile.
pub fn open_in_root(root: &File, path: &Path) -> io::Result<File> {
    let invalid = |_| io::Error::from_raw_os_error(libc::EINVAL);
    let path = CString::new(path.as_os_str().as_bytes()).map_err(invalid)?;
    // SAFETY: a structure of numbers, for which zeroes are valid.
    let mut how: libc::open_how = unsafe { zeroed() };
    how.flags = (libc::O_PATH | libc::O_NOFOLLOW | libc::O_CLOEXEC) as u64;
    how.resolve = libc::RESOLVE_IN_ROOT | libc::RESOLVE_NO_MAGICLINKS | libc::RESOLVE_NO_XDEV;
    // SAFETY: the path is a C string and the structure is of the size that is given; both live until the call returns.
    let result = unsafe {
        libc::syscall(
            libc::SYS_openat2,
            root.as_raw_fd(),
            path.as_ptr(),
            &raw const how,
            size_of::<libc::open_how>(),
        )
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    let descriptor = i32::try_from(result).map_err(|_| io::Error::from_raw_os_error(libc::EBADF))?;
    // SAFETY: the kernel has just given us this descriptor; nobody else has it.
    Ok(unsafe { File::from_raw_fd(descriptor) })
}
