//! Names in an open directory: `openat(2)` and the like. Each call resolves one component and follows no link.

use std::ffi::{CStr, CString, OsString};
use std::fs::{File, Metadata};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use rustix::fs::{
    AtFlags, CWD, Mode, OFlags, PROC_SUPER_MAGIC, fstatfs, linkat, mkdirat, openat, readlinkat, renameat,
    unlinkat,
};
use rustix::io::retry_on_intr;

/// An open directory (`O_PATH` of `open(2)`), independent of its current name.
#[derive(Debug)]
pub struct Directory(File);

/// A directory entry opened with `O_PATH`, which has no side effects. Opening [`Entry::proc_path`] opens the same file, even if its
/// name refers to another one by then.
#[derive(Debug)]
pub struct Entry(File);

impl Directory {
    /// Opens the root directory of this process.
    ///
    /// # Errors
    /// Those of `open(2)`.
    pub fn root() -> io::Result<Self> {
        open_at(CWD, c"/", OFlags::PATH | OFlags::DIRECTORY, 0).map(Self)
    }

    /// Opens the working directory of this process.
    ///
    /// # Errors
    /// Those of `open(2)`.
    pub fn current() -> io::Result<Self> {
        open_at(CWD, c".", OFlags::PATH | OFlags::DIRECTORY, 0).map(Self)
    }

    /// Duplicates the descriptor.
    ///
    /// # Errors
    /// Those of `dup(2)`.
    pub fn try_clone(&self) -> io::Result<Self> {
        self.0.try_clone().map(Self)
    }

    /// Returns true if the directory has been removed, so that no file can be created in it.
    pub fn is_removed(&self) -> bool {
        self.0.metadata().is_ok_and(|directory| directory.nlink() == 0)
    }

    /// Lists the names that `wanted` accepts, unordered.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn names(&self, mut wanted: impl FnMut(&[u8]) -> bool) -> io::Result<Vec<CString>> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(proc_path(&self.0))? {
            let name = entry?.file_name().into_vec();
            if wanted(&name) {
                names.extend(CString::new(name));
            }
        }
        Ok(names)
    }

    /// Opens a subdirectory. Triggers mounting on demand (autofs).
    ///
    /// # Errors
    /// Those of `openat(2)`; `ENOTDIR` if it is not a directory, or a link to one.
    pub fn enter(&self, name: &CStr) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW;
        open_at(&self.0, name, flags, 0).map(Self)
    }

    /// Opens a subdirectory, following a link of the kernel such as `/proc/PID/cwd`.
    ///
    /// # Errors
    /// Those of `openat(2)`.
    pub fn enter_following(&self, name: &CStr) -> io::Result<Self> {
        open_at(&self.0, name, OFlags::PATH | OFlags::DIRECTORY, 0).map(Self)
    }

    /// Opens an entry with `O_PATH`. If it is a link, opens the link itself.
    ///
    /// # Errors
    /// Those of `openat(2)`.
    pub fn look_at(&self, name: &CStr) -> io::Result<Entry> {
        open_at(&self.0, name, OFlags::PATH | OFlags::NOFOLLOW, 0).map(Entry)
    }

    /// Returns owner, mode and inode.
    ///
    /// # Errors
    /// Those of `fstat(2)`.
    pub fn metadata(&self) -> io::Result<Metadata> {
        self.0.metadata()
    }

    /// Opens the directory for reading.
    ///
    /// # Errors
    /// Those of `openat(2)`.
    pub fn open(&self) -> io::Result<File> {
        open_at(&self.0, c".", OFlags::RDONLY | OFlags::DIRECTORY, 0)
    }

    /// Returns true if the directory is in `/proc`.
    pub fn is_of_proc(&self) -> bool {
        fstatfs(&self.0).is_ok_and(|about| about.f_type == PROC_SUPER_MAGIC)
    }

    /// Returns the current path of the directory.
    ///
    /// # Errors
    /// Those of `readlink(2)`, if `/proc` is not mounted.
    pub fn path(&self) -> io::Result<PathBuf> {
        std::fs::read_link(proc_path(&self.0))
    }

    /// Creates a nameless file in this file system (`O_TMPFILE`), for reading and writing, with `mode` (less the umask). It vanishes
    /// with its last descriptor.
    ///
    /// # Errors
    /// Those of `openat(2)`; `EOPNOTSUPP` or `EISDIR` if the file system or the kernel does not support it, and `ENOENT` if `/proc` is
    /// not mounted, which [`Directory::link`] needs.
    pub fn create_nameless(&self, mode: u32) -> io::Result<File> {
        let file = open_at(&self.0, c".", OFlags::RDWR | OFlags::TMPFILE, mode)?;
        std::fs::symlink_metadata(proc_path(&file))?;
        Ok(file)
    }

    /// Creates a file for reading and writing, with `mode` (less the umask). The name must not exist.
    ///
    /// # Errors
    /// Those of `openat(2)`; `EEXIST` also for a dangling link.
    pub fn create_new(&self, name: &CStr, mode: u32) -> io::Result<File> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        open_at(&self.0, name, flags, mode)
    }

    /// Creates a directory. The name must not exist.
    ///
    /// # Errors
    /// Those of `mkdirat(2)`.
    pub fn make_directory(&self, name: &CStr, mode: u32) -> io::Result<()> {
        Ok(mkdirat(&self.0, name, Mode::from_raw_mode(mode))?)
    }

    /// Links an open file to a name, which must not exist.
    ///
    /// # Errors
    /// Those of `linkat(2)`.
    pub fn link(&self, file: &File, name: &CStr) -> io::Result<()> {
        // Linking through /proc needs no privilege, unlike AT_EMPTY_PATH (linkat(2)).
        Ok(linkat(CWD, proc_path(file), &self.0, name, AtFlags::SYMLINK_FOLLOW)?)
    }

    /// Renames `from` to `to`, replacing a file, link or empty directory of that name.
    ///
    /// # Errors
    /// Those of `renameat(2)`.
    pub fn rename(&self, from: &CStr, to: &CStr) -> io::Result<()> {
        Ok(renameat(&self.0, from, &self.0, to)?)
    }

    /// Removes a name, unless it is a directory.
    ///
    /// # Errors
    /// Those of `unlinkat(2)`.
    pub fn remove(&self, name: &CStr) -> io::Result<()> {
        Ok(unlinkat(&self.0, name, AtFlags::empty())?)
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// Those of `unlinkat(2)`.
    pub fn remove_directory(&self, name: &CStr) -> io::Result<()> {
        Ok(unlinkat(&self.0, name, AtFlags::REMOVEDIR)?)
    }
}

impl From<File> for Directory {
    /// Wraps a directory opened with `O_PATH`.
    fn from(found: File) -> Self {
        Self(found)
    }
}

impl From<File> for Entry {
    /// Wraps a file opened with `O_PATH`.
    fn from(found: File) -> Self {
        Self(found)
    }
}

impl Entry {
    /// Returns type, owner, mode and inode.
    ///
    /// # Errors
    /// Those of `fstat(2)`.
    pub fn metadata(&self) -> io::Result<Metadata> {
        self.0.metadata()
    }

    /// Returns the target of the link.
    ///
    /// # Errors
    /// Those of `readlinkat(2)`; `ENOENT` if it is not a link.
    pub fn link_target(&self) -> io::Result<OsString> {
        // The empty name means the descriptor itself.
        Ok(OsString::from_vec(readlinkat(&self.0, c"", Vec::new())?.into_bytes()))
    }

    /// Returns a path that opens the file itself, without resolving its name again.
    pub fn proc_path(&self) -> String {
        proc_path(&self.0)
    }
}

fn proc_path(file: &File) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

fn open_at(directory: impl AsFd, name: &CStr, flags: OFlags, mode: u32) -> io::Result<File> {
    let (flags, mode) = (flags | OFlags::CLOEXEC, Mode::from_raw_mode(mode));
    Ok(retry_on_intr(|| openat(&directory, name, flags, mode))?.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{FileTypeExt, symlink};

    fn directory(path: &std::path::Path) -> Directory {
        use std::os::unix::ffi::OsStrExt;
        let name = CString::new(path.as_os_str().as_bytes()).unwrap();
        Directory::root().unwrap().enter(&name).unwrap()
    }

    #[test]
    fn links_are_looked_at_and_not_entered() {
        let folder = tempfile::tempdir().unwrap();
        symlink("/", folder.path().join("link")).unwrap();
        let directory = directory(folder.path());
        assert_eq!(directory.enter(c"link").unwrap_err().raw_os_error(), Some(libc::ENOTDIR));
        let entry = directory.look_at(c"link").unwrap();
        assert!(entry.metadata().unwrap().is_symlink());
        assert_eq!(entry.link_target().unwrap(), "/");
        assert_eq!(directory.enter_following(c"link").unwrap().path().unwrap(), PathBuf::from("/"));
    }

    #[test]
    fn what_was_looked_at_is_opened_whatever_has_its_name() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a"), "first").unwrap();
        let directory = directory(folder.path());
        let entry = directory.look_at(c"a").unwrap();
        std::fs::remove_file(folder.path().join("a")).unwrap();
        symlink("/dev/null", folder.path().join("a")).unwrap();
        let file = File::open(entry.proc_path()).unwrap();
        assert!(!file.metadata().unwrap().file_type().is_char_device());
        assert_eq!(std::io::read_to_string(file).unwrap(), "first");
    }

    #[test]
    fn only_proc_is_of_proc() {
        let root = Directory::root().unwrap();
        assert!(!root.is_of_proc());
        assert!(root.enter(c"proc").unwrap().is_of_proc());
    }
}
