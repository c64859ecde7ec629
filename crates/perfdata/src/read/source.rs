//! Where the bytes come from.

use std::fmt;
use std::io::{self, Read};

/// Bytes that can be read at any place: a file.
///
/// Reading is by copy, not by mapping: a file that is cut while it is read gives fewer bytes, not a signal.
pub trait ReadAt: Send {
    /// Copies bytes from `offset` on into `buffer`, and says how many; 0 at the end.
    ///
    /// # Errors
    /// Those of the file.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;

    /// The number of bytes.
    ///
    /// # Errors
    /// Those of the file.
    fn len(&self) -> io::Result<u64>;

    /// Returns true if there is none.
    ///
    /// # Errors
    /// Those of the file.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
}

impl ReadAt for Vec<u8> {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut rest = usize::try_from(offset).ok().and_then(|offset| self.get(offset..)).unwrap_or(&[]);
        rest.read(buffer)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(Vec::len(self) as u64)
    }
}

/// A recording's bytes.
pub enum Source {
    /// A file. Its contents may have the shape of a file or of a pipe.
    File(Box<dyn ReadAt>),
    /// A stream that cannot be read twice: a pipe.
    Stream(Box<dyn Read + Send>),
    /// A folder that `perf record --threads` wrote: its `data`, and its `data.0`, `data.1`, … in the order of their
    /// numbers.
    Directory {
        /// The file with the header.
        data: Box<dyn ReadAt>,
        /// The files with the threads' records.
        parts: Vec<Box<dyn ReadAt>>,
    },
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::File(_) => "File",
            Self::Stream(_) => "Stream",
            Self::Directory { .. } => "Directory",
        })
    }
}

/// As many bytes as there are, up to the length of `buffer`.
pub(super) fn read_full(file: &dyn ReadAt, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut filled = 0;
    while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match file.read_at(rest, offset.saturating_add(filled as u64)) {
            Ok(0) => break,
            Ok(count) => filled += count.min(rest.len()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}
