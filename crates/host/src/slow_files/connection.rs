//! The side that asks a process to open and read files.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use super::patience::WaitingTime;
use model::{Name, Pid};

use super::protocol::{
    FACTS_BYTES, FileFacts, LINK_BYTES, MAX_RANGES, MAX_READ_BYTES, Request, decode_ranges, length_of_answer,
    numbers,
};
use crate::helper_process::read_until;
use crate::in_root::open_path;
use crate::sys::poll::PollSet;

/// A connection to a process that serves one file system.
#[derive(Debug)]
pub(crate) struct Connection {
    /// `None` if nothing more can come.
    socket: Mutex<Option<Socket>>,
    waiting: Arc<WaitingTime>,
}

/// The end of a socket, which does not block.
#[derive(Debug)]
struct Socket {
    file: File,
    /// The last request, if its answer did not begin in time: nobody waits for it any more.
    owed: Option<Owed>,
}

/// A request without an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Owed {
    /// The answer opens a file.
    File,
    /// The answer opens what a link leads to.
    Link,
    /// The answer leaves nothing behind.
    Bytes,
}

/// A file that another process has open. Dropping it closes it there, without waiting.
#[derive(Debug)]
pub struct SlowFile {
    connection: Arc<Connection>,
    facts: FileFacts,
}

impl Connection {
    /// Makes a connection of the end of a socket, which must not block. `waiting` is shared by all connections.
    pub(crate) fn new(socket: File, waiting: Arc<WaitingTime>) -> Self {
        Self { socket: Mutex::new(Some(Socket { file: socket, owed: None })), waiting }
    }

    /// Makes a connection as [`Connection::new`], and waits until the other process answers at all: on a busy machine, its start takes
    /// longer than any answer.
    pub(super) fn to_started(socket: File, waiting: Arc<WaitingTime>) -> Arc<Self> {
        let until = Instant::now() + waiting.patience.total;
        let connection = Self::new(socket, waiting);
        if let Some(socket) = connection.lock().as_mut() {
            // Whatever it says to a handle that it never gave, or if it says nothing: the next request tells.
            let _ = socket.exchange(&Request::Look { handle: 0 }, &mut [], until);
        }
        Arc::new(connection)
    }

    /// Opens a regular file.
    ///
    /// # Errors
    /// Those of opening it; `TimedOut` if the file system does not answer in time, and until it has.
    pub(super) fn open(self: &Arc<Self>, root: &Path, path: &Path, follow: bool) -> io::Result<SlowFile> {
        let request = Request::Open { root: root.to_owned(), path: path.to_owned(), follow };
        Ok(SlowFile { connection: Arc::clone(self), facts: self.ask_for_facts(&request)? })
    }

    /// Opens a source file with the rights of these users.
    ///
    /// # Errors
    /// As [`Self::open`]; `InvalidInput` for more than fits a request.
    pub(crate) fn open_source(self: &Arc<Self>, users: &[u32], path: &Path) -> io::Result<SlowFile> {
        if users.len() > MAX_RANGES || path.as_os_str().len() > Name::MAX_BYTES {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let request = Request::Source { users: users.to_vec(), path: path.to_owned() };
        Ok(SlowFile { connection: Arc::clone(self), facts: self.ask_for_facts(&request)? })
    }

    /// Opens, with `O_PATH`, what a link of `/proc` leads to: here, through the process that has looked it up.
    ///
    /// # Errors
    /// Those of opening it; `TimedOut` if it is not looked up in time.
    pub(super) fn open_link(&self, path: &Path) -> io::Result<File> {
        let mut answer = [0; LINK_BYTES];
        self.ask(&Request::Link { path: path.to_owned() }, &mut answer)?;
        let [pid, handle] = numbers(&mut answer.as_slice())?;
        let file = open_path(format!("/proc/{pid}/fd/{handle}"));
        self.close(handle);
        file
    }

    /// Closes a file there, without waiting.
    fn close(&self, handle: u64) {
        if let Some(socket) = self.lock().as_mut() {
            // If it cannot be sent, the other process ends soon.
            let _ = socket.file.write_all(&Request::Close { handle }.encode());
        }
    }

    /// Reads ranges of the memory of a process, each an address and a length. Returns as many bytes of each as could be read.
    ///
    /// # Errors
    /// That of the first range; `TimedOut` if it is not read in time.
    pub(super) fn read_memory(&self, pid: Pid, ranges: &[(u64, u64)]) -> io::Result<Vec<Vec<u8>>> {
        let most: u64 = ranges.iter().fold(0, |sum, (_, length)| sum.saturating_add(length + 8));
        let mut bytes = vec![0; usize::try_from(most).unwrap_or(MAX_READ_BYTES).min(MAX_READ_BYTES)];
        let read = self.ask(&Request::Memory { pid, ranges: ranges.to_vec() }, &mut bytes)?;
        decode_ranges(bytes.get(..read).unwrap_or_default())
    }

    fn ask_for_facts(&self, request: &Request) -> io::Result<FileFacts> {
        let mut facts = [0; FACTS_BYTES];
        if self.ask(request, &mut facts)? < FACTS_BYTES {
            return Err(io::ErrorKind::InvalidData.into());
        }
        FileFacts::decode(&facts)
    }

    /// Sends a request, and returns the length of its answer.
    fn ask(&self, request: &Request, into: &mut [u8]) -> io::Result<usize> {
        let mut open = self.lock();
        let socket = open.as_mut().ok_or(io::ErrorKind::TimedOut)?;
        let begin = Instant::now();
        let time = self.waiting.for_an_answer().ok_or(io::ErrorKind::TimedOut)?;
        let answer = socket.exchange(request, into, begin + time);
        self.waiting.add(begin.elapsed());
        answer.unwrap_or_else(|_| {
            // Behind an answer that was not read whole, nothing can be made of the next.
            *open = None;
            Err(io::ErrorKind::TimedOut.into())
        })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Socket>> {
        // A panic in another thread leaves the socket usable, or the next answer is refused.
        self.socket.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Socket {
    /// Sends a request, and returns the length of its answer. The outer error says that nothing more will come.
    fn exchange(
        &mut self,
        request: &Request,
        into: &mut [u8],
        until: Instant,
    ) -> io::Result<io::Result<usize>> {
        if let Some(owed) = self.owed {
            if !self.is_readable(Instant::now())? {
                return Ok(Err(io::ErrorKind::TimedOut.into()));
            }
            self.drop_answer(owed, until)?;
        }
        self.file.write_all(&request.encode())?;
        if !self.is_readable(until)? {
            self.owed = Some(match request {
                Request::Open { .. } | Request::Source { .. } => Owed::File,
                Request::Link { .. } => Owed::Link,
                _ => Owed::Bytes,
            });
            return Ok(Err(io::ErrorKind::TimedOut.into()));
        }
        self.read_answer(into, until)
    }

    fn read_answer(&mut self, into: &mut [u8], until: Instant) -> io::Result<io::Result<usize>> {
        let mut head = [0; 16];
        read_until(&mut self.file, &mut head, until)?;
        match length_of_answer(&head, into.len())? {
            Err(error) => Ok(Err(error)),
            Ok(length) => {
                read_until(&mut self.file, &mut into[..length], until)?;
                Ok(Ok(length))
            }
        }
    }

    /// Reads an answer that nobody waits for. A file that it opened is closed.
    fn drop_answer(&mut self, owed: Owed, until: Instant) -> io::Result<()> {
        let mut bytes = vec![0; MAX_READ_BYTES.max(FACTS_BYTES)];
        let answer = self.read_answer(&mut bytes, until)?;
        let handle = match (owed, answer) {
            (Owed::File, Ok(FACTS_BYTES)) => Some(FileFacts::decode(&bytes)?.handle),
            (Owed::Link, Ok(LINK_BYTES)) => Some(numbers::<2>(&mut bytes.as_slice())?[1]),
            _ => None,
        };
        if let Some(handle) = handle {
            self.file.write_all(&Request::Close { handle }.encode())?;
        }
        self.owed = None;
        Ok(())
    }

    /// Waits until there is something to read. Returns false if there is not at that time.
    fn is_readable(&self, until: Instant) -> io::Result<bool> {
        let mut set = PollSet::default();
        set.add(self.file.as_fd());
        loop {
            let left = until.saturating_duration_since(Instant::now());
            // A signal ends the wait early.
            match set.wait(Some(left))? {
                0 if !left.is_zero() => {}
                ready => return Ok(ready > 0),
            }
        }
    }
}

impl SlowFile {
    /// Returns what was found when it was opened.
    pub fn facts(&self) -> FileFacts {
        self.facts
    }

    /// Returns the size that the file has now.
    ///
    /// # Errors
    /// Those of `fstat(2)`; `TimedOut` if the file system does not answer.
    pub fn current_size(&self) -> io::Result<u64> {
        Ok(self.connection.ask_for_facts(&Request::Look { handle: self.facts.handle })?.size)
    }

    /// Reads from an offset, and returns the number of bytes: 0 at the end of the file.
    ///
    /// # Errors
    /// Those of `pread(2)`; `TimedOut` if the file system does not answer.
    pub fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        let length = into.len().min(MAX_READ_BYTES);
        let request = Request::Read { handle: self.facts.handle, offset, length: length as u64 };
        self.connection.ask(&request, &mut into[..length])
    }
}

impl Drop for SlowFile {
    fn drop(&mut self) {
        self.connection.close(self.facts.handle);
    }
}
