//! What client and server send each other: numbers of eight bytes in the order of this machine, then bytes.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use model::{Name, Pid};

/// Maximum number of bytes of one read.
pub(crate) const MAX_READ_BYTES: usize = 1 << 20;
/// Maximum number of ranges of memory, or of users, in one request.
pub(crate) const MAX_RANGES: usize = 128;
/// The kinds of requests.
const OPEN: u64 = 1;
const READ: u64 = 2;
const CLOSE: u64 = 3;
const LOOK: u64 = 4;
const MEMORY: u64 = 5;
const LINK: u64 = 6;
const SOURCE: u64 = 7;

/// The metadata of a file.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct FileFacts {
    /// The number of the file in the process that has it open.
    pub(crate) handle: u64,
    /// The size in bytes.
    pub size: u64,
    /// The device of its file system (`st_dev`).
    pub device: u64,
    /// The inode.
    pub inode: u64,
    /// The number of 512-byte units on disk.
    pub blocks: u64,
    /// The number of its names.
    pub links: u64,
    /// The user it belongs to.
    pub owner: u32,
    /// Its type and permissions, as in inode(7).
    pub mode: u32,
    /// The time of the last modification, in nanoseconds since 1970.
    pub modified: i64,
    /// The time of the last change of contents, name or rights, in nanoseconds since 1970.
    pub changed: i64,
}

/// A request. Each has one answer, except [`Request::Close`].
#[derive(PartialEq, Eq, Debug)]
pub(super) enum Request {
    /// Opens the regular file at `path` below `root`; `root` itself for an empty path. Follows a link at the end only with `follow`.
    /// Answer: the facts.
    Open { root: PathBuf, path: PathBuf, follow: bool },
    /// Opens a source file with the rights of these users (`crate::sources`). Answer: the facts.
    Source { users: Vec<u32>, path: PathBuf },
    /// Reads. Answer: the number of bytes, and they.
    Read { handle: u64, offset: u64, length: u64 },
    /// Looks at the file again. Answer: the facts.
    Look { handle: u64 },
    /// Reads ranges of the memory of a process, each an address and a length. Answer: for each the number of bytes that could be read, and
    /// they.
    Memory { pid: Pid, ranges: Vec<(u64, u64)> },
    /// Opens, with `O_PATH`, what a link of `/proc` leads to. Answer: the number of the process that has it open, and that of its
    /// descriptor, which is also the handle by which it is closed.
    Link { path: PathBuf },
    /// Closes.
    Close { handle: u64 },
}

impl Request {
    pub(super) fn encode(&self) -> Vec<u8> {
        let (numbers, paths): ([u64; 4], [&Path; 2]) = match self {
            Self::Open { root, path, follow } => {
                let lengths = [root, path].map(|path| path.as_os_str().len() as u64);
                ([OPEN, lengths[0], lengths[1], (*follow).into()], [root, path])
            }
            Self::Read { handle, offset, length } => ([READ, *handle, *offset, *length], [Path::new(""); 2]),
            Self::Look { handle } => ([LOOK, *handle, 0, 0], [Path::new(""); 2]),
            Self::Memory { pid, ranges } => {
                ([MEMORY, u64::from(pid.0.unsigned_abs()), ranges.len() as u64, 0], [Path::new(""); 2])
            }
            Self::Link { path } => ([LINK, path.as_os_str().len() as u64, 0, 0], [path, Path::new("")]),
            Self::Source { users, path } => {
                ([SOURCE, path.as_os_str().len() as u64, users.len() as u64, 0], [path, Path::new("")])
            }
            Self::Close { handle } => ([CLOSE, *handle, 0, 0], [Path::new(""); 2]),
        };
        let more: Vec<u64> = match self {
            Self::Memory { ranges, .. } => {
                ranges.iter().flat_map(|&(address, length)| [address, length]).collect()
            }
            Self::Source { users, .. } => users.iter().map(|&user| user.into()).collect(),
            _ => Vec::new(),
        };
        let mut bytes: Vec<u8> = numbers.into_iter().chain(more).flat_map(u64::to_ne_bytes).collect();
        paths.iter().for_each(|path| bytes.extend(path.as_os_str().as_bytes()));
        bytes
    }

    /// Reads a request.
    ///
    /// # Errors
    /// `UnexpectedEof` behind the last one, `InvalidData` for one that [`Request::encode`] does not make.
    pub(super) fn read(from: &mut impl Read) -> io::Result<Self> {
        let [kind, first, second, third] = numbers(from)?;
        let path = |from: &mut dyn Read, length: u64| {
            if length > Name::MAX_BYTES as u64 {
                return Err(io::Error::from(io::ErrorKind::InvalidData));
            }
            let mut path = vec![0; length as usize];
            from.read_exact(&mut path)?;
            Ok(PathBuf::from(OsString::from_vec(path)))
        };
        match kind {
            OPEN => {
                let (root, path) = (path(from, first)?, path(from, second)?);
                Ok(Self::Open { root, path, follow: third != 0 })
            }
            READ => Ok(Self::Read { handle: first, offset: second, length: third }),
            LINK => Ok(Self::Link { path: path(from, first)? }),
            LOOK => Ok(Self::Look { handle: first }),
            CLOSE => Ok(Self::Close { handle: first }),
            MEMORY if second <= MAX_RANGES as u64 => {
                let pid = Pid(i32::try_from(first).map_err(io::Error::other)?);
                let ranges = (0..second).map(|_| numbers(from).map(|[address, length]| (address, length)));
                Ok(Self::Memory { pid, ranges: ranges.collect::<io::Result<_>>()? })
            }
            SOURCE if second <= MAX_RANGES as u64 => {
                let user = |[user]: [u64; 1]| u32::try_from(user).map_err(io::Error::other);
                let users = (0..second).map(|_| numbers(from).and_then(user)).collect::<io::Result<_>>()?;
                Ok(Self::Source { users, path: path(from, first)? })
            }
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }
}

/// Reads numbers.
///
/// # Errors
/// Those of `from`.
pub(super) fn numbers<const N: usize>(from: &mut impl Read) -> io::Result<[u64; N]> {
    let mut numbers = [0; N];
    for number in &mut numbers {
        let mut bytes = [0; 8];
        from.read_exact(&mut bytes)?;
        *number = u64::from_ne_bytes(bytes);
    }
    Ok(numbers)
}

/// The length of an answer to [`Request::Link`], in bytes.
pub(super) const LINK_BYTES: usize = 2 * 8;
/// The length of an answer with facts, in bytes.
pub(super) const FACTS_BYTES: usize = 9 * 8;

impl FileFacts {
    pub(super) fn encode(&self) -> Vec<u8> {
        let Self { handle, size, device, inode, blocks, links, owner, mode, modified, changed } = *self;
        let rights = u64::from(owner) << 32 | u64::from(mode);
        let times = [modified, changed].map(i64::cast_unsigned);
        let numbers = [handle, size, device, inode, blocks, links, rights, times[0], times[1]];
        numbers.iter().flat_map(|number| number.to_ne_bytes()).collect()
    }

    pub(super) fn decode(mut bytes: &[u8]) -> io::Result<Self> {
        let [handle, size, device, inode, blocks, links, rights, modified, changed] = numbers(&mut bytes)?;
        let (modified, changed) = (modified.cast_signed(), changed.cast_signed());
        let (owner, mode) = ((rights >> 32) as u32, rights as u32);
        Ok(Self { handle, size, device, inode, blocks, links, owner, mode, modified, changed })
    }
}

/// Appends what could be read of a range of memory.
pub(super) fn encode_range(bytes: &[u8], into: &mut Vec<u8>) {
    into.extend((bytes.len() as u64).to_ne_bytes());
    into.extend(bytes);
}

/// Splits an answer into what could be read of each range.
///
/// # Errors
/// `UnexpectedEof` if it is cut.
pub(super) fn decode_ranges(mut bytes: &[u8]) -> io::Result<Vec<Vec<u8>>> {
    let mut ranges = Vec::new();
    while !bytes.is_empty() {
        let [length] = numbers(&mut bytes)?;
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        let (range, rest) = bytes.split_at_checked(length).ok_or(io::ErrorKind::UnexpectedEof)?;
        ranges.push(range.to_vec());
        bytes = rest;
    }
    Ok(ranges)
}

/// Returns the first numbers of an answer: the errno, 0 for none, and the length of what follows.
pub(super) fn encode_answer(answer: io::Result<Vec<u8>>) -> Vec<u8> {
    let (errno, bytes) = match answer {
        Ok(bytes) => (0, bytes),
        Err(error) => (error.raw_os_error().unwrap_or(libc::EINVAL), Vec::new()),
    };
    let mut answer: Vec<u8> = [errno.unsigned_abs().into(), bytes.len() as u64]
        .iter()
        .flat_map(|number: &u64| number.to_ne_bytes())
        .collect();
    answer.extend(bytes);
    answer
}

/// Returns the length of what follows the first numbers of an answer.
///
/// # Errors
/// The error that they say, or `InvalidData` if more would follow than was asked for.
pub(super) fn length_of_answer(mut head: &[u8], most: usize) -> io::Result<io::Result<usize>> {
    let [errno, length] = numbers(&mut head)?;
    match (i32::try_from(errno), usize::try_from(length)) {
        (Ok(0), Ok(length)) if length <= most => Ok(Ok(length)),
        (Ok(errno), Ok(0)) if errno != 0 => Ok(Err(io::Error::from_raw_os_error(errno))),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_and_facts_are_read_as_written() {
        for request in [
            Request::Open { root: "/proc/1/root".into(), path: "a/b".into(), follow: false },
            Request::Open { root: "/proc/1/exe".into(), path: PathBuf::new(), follow: true },
            Request::Read { handle: 1, offset: u64::MAX, length: 3 },
            Request::Look { handle: 8 },
            Request::Source { users: vec![0, u32::MAX], path: "/a/b.c".into() },
            Request::Memory { pid: Pid(7), ranges: vec![(u64::MAX, 8), (0, 1)] },
            Request::Link { path: "/proc/1/map_files/0-1".into() },
            Request::Close { handle: 7 },
        ] {
            assert_eq!(Request::read(&mut request.encode().as_slice()).unwrap(), request);
        }
        let facts = FileFacts {
            handle: 1,
            size: 2,
            device: 3,
            inode: 4,
            blocks: 5,
            links: 6,
            owner: u32::MAX,
            mode: 0o100_644,
            modified: -6,
            changed: i64::MIN,
        };
        assert_eq!(FileFacts::decode(&facts.encode()).unwrap(), facts);
        assert_eq!(facts.encode().len(), FACTS_BYTES);
    }

    #[test]
    fn ranges_are_read_as_written() {
        let ranges = [b"abc".to_vec(), Vec::new(), vec![0; 300]];
        let mut bytes = Vec::new();
        ranges.iter().for_each(|range| encode_range(range, &mut bytes));
        assert_eq!(decode_ranges(&bytes).unwrap(), ranges);
        assert!(decode_ranges(&bytes[..9]).is_err());
    }

    #[test]
    fn an_answer_is_no_longer_than_asked_for() {
        let head = |answer| encode_answer(answer)[..16].to_vec();
        assert_eq!(length_of_answer(&head(Ok(vec![1, 2])), 2).unwrap().unwrap(), 2);
        assert!(length_of_answer(&head(Ok(vec![1, 2])), 1).is_err());
        let missing = head(Err(io::Error::from_raw_os_error(libc::ENOENT)));
        let error = length_of_answer(&missing, 1).unwrap().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        let mut endless =
            [OPEN, Name::MAX_BYTES as u64 + 1, 0, 0].iter().flat_map(|number| number.to_ne_bytes());
        let endless: Vec<u8> = endless.by_ref().collect();
        assert_eq!(Request::read(&mut &endless[..]).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }
}
