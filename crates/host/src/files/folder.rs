//! Resolves a path to the open folder of its last component.

use std::ffi::{CStr, CString, OsStr};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::destination_error::DestinationError;
use super::trust::{Trusted, give_to_sudo_user};
use crate::in_root::MAX_SYMLINKS;
use crate::sys::directory::Directory;
use crate::sys::system;

/// The state of resolving a path: the current folder and the remaining components, including those of links on the way.
struct PathWalk<'a> {
    trusted: &'a Trusted,
    folder: Directory,
    /// The remaining components, in reverse order.
    remaining: Vec<CString>,
    /// The path of the current folder, for messages.
    so_far: PathBuf,
    links: usize,
}

/// Opens the folder that contains `path`, and returns it with the last component. If the path ends in `/`, `.` or `..`, opens the
/// whole path as a folder and returns no name.
///
/// # Errors
/// Those of `openat(2)`; [`DestinationError::ForeignLink`] for a link on the way that an untrusted user may have placed.
pub(super) fn open_folder(
    path: &Path,
    trusted: &Trusted,
) -> Result<(Directory, Option<CString>), DestinationError> {
    let bytes = path.as_os_str().as_bytes();
    if bytes.is_empty() {
        return Err(io::Error::from(io::ErrorKind::NotFound).into());
    }
    let mut walk = PathWalk::new(path, trusted)?;
    let name = match bytes.rsplit(|&byte| byte == b'/').next() {
        Some(b"" | b"." | b"..") | None => None,
        Some(_) => (!walk.remaining.is_empty()).then(|| walk.remaining.remove(0)),
    };
    while let Some(component) = walk.remaining.pop() {
        walk.step(&component).map_err(|error| match error {
            DestinationError::Io(error) if error.kind() == io::ErrorKind::NotFound => {
                let missing = walk.so_far.join(OsStr::from_bytes(component.to_bytes()));
                let rest = walk.remaining.iter().rev().map(|part| OsStr::from_bytes(part.to_bytes()));
                DestinationError::NoFolder { folder: missing.join(rest.collect::<PathBuf>()), missing }
            }
            error => error,
        })?;
    }
    Ok((walk.folder, name))
}

/// Creates the folder `path` and its missing parents with mode 0700, and returns it open. Under `sudo`, they belong to the invoking user.
///
/// # Errors
/// As `open_folder`, and those of `mkdirat(2)`.
pub fn make_folders(path: &Path) -> Result<Directory, DestinationError> {
    let trusted = Trusted::for_this_process();
    let mut walk = PathWalk::new(path, &trusted)?;
    while let Some(component) = walk.remaining.pop() {
        match walk.step(&component) {
            Err(DestinationError::Io(error)) if error.kind() == io::ErrorKind::NotFound => {
                walk.make(&component)?;
            }
            result => result?,
        }
    }
    Ok(walk.folder)
}

impl<'a> PathWalk<'a> {
    fn new(path: &Path, trusted: &'a Trusted) -> io::Result<Self> {
        let folder = if path.is_absolute() { Directory::root() } else { Directory::current() }?;
        let so_far = if path.is_absolute() { PathBuf::from("/") } else { PathBuf::new() };
        Ok(Self { trusted, folder, remaining: components(path.as_os_str())?, so_far, links: 0 })
    }

    /// Enters one component. If it is a link, pushes the components of its target.
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
        if !self.trusted.is_placed_by_trusted(&what, &self.folder.metadata()?) {
            let owner = (!self.trusted.owns(&what)).then(|| what.uid());
            return Err(DestinationError::ForeignLink { link, owner });
        }
        self.links += 1;
        if self.links > MAX_SYMLINKS {
            return Err(io::Error::from_raw_os_error(libc::ELOOP).into());
        }
        let target = entry.link_target()?;
        if self.folder.is_of_proc() && target.as_bytes().first() == Some(&b'/') {
            // The text of such a link (`/proc/PID/cwd`) only describes the directory to which it leads.
            self.folder = self.folder.enter_following(component)?;
            self.so_far = link;
            return Ok(());
        }
        if target.as_bytes().first() == Some(&b'/') {
            self.folder = Directory::root()?;
            self.so_far = PathBuf::from("/");
        }
        self.remaining.extend(components(&target)?);
        Ok(())
    }

    fn make(&mut self, component: &CStr) -> Result<(), DestinationError> {
        match self.folder.make_directory(component, 0o700) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error.into()),
            _ => {}
        }
        let made = self.folder.enter(component)?;
        // If others can rename it, it may be another directory by now, whose owner must not change.
        let is_ours = made.metadata()?.uid() == system::effective_user();
        if is_ours && self.trusted.keeps_names(&self.folder.metadata()?) {
            give_to_sudo_user(&made.open()?)?;
        }
        self.folder = made;
        self.so_far.push(OsStr::from_bytes(component.to_bytes()));
        Ok(())
    }
}

/// Returns the components in reverse order.
fn components(path: &OsStr) -> io::Result<Vec<CString>> {
    let parts = path.as_bytes().rsplit(|&byte| byte == b'/').filter(|part| !matches!(*part, b"" | b"."));
    parts.map(|part| CString::new(part).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))).collect()
}
