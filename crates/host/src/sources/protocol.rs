//! What client and server send each other: numbers of four bytes in the order of this machine, and bytes.

use std::io::{self, Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use super::MAX_SOURCE_BYTES;

/// Maximum length of a path: `PATH_MAX` of limits.h.
const MAX_PATH_BYTES: usize = 4096;
/// Maximum number of users who must all be able to read a file.
const MAX_USERS: usize = 16;

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

/// A request for a file.
pub(super) struct SourceRequest {
    /// The users who must all be able to read it.
    pub(super) users: Vec<u32>,
    pub(super) path: PathBuf,
}

impl SourceRequest {
    /// Returns the bytes of a request; `None` if it is too long.
    pub(super) fn encode(users: &[u32], path: &Path) -> Option<Vec<u8>> {
        let path = path.as_os_str().as_bytes();
        if users.len() > MAX_USERS || path.len() > MAX_PATH_BYTES {
            return None;
        }
        let mut bytes = Vec::new();
        for number in [users.len() as u32].iter().chain(users).chain([&(path.len() as u32)]) {
            bytes.extend(number.to_ne_bytes());
        }
        bytes.extend(path);
        Some(bytes)
    }

    /// Reads a request.
    ///
    /// # Errors
    /// `UnexpectedEof` behind the last one, `InvalidData` for one that [`SourceRequest::encode`] does not make.
    pub(super) fn read(from: &mut impl Read) -> io::Result<Self> {
        let users = number(from)? as usize;
        let is_bounded =
            |what: usize, most| if what > most { Err(io::ErrorKind::InvalidData) } else { Ok(()) };
        is_bounded(users, MAX_USERS)?;
        let users = (0..users).map(|_| number(from)).collect::<io::Result<_>>()?;
        let length = number(from)? as usize;
        is_bounded(length, MAX_PATH_BYTES)?;
        let mut path = vec![0; length];
        from.read_exact(&mut path)?;
        Ok(Self { users, path: std::ffi::OsString::from_vec(path).into() })
    }
}

/// Writes an answer: the length of the file and its bytes, or the number of an error behind all lengths.
///
/// # Errors
/// Those of `to`.
pub(super) fn write_answer(to: &mut impl Write, answer: &Result<Vec<u8>, SourceError>) -> io::Result<()> {
    match answer {
        Ok(bytes) => {
            to.write_all(&(bytes.len() as u32).to_ne_bytes())?;
            to.write_all(bytes)
        }
        Err(error) => to.write_all(&(u32::MAX - *error as u32).to_ne_bytes()),
    }
}

/// Reads the first number of an answer: the length of the file.
///
/// # Errors
/// The error that it stands for.
pub(super) fn length_of_answer(number: u32) -> Result<usize, SourceError> {
    if u64::from(number) <= MAX_SOURCE_BYTES {
        return Ok(number as usize);
    }
    let errors = [SourceError::Missing, SourceError::Forbidden, SourceError::NotASource];
    Err(errors.into_iter().find(|error| u32::MAX - *error as u32 == number).unwrap_or(SourceError::NoAnswer))
}

fn number(from: &mut impl Read) -> io::Result<u32> {
    let mut bytes = [0; 4];
    from.read_exact(&mut bytes)?;
    Ok(u32::from_ne_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_and_answers_are_read_as_they_were_written() {
        let bytes = SourceRequest::encode(&[0, 7], Path::new("/a/b.c")).unwrap();
        let request = SourceRequest::read(&mut &*bytes).unwrap();
        assert_eq!((request.users, request.path), (vec![0, 7], PathBuf::from("/a/b.c")));
        for length in 0..bytes.len() {
            assert!(SourceRequest::read(&mut &bytes[..length]).is_err());
        }
        assert!(SourceRequest::read(&mut [0xff; 64].as_slice()).is_err());
        assert!(SourceRequest::encode(&[0; MAX_USERS + 1], Path::new("/a")).is_none());
        assert!(SourceRequest::encode(&[], Path::new(&"x".repeat(MAX_PATH_BYTES + 1))).is_none());
        let errors =
            [SourceError::Missing, SourceError::Forbidden, SourceError::NotASource, SourceError::NoAnswer];
        for error in errors {
            let mut bytes = Vec::new();
            write_answer(&mut bytes, &Err(error)).unwrap();
            assert_eq!(length_of_answer(number(&mut &*bytes).unwrap()), Err(error));
        }
        assert_eq!(length_of_answer(7), Ok(7));
    }
}
