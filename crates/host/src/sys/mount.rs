//! Mounts tracefs.

use std::ffi::CStr;
use std::io;
use std::ptr;

use super::check;

/// Mounts tracefs (`mount(2)`), as `mount -t tracefs -o nosuid,nodev,noexec,relatime nodev PLACE` does.
///
/// # Errors
/// `EPERM` without `CAP_SYS_ADMIN`, `ENOENT` if the folder is missing, `ENODEV` in kernels without tracing.
pub fn tracefs(place: &CStr) -> io::Result<()> {
    let flags = libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC | libc::MS_RELATIME;
    // SAFETY: the three strings end with a NUL, and tracefs takes no data.
    check(unsafe {
        libc::mount(c"nodev".as_ptr(), place.as_ptr(), c"tracefs".as_ptr(), flags, ptr::null())
    })?;
    Ok(())
}
