//! Creating result files: never through a symbolic link, visible only when whole, owned by whoever asked.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, fchown};
use std::path::{Path, PathBuf};

use crate::sys::nameless;

/// A file that is written without a name and takes its destination's when it is done ([`NewFile::persist`]) or worth
/// keeping ([`NewFile::take_name_keeping_old`]). Dropped before that, or killed, it leaves nothing behind and an older
/// file of that name untouched.
///
/// Where the file system knows no nameless files (`O_TMPFILE`), it has a temporary name beside its destination; killed,
/// it then leaves that behind. A destination that is no regular file (`/dev/stdout`, `/dev/null`, a named pipe) is
/// written directly: a rename would replace it.
#[derive(Debug)]
pub struct NewFile {
    file: File,
    destination: PathBuf,
    name: CurrentName,
}

/// What a new file is called now.
#[derive(Debug)]
enum CurrentName {
    None,
    Temporary(PathBuf),
    /// The destination's.
    Own,
}

impl NewFile {
    /// Creates the file with `mode` (less the umask), owned by the user who called `sudo`, if so.
    ///
    /// # Errors
    /// Those of `open(2)`; "is a directory" where the destination is one.
    pub fn create(destination: &Path, mode: u32) -> io::Result<Self> {
        let destination = destination.to_owned();
        match fs::metadata(&destination) {
            Ok(existing) if existing.is_dir() => return Err(io::Error::from(io::ErrorKind::IsADirectory)),
            Ok(existing) if !existing.is_file() => {
                let file = OpenOptions::new().write(true).open(&destination)?;
                return Ok(Self { file, destination, name: CurrentName::Own });
            }
            _ => {}
        }
        let folder = match destination.parent() {
            Some(folder) if folder != Path::new("") => folder,
            _ => Path::new("."),
        };
        let new = match nameless::create(folder, mode) {
            Ok(file) => Self { file, destination, name: CurrentName::None },
            Err(_) => Self::create_temporary(destination, mode)?,
        };
        give_to_sudo_user(&new.file)?;
        Ok(new)
    }

    fn create_temporary(destination: PathBuf, mode: u32) -> io::Result<Self> {
        let temporary = temporary_name(&destination);
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true) // O_EXCL: never follows a link that somebody put there first.
            .mode(mode)
            .open(&temporary)?;
        Ok(Self { file, destination, name: CurrentName::Temporary(temporary) })
    }

    /// Gives the file its name, replacing an older file (or link) of that name.
    ///
    /// # Errors
    /// Those of `linkat(2)` and `rename(2)`.
    pub fn persist(mut self) -> io::Result<()> {
        if let CurrentName::None = self.name {
            // A link replaces nothing: only a rename does.
            let temporary = temporary_name(&self.destination);
            nameless::link(&self.file, &temporary)?;
            self.name = CurrentName::Temporary(temporary);
        }
        if let CurrentName::Temporary(temporary) = &self.name {
            fs::rename(temporary, &self.destination)?;
        }
        self.name = CurrentName::Own;
        Ok(())
    }

    /// Gives the file its name while it is written on; an older file of that name becomes `NAME.old`.
    ///
    /// # Errors
    /// Those of `rename(2)` and `linkat(2)`; the older file then has its name again.
    pub fn take_name_keeping_old(&mut self) -> io::Result<()> {
        if let CurrentName::Own = self.name {
            return Ok(());
        }
        let mut old = self.destination.clone().into_os_string();
        old.push(".old");
        let had_one = match fs::rename(&self.destination, &old) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            result => result.is_ok(),
        };
        let named = match &self.name {
            CurrentName::Temporary(temporary) => fs::rename(temporary, &self.destination),
            _ => nameless::link(&self.file, &self.destination),
        };
        if named.is_err() && had_one {
            // Its failure is not what went wrong.
            let _ = fs::rename(&old, &self.destination);
        }
        named?;
        self.name = CurrentName::Own;
        Ok(())
    }

    /// Whether the file, which had taken its name, has been deleted since: what is written has no reader any more.
    pub fn is_deleted(&self) -> bool {
        matches!(self.name, CurrentName::Own) && self.file.metadata().is_ok_and(|file| file.nlink() == 0)
    }

    /// The open file, for those who need more than `Write`.
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
        if let CurrentName::Temporary(temporary) = &self.name {
            // Nothing can be done about a failure here, and the name says what the file is.
            let _ = fs::remove_file(temporary);
        }
    }
}

fn temporary_name(destination: &Path) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(destination.file_name().unwrap_or(OsStr::new("prof")));
    name.push(format!(".{}.tmp", std::process::id()));
    destination.with_file_name(name)
}

/// Under `sudo`, results belong to the user who typed the command: root's own file would be in their way.
///
/// # Errors
/// Those of `fchown(2)`, but for a file system that knows no owners.
pub fn give_to_sudo_user(file: &File) -> io::Result<()> {
    let id = |name| std::env::var(name).ok().and_then(|text| text.parse::<u32>().ok());
    let (Some(uid), Some(gid)) = (id("SUDO_UID"), id("SUDO_GID")) else { return Ok(()) };
    match fchown(file, Some(uid), Some(gid)) {
        // Only root can give files away; anyone else merely has the variables in their environment.
        Err(error)
            if matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::Unsupported) =>
        {
            Ok(())
        }
        result => result,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn replaces_a_link_instead_of_following_it() {
        let folder = tempfile::tempdir().unwrap();
        let (victim, link) = (folder.path().join("victim"), folder.path().join("out.svg"));
        fs::write(&victim, "precious").unwrap();
        symlink(&victim, &link).unwrap();
        let mut new = NewFile::create(&link, 0o600).unwrap();
        new.write_all(b"result").unwrap();
        new.persist().unwrap();
        assert_eq!(fs::read(&victim).unwrap(), b"precious");
        assert_eq!(fs::read(&link).unwrap(), b"result");
        assert!(fs::symlink_metadata(&link).unwrap().is_file());
    }

    /// With a file that has no name at first, and one that has a temporary name.
    fn both_ways(test: impl Fn(&Path, fn(&Path) -> NewFile)) {
        let temporary = |path: &Path| NewFile::create_temporary(path.to_owned(), 0o600).unwrap();
        for create in [|path: &Path| NewFile::create(path, 0o600).unwrap(), temporary] {
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
        let new = NewFile::create(&folder.path().join("out.svg"), 0o600).unwrap();
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
            let mut new = NewFile::create(&path, 0o600).unwrap();
            new.take_name_keeping_old().unwrap();
            new.write_all(content.as_bytes()).unwrap();
        }
        assert_eq!(fs::read(&path).unwrap(), b"third");
        assert_eq!(fs::read(folder.path().join("prof.data.old")).unwrap(), b"second");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }

    #[test]
    fn devices_are_written_not_replaced() {
        let mut null = NewFile::create(Path::new("/dev/null"), 0o600).unwrap();
        null.write_all(b"gone").unwrap();
        null.persist().unwrap();
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
    }
}
