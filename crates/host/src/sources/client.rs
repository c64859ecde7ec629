//! The side that asks for source files.

use std::io;
use std::path::Path;
use std::sync::Arc;

use super::{MAX_SOURCE_BYTES, TIMEOUT};
use crate::helper_process;
use crate::slow_files::{Connection, MAX_READ_BYTES, Patience, WaitingTime};

/// The reason why a source file is not shown.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum SourceError {
    /// There is no such file.
    Missing,
    /// A user who answers for a file that names it may not read it.
    Forbidden,
    /// It is not a regular file on a file system of files with that name.
    NotASource,
    /// Its file system did not answer in time.
    NoAnswer,
    /// The files read before have all the room.
    NoRoom,
}

/// A process that opens and reads source files for this one.
#[derive(Debug)]
pub struct SourceHelper(Arc<Connection>);

impl SourceHelper {
    /// Starts this program again with the words `command`, which must make it call [`crate::slow_files::serve`] with its standard input.
    ///
    /// # Errors
    /// The process or its socket cannot be created.
    pub fn start(command: &[&str]) -> io::Result<Self> {
        let (socket, _) = helper_process::start(command)?;
        let patience = Patience { answer: TIMEOUT, total: TIMEOUT };
        Ok(Self(Arc::new(Connection::new(socket, Arc::new(WaitingTime::new(patience))))))
    }

    /// Reads a source file. `users` answer for the files that name it, and must all be able to read it, which counts for root.
    ///
    /// # Errors
    /// Why the file is not shown.
    pub fn read(&self, users: &[u32], path: &Path) -> Result<Vec<u8>, SourceError> {
        self.read_bytes(users, path).map_err(|error| SourceError::from(&error))
    }

    fn read_bytes(&self, users: &[u32], path: &Path) -> io::Result<Vec<u8>> {
        let file = self.0.open_source(users, path)?;
        let mut bytes = Vec::new();
        while bytes.len() < MAX_SOURCE_BYTES {
            let known = bytes.len();
            bytes.resize(known + MAX_READ_BYTES, 0);
            let read = file.read_at(&mut bytes[known..], known as u64)?;
            bytes.truncate(known + read);
            if read == 0 {
                break;
            }
        }
        Ok(bytes)
    }
}

impl From<&io::Error> for SourceError {
    fn from(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Self::Missing,
            io::ErrorKind::PermissionDenied => Self::Forbidden,
            io::ErrorKind::TimedOut => Self::NoAnswer,
            _ => Self::NotASource,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::identity::NOBODY;
    use crate::sys::system;
    use std::fs::{self, File};
    use std::os::fd::AsFd;
    use std::os::unix::fs::PermissionsExt;

    fn helper(test: &str) -> SourceHelper {
        SourceHelper::start(&["--ignored", "--exact", &format!("sources::client::tests::{test}")]).unwrap()
    }

    /// What the process of the other tests does.
    #[test]
    #[ignore = "serves a socket as standard input"]
    fn serves() {
        let socket = File::from(io::stdin().as_fd().try_clone_to_owned().unwrap());
        crate::slow_files::serve(&socket).unwrap();
    }

    /// A process that does not answer, as one in a call to a file system.
    #[test]
    #[ignore = "waits for ever"]
    fn keeps_silent() {
        loop {
            std::thread::park();
        }
    }

    #[test]
    fn files_come_with_the_rights_of_who_names_them() {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let (open, secret) = (folder.path().join("open.c"), folder.path().join("secret.c"));
        fs::write(&open, "open").unwrap();
        fs::write(&secret, "secret").unwrap();
        fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
        let helper = helper("serves");
        if system::effective_user() != 0 {
            assert_eq!(helper.read(&[NOBODY], &secret).unwrap(), b"secret", "as ourselves");
            return;
        }
        assert_eq!(helper.read(&[0], &secret).unwrap(), b"secret");
        let forbidden = Err(SourceError::Forbidden);
        for users in [&[][..], &[12_345], &[12_345, 0], &[0, 12_345]] {
            assert_eq!(helper.read(users, &secret), forbidden, "{users:?}");
        }
        assert_eq!(helper.read(&[12_345, 0], &open).unwrap(), b"open");
        assert_eq!(helper.read(&[12_345], &folder.path().join("none.c")), Err(SourceError::Missing));
        assert_eq!(helper.read(&[0], &secret).unwrap(), b"secret", "root again");
    }

    #[test]
    fn large_files_come_in_part_and_many_do_come() {
        let folder = tempfile::tempdir().unwrap();
        let large = folder.path().join("large.c");
        File::create(&large).unwrap().set_len(MAX_SOURCE_BYTES as u64 + 1).unwrap();
        let helper = helper("serves");
        assert_eq!(helper.read(&[0], &large).unwrap().len(), MAX_SOURCE_BYTES);
        fs::write(&large, "small").unwrap();
        for _ in 0..100 {
            assert_eq!(helper.read(&[0], &large).unwrap(), b"small");
        }
    }

    #[test]
    fn who_does_not_answer_is_asked_once() {
        let helper = helper("keeps_silent");
        let path = Path::new("/etc/passwd");
        for _ in 0..1000 {
            assert_eq!(helper.read(&[0], path), Err(SourceError::NoAnswer));
        }
    }
}
