//! Files without a name: `memfd_create(2)`.

use std::ffi::CStr;
use std::fs::File;
use std::io;

use rustix::fs::{MemfdFlags, memfd_create};

/// Creates an empty file in memory. The name is seen in `/proc` alone.
///
/// # Errors
/// Those of `memfd_create(2)`.
pub fn create(name: &CStr) -> io::Result<File> {
    Ok(memfd_create(name, MemfdFlags::CLOEXEC)?.into())
}
