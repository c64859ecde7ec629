//! Files on file systems that may not answer: those of other machines and of programs.
//!
//! Who calls such a file system cannot be killed until it answers, be it to open, read or close. So this process opens no file there:
//! a process of its own does ([`serve`]), one for each file system, which is left behind if it does not answer. All other files are
//! opened here. The same goes for the memory of other users' processes (`crate::process_memory`), and for source files, which are opened as the
//! users who may read them (`crate::sources`).

mod connection;
mod door;
mod patience;
mod protocol;
mod registry;
mod server;

pub(crate) use connection::Connection;
pub use connection::SlowFile;
pub(crate) use door::{ask, ask_for, follow_link, open, real_path};
pub use patience::Patience;
pub(crate) use patience::WaitingTime;
pub use protocol::FileFacts;
pub(crate) use protocol::{MAX_RANGES, MAX_READ_BYTES};
pub(crate) use registry::{MemoryReader, memory_reader, process_reader};
pub use registry::{
    SilentFileSystem, ask_for_memory, enable, prepare, silent_file_systems, silent_processes,
};
pub use server::serve;

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};

/// A regular file that is open for reading.
#[derive(Debug)]
pub enum OpenFile {
    /// This process has it open.
    Here(File),
    /// Another process has it open.
    There(SlowFile),
}

impl OpenFile {
    /// Returns its metadata; of a file there, as they were when it was opened.
    ///
    /// # Errors
    /// Those of `fstat(2)`.
    pub fn facts(&self) -> io::Result<FileFacts> {
        match self {
            Self::Here(file) => file.metadata().map(|metadata| FileFacts::from(&metadata)),
            Self::There(file) => Ok(file.facts()),
        }
    }

    /// Returns the size that the file has now.
    ///
    /// # Errors
    /// Those of `fstat(2)`; `TimedOut` if the file system does not answer.
    pub fn current_size(&self) -> io::Result<u64> {
        match self {
            Self::Here(file) => Ok(file.metadata()?.len()),
            Self::There(file) => file.current_size(),
        }
    }

    /// Reads from an offset, and returns the number of bytes: 0 at the end of the file.
    ///
    /// # Errors
    /// Those of `pread(2)`; `TimedOut` if the file system does not answer.
    pub fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        match self {
            Self::Here(file) => file.read_at(into, offset),
            Self::There(file) => file.read_at(into, offset),
        }
    }
}

impl From<&std::fs::Metadata> for FileFacts {
    fn from(metadata: &std::fs::Metadata) -> Self {
        let nanoseconds =
            |seconds: i64, rest: i64| seconds.saturating_mul(1_000_000_000).saturating_add(rest);
        Self {
            handle: 0,
            size: metadata.len(),
            device: metadata.dev(),
            inode: metadata.ino(),
            blocks: metadata.blocks(),
            links: metadata.nlink(),
            owner: metadata.uid(),
            mode: metadata.mode(),
            modified: nanoseconds(metadata.mtime(), metadata.mtime_nsec()),
            changed: nanoseconds(metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}
