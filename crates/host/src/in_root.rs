//! Files as a process in another root directory sees them.

use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata, OpenOptions, read_link};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Component, Path, PathBuf};

use crate::sys::resolve;

/// Maximum number of symbolic links followed for one path: the kernel's `MAXSYMLINKS`.
pub(crate) const MAX_SYMLINKS: usize = 40;

/// Says whether a file system may be asked, because some never answer: that of an open file or, with a name, the one that may be
/// mounted at that name in an open folder.
pub type MayEnter<'a> = dyn Fn(&File, Option<&OsStr>) -> bool + 'a;

/// Opens with `O_PATH`.
///
/// # Errors
/// Those of `open(2)`.
pub(crate) fn open_path(path: impl AsRef<Path>) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(libc::O_PATH).open(path)
}

/// Opens `path` with `O_PATH` and resolves every component below `root`: `..` stops at `root`, and absolute links start there.
/// If the last component is a link, opens the link itself. Calls `may_enter` for `root` and for each mount on the way before
/// looking anything up in it.
///
/// The owner of the folders can make the path lead anywhere below `root`, but not out of it.
///
/// # Errors
/// Those of `openat2(2)`; [`io::ErrorKind::Unsupported`] if `may_enter` refuses a mount.
pub fn open(root: &File, path: &Path, may_enter: &MayEnter<'_>) -> io::Result<File> {
    open_below(root, path, may_enter, false)
}

/// Does the same as [`open`], but if the last component is a link, opens what it leads to.
///
/// # Errors
/// As [`open`].
pub(crate) fn open_target(root: &File, path: &Path, may_enter: &MayEnter<'_>) -> io::Result<File> {
    open_below(root, path, may_enter, true)
}

fn open_below(root: &File, path: &Path, may_enter: &MayEnter<'_>, follow: bool) -> io::Result<File> {
    if !may_enter(root, None) {
        return Err(io::ErrorKind::Unsupported.into());
    }
    match resolve::open_in_root(root, path, follow) {
        // The path crosses a mount, a folder was moved meanwhile, or the kernel or a seccomp filter (EPERM) refuses the call.
        Err(error)
            if matches!(
                error.raw_os_error(),
                Some(libc::EXDEV | libc::EAGAIN | libc::ENOSYS | libc::EPERM | libc::E2BIG)
            ) =>
        {
            open_by_components(root, path, may_enter, follow)
        }
        result => result,
    }
}

/// Opens a file for reading that was opened with `O_PATH`, without resolving its name again. The caller checks first that it is a
/// regular file, because opening a pipe or device has side effects.
///
/// # Errors
/// Those of `open(2)`.
pub(crate) fn reopen(found: &File) -> io::Result<File> {
    let path = format!("/proc/self/fd/{}", found.as_raw_fd());
    OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path)
}

/// Opens for reading what was opened with `O_PATH`, if it is a regular file with contents: opening a pipe or device has side effects.
///
/// # Errors
/// Those of `open(2)`; `InvalidInput` for what is empty or not a regular file.
pub(crate) fn open_regular(found: &File) -> io::Result<File> {
    check_regular(&found.metadata()?)?;
    reopen(found)
}

/// Accepts a regular file with contents.
///
/// # Errors
/// `InvalidInput` for others.
pub(crate) fn check_regular(metadata: &Metadata) -> io::Result<()> {
    let is_usable = metadata.is_file() && metadata.len() > 0;
    if is_usable { Ok(()) } else { Err(io::Error::from(io::ErrorKind::InvalidInput)) }
}

/// Does the same as [`open_below`], opening one component at a time.
fn open_by_components(root: &File, path: &Path, may_enter: &MayEnter<'_>, follow: bool) -> io::Result<File> {
    let mut folders = vec![root.try_clone()?];
    let mut left: Vec<OsString> = Vec::new();
    push_reversed(&mut left, path);
    let mut links = 0;
    while let Some(name) = left.pop() {
        if name == OsStr::new("..") {
            if folders.len() > 1 {
                folders.pop();
            }
            continue;
        }
        let Some(folder) = folders.last() else { break };
        if !may_enter(folder, Some(&name)) {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let step = PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd())).join(&name);
        let found =
            OpenOptions::new().read(true).custom_flags(libc::O_PATH | libc::O_NOFOLLOW).open(&step)?;
        if !may_enter(&found, None) {
            return Err(io::ErrorKind::Unsupported.into());
        }
        if (left.is_empty() && !follow) || !found.metadata()?.is_symlink() {
            folders.push(found);
            continue;
        }
        links += 1;
        if links > MAX_SYMLINKS {
            return Err(io::Error::from_raw_os_error(libc::ELOOP));
        }
        let target = read_link(&step)?;
        if target.is_absolute() {
            folders.truncate(1);
        }
        push_reversed(&mut left, &target);
    }
    folders.pop().ok_or_else(|| io::ErrorKind::NotFound.into())
}

/// Pushes the components of `path` onto a stack, the first one on top.
fn push_reversed(stack: &mut Vec<OsString>, path: &Path) {
    let named = |component| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some(OsString::from("..")),
        Component::CurDir | Component::RootDir | Component::Prefix(_) => None,
    };
    let components: Vec<OsString> = path.components().filter_map(named).collect();
    stack.extend(components.into_iter().rev());
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::io::Read;
    use std::os::unix::fs::{MetadataExt, symlink};

    type Opener = fn(&File, &Path) -> io::Result<File>;

    /// Both ways must answer alike; on an old kernel the first is the second.
    const BOTH: [Opener; 2] = [
        |root, path| open(root, path, &|_, _| true),
        |root, path| open_by_components(root, path, &|_, _| true, false),
    ];

    #[test]
    fn a_mount_is_asked_about_before_anything_in_it() {
        let root = File::open("/").unwrap();
        let error = open(&root, Path::new("proc/self/status"), &|_, _| false).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::Unsupported);
        // /proc is a mount wherever tests run.
        let id = |file: &File| file.metadata().unwrap().dev();
        let error =
            open(&root, Path::new("proc/self/status"), &|found, _| id(found) == id(&root)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::Unsupported);
        assert!(open(&root, Path::new("proc/self/status"), &|_, _| true).is_ok());
    }

    fn text(file: &File) -> String {
        let mut text = String::new();
        let mut file = File::open(format!("/proc/self/fd/{}", file.as_raw_fd())).unwrap();
        file.read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn no_link_leads_out_of_the_root() {
        let folder = tempfile::tempdir().unwrap();
        let (inner, outer) = (folder.path().join("root"), folder.path().join("outside"));
        fs::create_dir_all(inner.join("etc")).unwrap();
        fs::create_dir_all(inner.join("deep/er")).unwrap();
        fs::create_dir(&outer).unwrap();
        fs::write(outer.join("file"), "outside").unwrap();
        fs::write(inner.join("etc/file"), "inside").unwrap();
        symlink("/etc", inner.join("absolute")).unwrap();
        symlink("../../../../../etc", inner.join("deep/er/upwards")).unwrap();
        symlink(&outer, inner.join("out")).unwrap();
        symlink("../outside", inner.join("beside")).unwrap();
        symlink("loop", inner.join("loop")).unwrap();
        let root = File::open(&inner).unwrap();
        for open in BOTH {
            for path in ["etc/file", "/etc/file", "absolute/file", "deep/er/upwards/file", "../../etc/file"] {
                assert_eq!(text(&open(&root, Path::new(path)).unwrap()), "inside", "{path}");
            }
            for path in ["out/file", "beside/file", "../outside/file"] {
                let error = open(&root, Path::new(path)).unwrap_err();
                assert_eq!(error.kind(), io::ErrorKind::NotFound, "{path}");
            }
            let error = open(&root, Path::new("loop/file")).unwrap_err();
            assert_eq!(error.raw_os_error(), Some(libc::ELOOP));
            let error = open(&root, Path::new("etc/file/x")).unwrap_err();
            assert_eq!(error.raw_os_error(), Some(libc::ENOTDIR));
        }
    }

    #[test]
    fn a_link_at_the_end_is_opened_itself() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("file"), "").unwrap();
        symlink("file", folder.path().join("link")).unwrap();
        let root = File::open(folder.path()).unwrap();
        for open in BOTH {
            assert!(open(&root, Path::new("link")).unwrap().metadata().unwrap().is_symlink());
        }
    }
}
