//! Who owns a namespace: `NS_GET_USERNS` of `ioctl_ns(2)`.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::MetadataExt;

use super::check;

/// `NS_GET_USERNS` of `linux/nsfs.h`: `_IO(0xb7, 1)`.
pub(super) const NS_GET_USERNS: u64 = 0xb701;

/// Returns the inode of the user namespace that owns an open namespace.
///
/// # Errors
/// `EPERM` if that is neither ours nor a descendant of ours.
pub fn owning_user_namespace(namespace: &File) -> io::Result<u64> {
    // SAFETY: the call takes no further argument and returns a descriptor.
    let owner = check(unsafe { libc::ioctl(namespace.as_raw_fd(), NS_GET_USERNS as libc::Ioctl) })?;
    // SAFETY: the kernel has just given us this descriptor; nobody else has it.
    let owner = unsafe { File::from_raw_fd(owner) };
    Ok(owner.metadata()?.ino())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_mount_namespace_has_an_owner_or_one_that_we_may_not_know() {
        match owning_user_namespace(&File::open("/proc/self/ns/mnt").unwrap()) {
            Ok(owner) => assert_eq!(owner, std::fs::metadata("/proc/self/ns/user").unwrap().ino()),
            Err(error) => assert_eq!(error.raw_os_error(), Some(libc::EPERM)),
        }
    }
}
