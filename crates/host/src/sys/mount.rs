//! Mounts tracefs.

use std::ffi::CStr;
use std::io;

use rustix::mount::{MountFlags, mount};

/// Mounts tracefs (`mount(2)`), as `mount -t tracefs -o nosuid,nodev,noexec,relatime nodev PLACE` does.
///
/// # Errors
/// `EPERM` without `CAP_SYS_ADMIN`, `ENOENT` if the folder is missing, `ENODEV` in kernels without tracing.
pub fn tracefs(place: &CStr) -> io::Result<()> {
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC | MountFlags::RELATIME;
    Ok(mount(c"nodev", place, c"tracefs", flags, None)?)
}
