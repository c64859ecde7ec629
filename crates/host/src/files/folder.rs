//! From a path to the open folder of its last component.

use std::ffi::{CStr, CString, OsStr};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::destination::DestinationError;
use super::trust::{Trusted, give_to_sudo_user};
use crate::sys::directory::Directory;
use crate::sys::system;

/// As many links in one path as the kernel follows (`MAXSYMLINKS`).
const MAX_SYMLINKS: u32 = 40;

/// A walk along a path. It stands in a folder; what is left are components of the path, and of the links on the way.
struct Walk<'a> {
    trusted: &'a Trusted,
    folder: Directory,
    /// In reverse: the next one is the last.
    left: Vec<CString>,
    /// The path of the folder as it would be typed, for messages.
    so_far: PathBuf,
    links: u32,
}

/// Opens the folder that `path` lies in; returns the last component with it, where that is a name. It is none where the path
/// ends in `/`, `.` or `..`: the folder is what the whole path says then.
///
/// # Errors
/// Those of `openat(2)`; [`DestinationError::ForeignLink`] for a link that somebody else may have put on the way.
pub(super) fn open_folder(
    path: &Path,
    trusted: &Trusted,
) -> Result<(Directory, Option<CString>), DestinationError> {
    let bytes = path.as_os_str().as_bytes();
    if bytes.is_empty() {
        return Err(io::Error::from(io::ErrorKind::NotFound).into());
    }
    let mut walk = Walk::new(path, trusted)?;
    let name = match bytes.rsplit(|&byte| byte == b'/').next() {
        Some(b"" | b"." | b"..") | None => None,
        Some(_) => (!walk.left.is_empty()).then(|| walk.left.remove(0)),
    };
    while let Some(component) = walk.left.pop() {
        walk.step(&component).map_err(|error| match error {
            DestinationError::Io(error) if error.kind() == io::ErrorKind::NotFound => {
                DestinationError::NoFolder(walk.so_far.join(OsStr::from_bytes(component.to_bytes())))
            }
            error => error,
        })?;
    }
    Ok((walk.folder, name))
}

/// Opens the folder `path`. What is missing of it is made: for the user's eyes only, and the user's own under `sudo`.
///
/// # Errors
/// As [`open_folder`], and those of `mkdirat(2)`.
pub(crate) fn make_folders(path: &Path) -> Result<(), DestinationError> {
    let trusted = Trusted::for_this_process();
    let mut walk = Walk::new(path, &trusted)?;
    while let Some(component) = walk.left.pop() {
        match walk.step(&component) {
            Err(DestinationError::Io(error)) if error.kind() == io::ErrorKind::NotFound => {
                walk.make(&component)?;
            }
            result => result?,
        }
    }
    Ok(())
}

impl<'a> Walk<'a> {
    fn new(path: &Path, trusted: &'a Trusted) -> io::Result<Self> {
        let folder = if path.is_absolute() { Directory::root() } else { Directory::current() }?;
        let so_far = if path.is_absolute() { PathBuf::from("/") } else { PathBuf::new() };
        Ok(Self { trusted, folder, left: components(path.as_os_str())?, so_far, links: 0 })
    }

    /// Goes into one component, or puts those of the link that it is before what is left.
    fn step(&mut self, component: &CStr) -> Result<(), DestinationError> {
        match self.folder.enter(component) {
            Ok(folder) => self.folder = folder,
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
                return self.follow(component, error);
            }
            Err(error) => return Err(error.into()),
        }
        self.so_far.push(OsStr::from_bytes(component.to_bytes()));
        Ok(())
    }

    fn follow(&mut self, component: &CStr, not_a_directory: io::Error) -> Result<(), DestinationError> {
        let entry = self.folder.look_at(component)?;
        let what = entry.metadata()?;
        if !what.is_symlink() {
            return Err(not_a_directory.into());
        }
        let link = self.so_far.join(OsStr::from_bytes(component.to_bytes()));
        if !self.trusted.placed(&what, &self.folder.metadata()?) {
            let owner = (!self.trusted.owns(&what)).then(|| what.uid());
            return Err(DestinationError::ForeignLink { link, owner });
        }
        self.links += 1;
        if self.links > MAX_SYMLINKS {
            return Err(io::Error::from_raw_os_error(libc::ELOOP).into());
        }
        let target = entry.link_target()?;
        if self.folder.is_of_proc() && target.as_bytes().first() == Some(&b'/') {
            // What such a link says is but a description of the directory that it leads to.
            self.folder = self.folder.enter_following(component)?;
            self.so_far = link;
            return Ok(());
        }
        if target.as_bytes().first() == Some(&b'/') {
            self.folder = Directory::root()?;
            self.so_far = PathBuf::from("/");
        }
        self.left.extend(components(&target)?);
        Ok(())
    }

    fn make(&mut self, component: &CStr) -> Result<(), DestinationError> {
        match self.folder.make_directory(component, 0o700) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error.into()),
            _ => {}
        }
        let made = self.folder.enter(component)?;
        // Where others can rename it, it may be another directory by now, which is not ours to give away.
        let is_ours = made.metadata()?.uid() == system::effective_user();
        if is_ours && self.trusted.keeps_names(&self.folder.metadata()?) {
            give_to_sudo_user(&made.open()?)?;
        }
        self.folder = made;
        self.so_far.push(OsStr::from_bytes(component.to_bytes()));
        Ok(())
    }
}

/// The components in reverse.
fn components(path: &OsStr) -> io::Result<Vec<CString>> {
    let parts = path.as_bytes().rsplit(|&byte| byte == b'/').filter(|part| !matches!(*part, b"" | b"."));
    parts.map(|part| CString::new(part).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))).collect()
}
