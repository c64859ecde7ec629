//! What became of a file that was asked for while a recording goes on.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// A report that a file of a series was written, or could not be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DumpReport {
    /// Those who asked for it ([`crate::RecordingSink::request_dump`]).
    pub tickets: Vec<u64>,
    /// The file, or why there is none.
    pub outcome: Result<Dump, DumpFailure>,
}

/// A file that was written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Dump {
    /// Its path.
    pub path: PathBuf,
    /// Bytes.
    pub size: u64,
    /// Samples in it.
    pub samples: u64,
    /// From the first sample to the last.
    pub span: Duration,
    /// From the moment that it stands for until it was whole.
    pub took: Duration,
    /// True if the bytes of the window had no room for all of its time.
    pub is_short: bool,
    /// The error of removing older files.
    pub not_removed: Option<String>,
    /// The reason why it was not completed ([`crate::FileCompletion`]).
    pub incomplete: Option<String>,
}

/// The reason why a file was not written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DumpFailure {
    /// Its path, without the time.
    pub path: PathBuf,
    /// The kind of the system's error.
    pub kind: io::ErrorKind,
    /// In words.
    pub why: String,
}
