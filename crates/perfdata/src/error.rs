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
        /// Where.
        offset: u64,
        /// How much.
        len: u64,
        /// Why.
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
    #[error(
        "a perf.data file of version 1 (magic \"PERFFILE\"), which nothing newer than Linux 2.6 writes, is not supported"
    )]
    Version1,
    /// A size, offset or count that cannot be.
    #[error("{section}: {field} at offset {offset:#x} is {value:#x}, {expected}")]
    Field {
        /// Which part of the file.
        section: &'static str,
        /// The field.
        field: &'static str,
        /// Where it lies.
        offset: u64,
        /// Its value.
        value: u64,
        /// What would be right.
        expected: &'static str,
    },
    /// An entry of the table behind the records that says where features lie.
    #[error("feature table: {feature}'s {field} at offset {offset:#x} of the file is {value:#x}, {expected}")]
    FeatureTable {
        /// The feature (`BUILD_ID`), or its number.
        feature: String,
        /// `offset` or `size`.
        field: &'static str,
        /// Where in the file it lies.
        offset: u64,
        /// Its value.
        value: u64,
        /// What would be right.
        expected: &'static str,
    },
    /// The part ends before a field does.
    #[error("{section}: {field} at offset {offset:#x} needs {needed} bytes, only {available} are left")]
    Cut {
        /// Which part of the file.
        section: &'static str,
        /// The field.
        field: &'static str,
        /// Where it begins.
        offset: u64,
        /// How long it is.
        needed: u64,
        /// What is left.
        available: u64,
    },
    /// An attr.
    #[error("{section}, event {index}: {source}")]
    Attr {
        /// Which part of the file.
        section: &'static str,
        /// Which event.
        index: usize,
        /// What is wrong.
        source: DecodeError,
    },
    /// No event is described, so no sample can be decoded.
    #[error("the recording describes no event")]
    NoEvents,
    /// zstd could not go on.
    #[error("compressed records: {what}")]
    Compressed {
        /// What is wrong.
        what: String,
    },
}
