//! Where the bytes of jitdumps come from.

use std::fmt;
use std::io::{self, Read, Seek, SeekFrom};
use std::sync::Arc;
use std::time::Duration;

use model::Pid;

/// The interval at which a dump is read on in a live view, or that has no unwind table so far: most such dumps never have one.
pub const READ_INTERVAL: Duration = Duration::from_millis(100);

/// An open jitdump, which its process may still be writing.
pub trait DumpFile: fmt::Debug + Send + Sync {
    /// Returns the number of bytes that the file has now.
    ///
    /// # Errors
    /// Those of the file system.
    fn length(&self) -> io::Result<u64>;

    /// Copies bytes of the file from `offset` on into `into`. Returns the number of bytes copied, 0 at the end of the file.
    ///
    /// # Errors
    /// Those of the file system.
    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize>;
}

/// Opens the jitdumps of processes, and reads them within a limited time: stacks wait to be unwound meanwhile, and a file system may
/// not answer.
pub trait DumpSource: fmt::Debug + Send {
    /// Opens the jitdump that a process has mapped under `path`. Returns `None` where there is none, where the file may be somebody
    /// else's, or where the file system does not answer in time.
    fn open(&mut self, pid: Pid, path: &[u8]) -> Option<Arc<dyn DumpFile>>;

    /// Runs `read`, which reads a file that [`DumpSource::open`] has returned, and waits for its end for a limited time. It may still
    /// run when this function returns, or never have begun.
    fn run(&mut self, read: Box<dyn FnOnce() + Send>);

    /// Returns the time since some moment in the past, by a clock that only goes forward.
    fn now(&self) -> Duration;
}

/// Reads a jitdump from its beginning. Each reader of a file has a position of its own.
#[derive(Debug)]
pub struct DumpReader<'f> {
    file: &'f dyn DumpFile,
    position: u64,
}

impl<'f> DumpReader<'f> {
    /// Creates a reader at the first byte.
    pub fn new(file: &'f dyn DumpFile) -> Self {
        Self { file, position: 0 }
    }
}

impl Read for DumpReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read_at(self.position, buffer)?;
        self.position += count as u64;
        Ok(count)
    }
}

impl Seek for DumpReader<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let (from, by) = match to {
            SeekFrom::Start(position) => (position, 0),
            SeekFrom::Current(by) => (self.position, by),
            SeekFrom::End(by) => (self.file.length()?, by),
        };
        self.position = from.checked_add_signed(by).ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.position)
    }
}
