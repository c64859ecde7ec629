//! What a reader should be told about a recording that is read nevertheless.

use std::fmt;

use crate::error::Error;

/// Something that is not as it should be, and what was done about it.
#[derive(Debug)]
#[non_exhaustive]
pub enum Notice {
    /// The recorder did not end: read to the last whole record; there are no feature sections.
    NeverFinished,
    /// The header promises more than the file has: read to the end of the file.
    DataCut {
        /// The offset at which the records should end.
        stated: u64,
        /// The offset at which the file ends.
        actual: u64,
    },
    /// A part is damaged, and left out.
    Skipped(Error),
    /// A record is damaged, and left out.
    Record {
        /// The offset of the record in the file; `None` out of a pipe, or out of compressed pieces.
        offset: Option<u64>,
        /// The error in the record; offsets count from its start, behind the header.
        error: Error,
    },
    /// The records of a file, or of the stream, end early.
    Stopped {
        /// Offset of the first byte that was not read as a record.
        offset: u64,
        /// The reason why it was not.
        why: String,
    },
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NeverFinished => {
                f.write_str("the recording was never finished: read to its last whole record")
            }
            Self::DataCut { stated, actual } => {
                write!(f, "the file is cut: its records should reach to byte {stated}, it ends at {actual}")
            }
            Self::Skipped(error) => write!(f, "left out: {error}"),
            Self::Record { offset: Some(offset), error } => {
                write!(f, "left out: the record at offset {offset:#x}: {error}")
            }
            Self::Record { offset: None, error } => write!(f, "left out: a record: {error}"),
            Self::Stopped { offset, why } => write!(f, "records end early, at offset {offset:#x}: {why}"),
        }
    }
}
