//! Files without a name, which vanish with their process: `O_TMPFILE` of `open(2)`.

use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use super::check;

/// Makes a file in the file system of `folder`, to be read and written, with `mode` (less the umask).
///
/// # Errors
/// Those of `open(2)`; `EOPNOTSUPP` or `EISDIR` where the file system or the kernel knows no such files, and `ENOENT`
/// where without `/proc` it could not be given a name.
pub fn create(folder: &Path, mode: u32) -> io::Result<File> {
    let file =
        OpenOptions::new().read(true).write(true).mode(mode).custom_flags(libc::O_TMPFILE).open(folder)?;
    std::fs::symlink_metadata(descriptor(&file))?;
    Ok(file)
}

/// Gives such a file a name, which must not exist.
///
/// # Errors
/// Those of `linkat(2)`.
pub fn link(file: &File, name: &Path) -> io::Result<()> {
    let invalid = |_| io::Error::from_raw_os_error(libc::EINVAL);
    let descriptor = CString::new(descriptor(file)).map_err(invalid)?;
    let name = CString::new(name.as_os_str().as_bytes()).map_err(invalid)?;
    // Only a link through /proc is allowed to everybody (linkat(2), AT_EMPTY_PATH).
    // SAFETY: both are C strings, which live until the call returns.
    check(unsafe {
        libc::linkat(
            libc::AT_FDCWD,
            descriptor.as_ptr(),
            libc::AT_FDCWD,
            name.as_ptr(),
            libc::AT_SYMLINK_FOLLOW,
        )
    })
    .map(drop)
}

fn descriptor(file: &File) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}
