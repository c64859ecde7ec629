//! The side that asks for source files.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::process::Child;
use std::time::{Duration, Instant};

use super::SourceError;
use super::protocol::{SourceRequest, length_of_answer};
use crate::helper_process::{self, read_until};

/// Maximum time to wait for all files of a listing together. A local disk needs a millisecond for each.
const TOTAL_TIMEOUT: Duration = Duration::from_secs(2);

/// A process that opens and reads source files for this one.
#[derive(Debug)]
pub struct SourceHelper {
    socket: File,
    child: Child,
    /// The time left to wait for it; `None` if it did not answer in time, or has ended.
    left: Option<Duration>,
}

impl SourceHelper {
    /// Starts this program again with the words `command`, which must make it call [`super::serve`] with its standard input.
    ///
    /// # Errors
    /// The process or its socket cannot be created.
    pub fn start(command: &[&str]) -> io::Result<Self> {
        let (socket, child) = helper_process::start(command)?;
        Ok(Self { socket, child, left: Some(TOTAL_TIMEOUT) })
    }

    /// Reads a source file. `users` answer for the files that name it, and must all be able to read it, which counts for root.
    ///
    /// # Errors
    /// Why the file is not shown.
    pub fn read(&mut self, users: &[u32], path: &Path) -> Result<Vec<u8>, SourceError> {
        let timeout = self.left.take().ok_or(SourceError::NoAnswer)?;
        let begin = Instant::now();
        let request = SourceRequest::encode(users, path);
        let answer = match request {
            Some(request) => self.ask(&request, begin + timeout),
            None => Ok(Err(SourceError::NotASource)),
        };
        // Behind an answer that was not read whole, nothing can be made of the next.
        let answer = answer.map_err(|_| SourceError::NoAnswer)?;
        self.left = timeout.checked_sub(begin.elapsed());
        answer
    }

    fn ask(&mut self, request: &[u8], until: Instant) -> io::Result<Result<Vec<u8>, SourceError>> {
        self.socket.write_all(request)?;
        let mut length = [0; 4];
        read_until(&mut self.socket, &mut length, until)?;
        let length = match length_of_answer(u32::from_ne_bytes(length)) {
            Ok(length) => length,
            Err(error) => return Ok(Err(error)),
        };
        let mut bytes = vec![0; length];
        read_until(&mut self.socket, &mut bytes, until)?;
        Ok(Ok(bytes))
    }
}

impl Drop for SourceHelper {
    /// Ends the process, as far as that is possible and permitted: a reader without rights may not, and its parent does.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.try_wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::identity::NOBODY;
    use crate::sys::system;
    use std::fs;
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
        super::super::serve(&socket).unwrap();
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
        let mut helper = helper("serves");
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
        File::create(&large).unwrap().set_len(super::super::MAX_SOURCE_BYTES + 1).unwrap();
        let mut helper = helper("serves");
        assert_eq!(helper.read(&[0], &large).unwrap().len() as u64, super::super::MAX_SOURCE_BYTES);
        fs::write(&large, "small").unwrap();
        for _ in 0..100 {
            assert_eq!(helper.read(&[0], &large).unwrap(), b"small");
        }
    }

    #[test]
    fn who_does_not_answer_is_asked_once() {
        let mut helper = helper("keeps_silent");
        let path = Path::new("/etc/passwd");
        for _ in 0..1000 {
            assert_eq!(helper.read(&[0], path), Err(SourceError::NoAnswer));
        }
    }
}
