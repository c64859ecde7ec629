//! The Unix socket through which other processes send commands to a recording.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::time::{Duration, Instant};

use model::Pid;

use super::trust::Trusted;
use crate::sys::peer::{self, Peer};
use crate::sys::system;

/// Maximum length of an answer: that of a path (`PATH_MAX`), or a sentence.
const MAX_ANSWER_BYTES: usize = 8 << 10;

/// A listening socket for trusted users.
#[derive(Debug)]
pub struct CommandSocket {
    listener: UnixListener,
    trusted: Trusted,
}

impl CommandSocket {
    /// Creates the socket to which [`RecordingConnection::new`] connects. It has an abstract address instead of a path.
    ///
    /// # Errors
    /// `EADDRINUSE` if another process has taken the address.
    pub fn for_this_process() -> io::Result<Self> {
        let own = Pid(i32::try_from(std::process::id()).unwrap_or(0));
        let listener = UnixListener::bind_addr(&address_of(own)?)?;
        listener.set_nonblocking(true)?;
        Ok(Self { listener, trusted: Trusted::for_this_process() })
    }

    /// Accepts the next connection of a trusted user, if any, and closes those of others. Neither this nor the stream blocks.
    pub fn accept(&self) -> Option<UnixStream> {
        loop {
            let (stream, _) = self.listener.accept().ok()?;
            let is_trusted =
                peer::credentials(stream.as_fd()).is_ok_and(|peer| self.trusted.contains(peer.user));
            if is_trusted && stream.set_nonblocking(true).is_ok() {
                return Some(stream);
            }
        }
    }
}

impl AsFd for CommandSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

/// A connection to a recording.
#[derive(Debug)]
pub struct RecordingConnection {
    stream: UnixStream,
    /// The user who runs the recording.
    pub user: u32,
}

/// The reason why there is no connection to a recording.
#[derive(Debug)]
pub enum ConnectError {
    /// Another process has taken the address.
    TakenBy(Peer),
    /// `ECONNREFUSED` if nobody listens.
    System(io::Error),
}

impl From<io::Error> for ConnectError {
    fn from(error: io::Error) -> Self {
        Self::System(error)
    }
}

impl RecordingConnection {
    /// Connects to a recording that runs in the process `pid`.
    ///
    /// # Errors
    /// The process does not listen, or another process does.
    pub fn new(pid: Pid) -> Result<Self, ConnectError> {
        let stream = UnixStream::connect_addr(&address_of(pid)?)?;
        let peer = peer::credentials(stream.as_fd())?;
        if peer.process == pid {
            Ok(Self { stream, user: peer.user })
        } else {
            Err(ConnectError::TakenBy(peer))
        }
    }

    /// Sends a command, and returns the line that answers it without its line feed: empty if the recording has ended.
    ///
    /// # Errors
    /// Those of the socket; `WouldBlock` if there is no whole line within `timeout`, `InvalidData` for one that is too long.
    pub fn ask(mut self, command: &str, timeout: Duration) -> io::Result<Vec<u8>> {
        let until = Instant::now() + timeout;
        self.stream.set_write_timeout(Some(timeout))?;
        self.stream.write_all(format!("{command}\n").as_bytes())?;
        let (mut answer, mut block) = (Vec::new(), [0; 512]);
        loop {
            let left = until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero());
            self.stream.set_read_timeout(Some(left.ok_or(io::ErrorKind::WouldBlock)?))?;
            let read = match self.stream.read(&mut block) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                read => read?,
            };
            answer.extend(&block[..read]);
            if let Some(end) = answer.iter().position(|&byte| byte == b'\n') {
                answer.truncate(end);
                return Ok(answer);
            }
            if read == 0 {
                return Ok(Vec::new());
            }
            if answer.len() > MAX_ANSWER_BYTES {
                return Err(io::ErrorKind::InvalidData.into());
            }
        }
    }

    /// Returns true if the recording runs as us or as root, whose answers we believe.
    pub fn is_trusted(&self) -> bool {
        [0, system::effective_user()].contains(&self.user)
    }
}

fn address_of(pid: Pid) -> io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(format!("prof-record-{pid}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recording_is_found_by_its_number() {
        let own = Pid(std::process::id() as i32);
        assert!(RecordingConnection::new(own).is_err());
        let socket = CommandSocket::for_this_process().unwrap();
        let answered = |answer: &[u8], timeout| {
            let client = RecordingConnection::new(own).unwrap();
            assert!(client.is_trusted());
            let mut server = socket.accept().unwrap();
            // More than the socket holds is cut here.
            let _ = server.write(answer);
            let answer = client.ask("ping", timeout);
            let mut text = [0; 5];
            server.read_exact(&mut text).unwrap();
            assert_eq!(&text, b"ping\n");
            answer.map_err(|error| error.kind())
        };
        let (long, short) = (Duration::from_secs(60), Duration::from_millis(10));
        assert_eq!(answered(b"ack /a/b\nmore", long).unwrap(), b"ack /a/b");
        assert_eq!(answered(b"ack /a", short), Err(io::ErrorKind::WouldBlock));
        assert_eq!(answered(b"", short), Err(io::ErrorKind::WouldBlock));
        assert_eq!(answered(&[b'A'; 1 << 16], long), Err(io::ErrorKind::InvalidData));
    }

    #[test]
    fn who_takes_the_address_of_another_process_is_named() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let pid = Pid(child.id() as i32);
        let _taken = UnixListener::bind_addr(&address_of(pid).unwrap()).unwrap();
        let refused = RecordingConnection::new(pid).unwrap_err();
        child.kill().unwrap();
        child.wait().unwrap();
        let ConnectError::TakenBy(peer) = refused else { panic!("{refused:?}") };
        assert_eq!((peer.process.0, peer.user), (std::process::id() as i32, system::effective_user()));
    }
}
