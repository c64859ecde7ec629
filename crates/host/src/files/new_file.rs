//! A result file that appears under its name when it is complete, and belongs to the invoking user.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::destination::NameInFolder;
use super::destination_error::DestinationError;
use super::folder::open_folder;
use super::trust::{Trusted, give_to_sudo_user};
use crate::sys::system;

/// A file that is written without a name and gets the name of its destination when it is complete ([`NewFile::persist`]), or
/// earlier ([`NewFile::take_name_keeping_old`]). If it is dropped before that, or the process is killed, nothing remains and an
/// older file of that name is untouched.
///
/// If the file system does not support nameless files (`O_TMPFILE`), it has a temporary name beside its destination, which remains
/// if the process is killed.
#[derive(Debug)]
pub struct NewFile {
    file: File,
    /// `None` for a file that never gets a name.
    destination: Option<NameInFolder>,
    name: CurrentName,
}

/// The current name of a new file.
#[derive(Debug)]
enum CurrentName {
    None,
    Temporary(CString),
    /// The name of the destination.
    Own,
}

impl NewFile {
    /// Creates the file with `mode` (less the umask). Under `sudo`, it belongs to the invoking user.
    ///
    /// # Errors
    /// Those of `openat(2)`.
    pub fn create(destination: NameInFolder, mode: u32) -> io::Result<Self> {
        let new = match destination.folder.create_nameless(mode) {
            Ok(file) => Self { file, destination: Some(destination), name: CurrentName::None },
            Err(_) => Self::create_temporary(destination, mode)?,
        };
        give_to_sudo_user(&new.file)?;
        Ok(new)
    }

    /// Creates a file whose destination is `path`.
    ///
    /// # Errors
    /// Those of `openat(2)`, and [`DestinationError`] if a directory, device or the like has that name.
    pub fn create_at(path: &Path, mode: u32) -> Result<Self, DestinationError> {
        Ok(Self::create(NameInFolder::find(path)?, mode)?)
    }

    /// Creates a file in `folder` that never gets a name. It vanishes with its last descriptor.
    ///
    /// # Errors
    /// Those of `openat(2)`.
    pub fn create_nameless(folder: &Path) -> Result<Self, DestinationError> {
        const MODE: u32 = 0o600;
        // `open_folder` opens the folder of the last component, so one is appended.
        let (folder, _) = open_folder(&folder.join("."), &Trusted::for_this_process())?;
        if let Ok(file) = folder.create_nameless(MODE) {
            return Ok(Self { file, destination: None, name: CurrentName::None });
        }
        let (file, name) = with_new_name(|name| folder.create_new(name, MODE))?;
        folder.remove(&name)?;
        Ok(Self { file, destination: None, name: CurrentName::None })
    }

    fn create_temporary(destination: NameInFolder, mode: u32) -> io::Result<Self> {
        let (file, name) = with_new_name(|name| destination.folder.create_new(name, mode))?;
        Ok(Self { file, destination: Some(destination), name: CurrentName::Temporary(name) })
    }

    /// Gives the file its name, replacing an older file (or link) of that name.
    ///
    /// # Errors
    /// Those of `linkat(2)` and `renameat(2)`.
    pub fn persist(mut self) -> io::Result<()> {
        self.replace()
    }

    fn replace(&mut self) -> io::Result<()> {
        let Some(NameInFolder { folder, name }) = &self.destination else { return Ok(()) };
        if let CurrentName::None = self.name {
            // linkat(2) does not replace an existing name, but renameat(2) does.
            let ((), temporary) = with_new_name(|temporary| folder.link(&self.file, temporary))?;
            self.name = CurrentName::Temporary(temporary);
        }
        if let CurrentName::Temporary(temporary) = &self.name {
            folder.rename(temporary, name)?;
        }
        self.name = CurrentName::Own;
        Ok(())
    }

    /// Gives the file the first free one of `names`, in the folder of its destination, and returns that name. The file can still be
    /// written.
    ///
    /// # Errors
    /// Those of `linkat(2)`; `EEXIST` if no name is free.
    pub fn take_new_name(&mut self, names: impl Iterator<Item = CString>) -> io::Result<CString> {
        let Some(destination) = &mut self.destination else { return Err(io::ErrorKind::NotFound.into()) };
        let folder = &destination.folder;
        for name in names {
            let linked = match (folder.link(&self.file, &name), &self.name) {
                // On failure, the temporary name remains: it says what the file is for.
                (Ok(()), CurrentName::Temporary(temporary)) => {
                    let _ = folder.remove(temporary);
                    Ok(())
                }
                // On file systems without hard links, reserve the name with an empty file and replace that.
                (Err(error), CurrentName::Temporary(temporary))
                    if error.kind() != io::ErrorKind::AlreadyExists =>
                {
                    folder.create_new(&name, 0o600).and_then(|_| {
                        let renamed = folder.rename(temporary, &name);
                        renamed.inspect_err(|_| drop(folder.remove(&name)))
                    })
                }
                (linked, _) => linked,
            };
            match linked {
                Ok(()) => {
                    (self.name, destination.name) = (CurrentName::Own, name.clone());
                    return Ok(name);
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    /// Checks whether [`NewFile::take_name_keeping_old`] would succeed now.
    ///
    /// # Errors
    /// `EISDIR` if `NAME.old` is a directory, `EPERM` if an older file of that name belongs to another user and must not be renamed.
    pub fn may_take_name_keeping_old(&self) -> io::Result<()> {
        let Some(NameInFolder { folder, name }) = &self.destination else { return Ok(()) };
        let old = old_name(name)?;
        if folder.look_at(&old).and_then(|old| old.metadata()).is_ok_and(|old| old.is_dir()) {
            let text =
                format!("{} is a directory, and cannot become the older recording", old.to_string_lossy());
            return Err(io::Error::new(io::ErrorKind::IsADirectory, text));
        }
        if let Ok(older) = folder.look_at(name) {
            let (older, folder) = (older.metadata()?, folder.metadata()?);
            // In a sticky directory, only the owner of the file or directory, and root, may rename it (rename(2)).
            let own = system::effective_user();
            let may = own == 0 || older.uid() == own || folder.uid() == own;
            if folder.mode() & libc::S_ISVTX != 0 && !may {
                return Err(io::Error::from_raw_os_error(libc::EPERM));
            }
        }
        Ok(())
    }

    /// Gives the file its name while it is still being written. An older file of that name becomes `NAME.old`.
    ///
    /// # Errors
    /// Those of `renameat(2)` and `linkat(2)`; the older file then keeps its name.
    pub fn take_name_keeping_old(&mut self) -> io::Result<()> {
        let Some(NameInFolder { folder, name }) = &self.destination else { return Ok(()) };
        if let CurrentName::Own = self.name {
            return Ok(());
        }
        let old = old_name(name)?;
        let had_one = match folder.rename(name, &old) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            result => result.is_ok(),
        };
        let named = match &self.name {
            CurrentName::Temporary(temporary) => folder.rename(temporary, name),
            _ => folder.link(&self.file, name),
        };
        let named = match named {
            Ok(()) => {
                self.name = CurrentName::Own;
                return Ok(());
            }
            // Another process has created the name meanwhile, or name and `NAME.old` are hard links of one file, which rename(2)
            // leaves alone.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => self.replace(),
            Err(error) => Err(error),
        };
        if let (Err(_), true, Some(NameInFolder { folder, name })) = (&named, had_one, &self.destination) {
            // The first error is reported, not that of the cleanup.
            let _ = folder.rename(&old, name);
        }
        named
    }

    /// Returns true if the file got its name and was deleted since.
    pub fn is_deleted(&self) -> bool {
        matches!(self.name, CurrentName::Own) && self.file.metadata().is_ok_and(|file| file.nlink() == 0)
    }

    /// Returns the open file.
    pub fn file(&self) -> &File {
        &self.file
    }
}

impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Seek for NewFile {
    fn seek(&mut self, position: SeekFrom) -> io::Result<u64> {
        self.file.seek(position)
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if let (CurrentName::Temporary(temporary), Some(NameInFolder { folder, .. })) =
            (&self.name, &self.destination)
        {
            // On failure, the temporary name remains: it says what the file is for.
            let _ = folder.remove(temporary);
        }
    }
}

fn old_name(name: &CStr) -> io::Result<CString> {
    Ok(CString::new([name.to_bytes(), b".old"].concat())?)
}

/// Number of random names to try. Nobody can guess them, so the first one is free except by accident.
const MAX_ATTEMPTS: u32 = 16;

/// Calls `attempt` with random names until it does not fail with `EEXIST`. Returns its result and the name.
fn with_new_name<T>(mut attempt: impl FnMut(&CStr) -> io::Result<T>) -> io::Result<(T, CString)> {
    let mut last_error = io::Error::from(io::ErrorKind::AlreadyExists);
    for number in 0..MAX_ATTEMPTS {
        // The keys of the hasher are random (getrandom(2)).
        let name = CString::new(format!(".prof.{:016x}.tmp", RandomState::new().hash_one(number)))?;
        match attempt(&name) {
            Ok(value) => return Ok((value, name)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => last_error = error,
            Err(error) => return Err(error),
        }
    }
    Err(last_error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn replaces_a_link_instead_of_following_it() {
        let folder = tempfile::tempdir().unwrap();
        let (victim, link) = (folder.path().join("victim"), folder.path().join("out.svg"));
        fs::write(&victim, "precious").unwrap();
        symlink(&victim, &link).unwrap();
        let mut new = NewFile::create_at(&link, 0o600).unwrap();
        new.write_all(b"result").unwrap();
        new.persist().unwrap();
        assert_eq!(fs::read(&victim).unwrap(), b"precious");
        assert_eq!(fs::read(&link).unwrap(), b"result");
        assert!(fs::symlink_metadata(&link).unwrap().is_file());
    }

    /// With a file that has no name at first, and one that has a temporary name.
    fn both_ways(test: impl Fn(&Path, fn(&Path) -> NewFile)) {
        let temporary =
            |path: &Path| NewFile::create_temporary(NameInFolder::find(path).unwrap(), 0o600).unwrap();
        for create in [|path: &Path| NewFile::create_at(path, 0o600).unwrap(), temporary] {
            let folder = tempfile::tempdir().unwrap();
            test(&folder.path().join("out.svg"), create);
        }
    }

    fn files_beside(path: &Path) -> usize {
        fs::read_dir(path.parent().unwrap()).unwrap().count()
    }

    #[test]
    fn an_abandoned_file_leaves_nothing() {
        both_ways(|path, create| {
            fs::write(path, "old").unwrap();
            drop(create(path));
            assert_eq!(fs::read(path).unwrap(), b"old");
            assert_eq!(files_beside(path), 1);
        });
    }

    #[test]
    fn a_file_that_is_not_done_cannot_be_seen() {
        let folder = tempfile::tempdir().unwrap();
        let new = NewFile::create_at(&folder.path().join("out.svg"), 0o600).unwrap();
        if matches!(new.name, CurrentName::None) {
            assert_eq!(files_beside(&folder.path().join("out.svg")), 0);
        }
    }

    #[test]
    fn a_name_that_cannot_be_taken_leaves_the_older_file() {
        both_ways(|path, create| {
            fs::write(path, "precious").unwrap();
            let mut new = create(path);
            fs::create_dir(path.with_extension("svg.old")).unwrap();
            assert_eq!(new.may_take_name_keeping_old().unwrap_err().kind(), io::ErrorKind::IsADirectory);
            assert!(new.take_name_keeping_old().is_err());
            assert_eq!(fs::read(path).unwrap(), b"precious");
        });
    }

    #[test]
    fn a_deleted_file_is_noticed() {
        both_ways(|path, create| {
            let mut new = create(path);
            assert!(!new.is_deleted());
            new.take_name_keeping_old().unwrap();
            assert!(!new.is_deleted());
            fs::remove_dir_all(path.parent().unwrap()).unwrap();
            assert!(new.is_deleted());
        });
    }

    #[test]
    fn a_recording_keeps_the_one_before() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("prof.data");
        for content in ["first", "second", "third"] {
            let mut new = NewFile::create_at(&path, 0o600).unwrap();
            new.take_name_keeping_old().unwrap();
            new.write_all(content.as_bytes()).unwrap();
        }
        assert_eq!(fs::read(&path).unwrap(), b"third");
        assert_eq!(fs::read(folder.path().join("prof.data.old")).unwrap(), b"second");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }

    #[test]
    fn names_that_others_use_meanwhile_are_replaced() {
        both_ways(|path, create| {
            let old = path.with_extension("svg.old");
            fs::write(path, "one file").unwrap();
            fs::hard_link(path, &old).unwrap();
            let mut new = create(path);
            new.take_name_keeping_old().unwrap();
            new.write_all(b"result").unwrap();
            assert_eq!(fs::read(path).unwrap(), b"result");
            assert_eq!(fs::read(&old).unwrap(), b"one file");
            assert_eq!(files_beside(path), 2);
        });
    }

    #[test]
    fn a_folder_that_is_exchanged_keeps_what_began_in_it() {
        both_ways(|path, create| {
            let folder = path.parent().unwrap().join("folder");
            let (moved, elsewhere) = (folder.with_extension("moved"), folder.with_extension("elsewhere"));
            fs::create_dir(&folder).unwrap();
            fs::create_dir(&elsewhere).unwrap();
            let mut new = create(&folder.join("out.svg"));
            fs::rename(&folder, &moved).unwrap();
            symlink(&elsewhere, &folder).unwrap();
            new.write_all(b"result").unwrap();
            new.persist().unwrap();
            assert_eq!(fs::read(moved.join("out.svg")).unwrap(), b"result");
            assert_eq!(fs::read_dir(elsewhere).unwrap().count(), 0);
        });
    }

    #[test]
    fn an_unseen_file_is_nowhere() {
        let folder = tempfile::tempdir().unwrap();
        let mut new = NewFile::create_nameless(folder.path()).unwrap();
        new.write_all(b"recording").unwrap();
        new.take_name_keeping_old().unwrap();
        assert!(!new.is_deleted());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
