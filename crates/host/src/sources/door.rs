//! Opens a source file, and judges it by its descriptor.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use crate::in_root::reopen;
use crate::sys::file_system::{self, FileSystem};
use crate::sys::resolve;

/// Opens the source file at an absolute path with the identity of the calling thread. The path is resolved once; what it led to is
/// judged before it is opened for reading.
///
/// # Errors
/// Those of opening it, `InvalidInput` (EINVAL) for what is no source file.
pub(super) fn open(path: &Path) -> io::Result<File> {
    let refused = || io::Error::from_raw_os_error(libc::EINVAL);
    if !path.is_absolute() {
        return Err(refused());
    }
    let found = open_path(path)?;
    if !is_source(&found, path)? {
        return Err(refused());
    }
    reopen(&found)
}

fn open_path(path: &Path) -> io::Result<File> {
    match resolve::open_without_magic_links(path) {
        // The kernel, or a filter of system calls (EPERM), does not know the call.
        Err(error) if matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EPERM)) => {
            OpenOptions::new().read(true).custom_flags(libc::O_PATH).open(path)
        }
        opened => opened,
    }
}

/// Returns true for a regular file on a file system of files that has the name that was asked for, or at least its extension: a link may
/// lead elsewhere, but not from `x.c` to `/etc/shadow`.
fn is_source(found: &File, asked: &Path) -> io::Result<bool> {
    if !found.metadata()?.is_file() || file_system::of(found)? == FileSystem::OfTheKernel {
        return Ok(false);
    }
    let name = std::fs::read_link(format!("/proc/self/fd/{}", found.as_raw_fd()))?;
    let is_same_name = name.file_name() == asked.file_name();
    // Headers of C++ have no extension: the name must be the same then.
    let is_same_kind = asked.extension().is_some() && name.extension() == asked.extension();
    Ok(is_same_name || is_same_kind)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources::SourceError;
    use std::fs;
    use std::os::unix::fs::symlink;

    fn reason(path: &Path) -> SourceError {
        SourceError::from(&open(path).unwrap_err())
    }

    #[test]
    fn files_are_judged_by_what_their_paths_lead_to() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("real.c"), "int x;").unwrap();
        fs::write(at("secret"), "root:x").unwrap();
        fs::write(at("vector"), "template").unwrap();
        fs::create_dir(at("folder.c")).unwrap();
        fs::create_dir(at("other")).unwrap();
        for (link, target) in [
            ("other.c", "real.c"),
            ("bad.c", "secret"),
            ("other/vector", "../vector"),
            ("array", "vector"),
            ("kernel.c", "/proc/version"),
            ("version", "/proc/version"),
            ("state", "/sys/power/state"),
            ("loop.c", "loop.c"),
        ] {
            symlink(target, at(link)).unwrap();
        }
        let made = std::process::Command::new("mkfifo").arg(at("pipe.c")).status();
        assert!(made.unwrap().success());
        for name in ["real.c", "other.c", "vector", "other/vector", "secret"] {
            assert!(open(&at(name)).is_ok(), "{name}");
        }
        for name in ["bad.c", "array", "kernel.c", "version", "state", "folder.c", "pipe.c", "loop.c"] {
            assert_eq!(reason(&at(name)), SourceError::NotASource, "{name}");
        }
        for path in ["/proc/kmsg", "/proc/version", "/proc/self/environ", "/dev/null", "relative.c"] {
            assert!(open(Path::new(path)).is_err(), "{path}");
        }
        assert_eq!(reason(&at("none.c")), SourceError::Missing);
        let magic = Path::new("/proc/self/cwd/Cargo.toml");
        assert_eq!(reason(magic), SourceError::NotASource, "a link past the folders on the way");
    }
}
