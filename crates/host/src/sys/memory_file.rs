//! Files without a name: `memfd_create(2)`.

use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::os::fd::FromRawFd;

use super::check;

/// Creates an empty file in memory. The name is seen in `/proc` alone.
///
/// # Errors
/// Those of `memfd_create(2)`.
pub fn create(name: &CStr) -> io::Result<File> {
    // SAFETY: the name is a C string, which lives until the call returns.
    let descriptor = check(unsafe { libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC) })?;
    // SAFETY: the kernel has just given us this descriptor; nobody else has it.
    Ok(unsafe { File::from_raw_fd(descriptor) })
}
