//! Why a recording cannot be read.

use std::io;

use decoder::DecodeError;
use thiserror::Error;

use crate::read::other_formats;

/// The reason why a recording, or one of its parts, is unreadable. Offsets count from the start of the file, or of
/// the part where one is named.
#[derive(Error, Debug)]
#[non_exhaustive]
pub enum Error {
    /// The source failed.
    #[error("reading {len} bytes at offset {offset:#x} failed: {source}")]
    Io {
        /// The offset that was read at.
        offset: u64,
        /// The number of bytes that were to be read.
        len: u64,
        /// The error of the source.
        source: io::Error,
    },
    /// Nothing at all.
    #[error("the file is empty")]
    Empty,
    /// The first eight bytes are those of something else.
    #[error("not a perf.data file: it looks like {}", other_formats::looks_like(found))]
    Magic {
        /// The first bytes, as many as tell what it is.
        found: Vec<u8>,
    },
    /// perf of Linux 2.6.31 to 2.6.35.
    #[error("a perf.data file of version 1 (magic \"PERFFILE\", Linux 2.6) is not supported")]
    Version1,
    /// A size, offset or count that cannot be.
    #[error("{section}: {field} at offset {offset:#x} is {value:#x}, {expected}")]
    Field {
        /// The part of the file.
        section: &'static str,
        /// The field.
        field: &'static str,
        /// The offset of the field in its part.
        offset: u64,
        /// Its value.
        value: u64,
        /// The values that would be right.
        expected: &'static str,
    },
    /// An entry of the table behind the records that says where features lie.
    #[error("feature table: {feature}'s {field} at offset {offset:#x} of the file is {value:#x}, {expected}")]
    FeatureTable {
        /// The feature (`BUILD_ID`), or its number.
        feature: String,
        /// `offset` or `size`.
        field: &'static str,
        /// The offset of the field in the file.
        offset: u64,
        /// Its value.
        value: u64,
        /// The values that would be right.
        expected: &'static str,
    },
    /// The part ends before a field does.
    #[error("{section}: {field} at offset {offset:#x} needs {needed} bytes, only {available} are left")]
    Cut {
        /// The part of the file.
        section: &'static str,
        /// The field.
        field: &'static str,
        /// The offset of the field.
        offset: u64,
        /// The length of the field.
        needed: u64,
        /// The number of bytes that are left.
        available: u64,
    },
    /// An attr.
    #[error("{section}, event {index}: {source}")]
    Attr {
        /// The part of the file.
        section: &'static str,
        /// The position of the event.
        index: usize,
        /// The error in its attr.
        source: DecodeError,
    },
    /// No event is described, so no sample can be decoded.
    #[error("the recording describes no event")]
    NoEvents,
    /// zstd could not go on.
    #[error("compressed records: {what}")]
    Compressed {
        /// The decompressor's error.
        what: String,
    },
}
