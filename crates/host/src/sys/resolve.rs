//! Resolves paths with restrictions: `openat2(2)`.

use std::fs::File;
use std::io;
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};

/// Opens `path` with `O_PATH`, resolved as by a process whose root directory is `root`: neither `..` nor a link leads out. If the
/// last component is a link, opens what it leads to with `follow`, or else the link itself.
///
/// # Errors
/// Those of `openat2(2)`: `EXDEV` if the path crosses a mount, `ENOSYS` before Linux 5.6, `EPERM` if a seccomp filter does not
/// know the call, `EAGAIN` if a folder is moved meanwhile.
pub fn open_in_root(root: &File, path: &Path, follow: bool) -> io::Result<File> {
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_XDEV;
    let flags = if follow { OFlags::empty() } else { OFlags::NOFOLLOW };
    Ok(openat2(root, path, OFlags::PATH | OFlags::CLOEXEC | flags, Mode::empty(), resolve)?.into())
}

/// Opens an absolute path with `O_PATH`. Follows links, but none of the kernel's own, such as `/proc/self/cwd`, which lead past the
/// folders on the way to what they name.
///
/// # Errors
/// As [`open_in_root`]; `ELOOP` for a link of the kernel's.
pub fn open_without_magic_links(path: &Path) -> io::Result<File> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    Ok(openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_MAGICLINKS)?.into())
}
