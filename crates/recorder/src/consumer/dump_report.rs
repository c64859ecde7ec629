//! The outcome of a file that was requested while a recording runs.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// The outcome of one requested file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DumpReport {
    /// The tickets of the requests that this file serves ([`crate::RecordingSink::request_dump`]).
    pub tickets: Vec<u64>,
    /// The file, or why it was not written.
    pub outcome: Result<Dump, DumpFailure>,
}

/// A file that was written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Dump {
    /// Path of the file.
    pub path: PathBuf,
    /// Size in bytes.
    pub size: u64,
    /// Number of samples in the file.
    pub samples: u64,
    /// The time from the first sample to the last.
    pub span: Duration,
    /// The time from the request until the file was complete.
    pub took: Duration,
    /// True if the window's limit in bytes left out records that its limit in time includes.
    pub is_short: bool,
    /// The reason why the oldest file of the series could not be removed, if so.
    pub not_removed: Option<String>,
    /// The reason why names could not be added to it, if so ([`crate::FileCompletion`]).
    pub incomplete: Option<String>,
}

/// The reason why a file was not written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DumpFailure {
    /// Path of the series, without a time.
    pub path: PathBuf,
    /// The kind of the system's error.
    pub kind: io::ErrorKind,
    /// The error in words.
    pub why: String,
}
