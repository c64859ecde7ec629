//! Resolves paths with restrictions: `openat2(2)`.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, FromRawFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Opens `path` with `O_PATH`, resolved as by a process whose root directory is `root`: neither `..` nor a link leads out. If the
/// last component is a link, opens what it leads to with `follow`, or else the link itself.
///
/// # Errors
/// Those of `openat2(2)`: `EXDEV` if the path crosses a mount, `ENOSYS` before Linux 5.6, `EPERM` if a seccomp filter does not
/// know the call, `EAGAIN` if a folder is moved meanwhile.
pub fn open_in_root(root: &File, path: &Path, follow: bool) -> io::Result<File> {
    let resolve = libc::RESOLVE_IN_ROOT | libc::RESOLVE_NO_MAGICLINKS | libc::RESOLVE_NO_XDEV;
    open_path(root.as_raw_fd(), path, if follow { 0 } else { libc::O_NOFOLLOW }, resolve)
}

/// Opens an absolute path with `O_PATH`. Follows links, but none of the kernel's own, such as `/proc/self/cwd`, which lead past the
/// folders on the way to what they name.
///
/// # Errors
/// As [`open_in_root`]; `ELOOP` for a link of the kernel's.
pub fn open_without_magic_links(path: &Path) -> io::Result<File> {
    open_path(libc::AT_FDCWD, path, 0, libc::RESOLVE_NO_MAGICLINKS)
}

fn open_path(folder: RawFd, path: &Path, flags: libc::c_int, resolve: u64) -> io::Result<File> {
    let invalid = |_| io::Error::from_raw_os_error(libc::EINVAL);
    let path = CString::new(path.as_os_str().as_bytes()).map_err(invalid)?;
    // SAFETY: a structure of numbers, for which zeroes are valid.
    let mut how: libc::open_how = unsafe { zeroed() };
    how.flags = (libc::O_PATH | libc::O_CLOEXEC | flags) as u64;
    how.resolve = resolve;
    // SAFETY: the path is a C string and the structure is of the size that is given; both live until the call returns.
    let result = unsafe {
        libc::syscall(libc::SYS_openat2, folder, path.as_ptr(), &raw const how, size_of::<libc::open_how>())
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    let descriptor = i32::try_from(result).map_err(|_| io::Error::from_raw_os_error(libc::EBADF))?;
    // SAFETY: the kernel has just given us this descriptor; nobody else has it.
    Ok(unsafe { File::from_raw_fd(descriptor) })
}
