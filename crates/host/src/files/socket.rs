//! Unix sockets through which other processes send commands to a recording.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::Path;

use model::Pid;

use super::destination::{DestinationError, NameInFolder};
use super::folder::open_folder;
use super::trust::Trusted;
use crate::sys::peer;

/// A listening socket for trusted users. When dropped, removes its name from the file system, if it has one.
#[derive(Debug)]
pub struct CommandSocket {
    listener: UnixListener,
    trusted: Trusted,
    /// The name, with device and inode of the socket.
    name: Option<(NameInFolder, (u64, u64))>,
}

impl CommandSocket {
    /// Creates a socket at `path`. Replaces a socket whose listener has ended.
    ///
    /// # Errors
    /// `EADDRINUSE` if the name exists otherwise.
    pub fn bind(path: &Path) -> Result<Self, DestinationError> {
        let trusted = Trusted::for_this_process();
        let (folder, name) = open_folder(path, &trusted)?;
        let Some(name) = name else { return Err(DestinationError::Directory) };
        // Through the open folder, because a path may exceed the length of a socket address.
        let address = folder.proc_path_of(&name);
        if let Ok(entry) = folder.look_at(&name)
            && let Ok(there) = entry.metadata()
            && there.file_type().is_socket()
            && trusted.owns(&there)
            && UnixStream::connect(&address)
                .is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
        {
            folder.remove(&name)?;
        }
        let listener = UnixListener::bind(&address)?;
        let bound = folder.look_at(&name)?.metadata()?;
        let name = Some((NameInFolder { folder, name }, (bound.dev(), bound.ino())));
        Self::with(listener, trusted, name)
    }

    /// Creates the socket to which [`connect_to_recording`] connects. It has an abstract address instead of a path.
    ///
    /// # Errors
    /// `EADDRINUSE` if another process has taken the address.
    pub fn for_this_process() -> Result<Self, DestinationError> {
        let own = Pid(i32::try_from(std::process::id()).unwrap_or(0));
        let listener = UnixListener::bind_addr(&address_of(own)?)?;
        Self::with(listener, Trusted::for_this_process(), None)
    }

    fn with(
        listener: UnixListener,
        trusted: Trusted,
        name: Option<(NameInFolder, (u64, u64))>,
    ) -> Result<Self, DestinationError> {
        listener.set_nonblocking(true)?;
        Ok(Self { listener, trusted, name })
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

impl Drop for CommandSocket {
    fn drop(&mut self) {
        let Some((NameInFolder { folder, name }, bound)) = &self.name else { return };
        // The name may refer to another socket by now.
        let there = folder.look_at(name).and_then(|entry| entry.metadata());
        if there.is_ok_and(|there| (there.dev(), there.ino()) == *bound) {
            let _ = folder.remove(name);
        }
    }
}

/// Connects to a recording that runs in the process `pid`.
///
/// # Errors
/// `ECONNREFUSED` if the process does not listen, or another process has taken its address.
pub fn connect_to_recording(pid: Pid) -> io::Result<UnixStream> {
    let stream = UnixStream::connect_addr(&address_of(pid)?)?;
    match peer::credentials(stream.as_fd())?.process == pid {
        true => Ok(stream),
        false => Err(io::ErrorKind::ConnectionRefused.into()),
    }
}

fn address_of(pid: Pid) -> io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(format!("prof-record-{pid}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::unix::fs::symlink;

    #[test]
    fn a_socket_goes_with_its_owner_and_replaces_a_dead_one() {
        let folder = tempfile::tempdir().unwrap();
        // Longer than the address of a socket may be.
        let inner = folder.path().join("x".repeat(120));
        std::fs::create_dir(&inner).unwrap();
        let path = inner.join("control");
        let mut dead = CommandSocket::bind(&path).unwrap();
        let error = CommandSocket::bind(&path).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
        // As a killed process leaves it.
        dead.name = None;
        drop(dead);
        assert!(path.exists());
        let socket = CommandSocket::bind(&path).unwrap();
        assert!(socket.accept().is_none());
        drop(socket);
        assert!(!path.exists());
        symlink("/dev/null", &path).unwrap();
        assert_eq!(CommandSocket::bind(&path).unwrap_err().kind(), io::ErrorKind::AddrInUse);
    }

    #[test]
    fn a_recording_is_found_by_its_number() {
        let own = Pid(std::process::id() as i32);
        assert!(connect_to_recording(own).is_err());
        let socket = CommandSocket::for_this_process().unwrap();
        let mut client = connect_to_recording(own).unwrap();
        client.write_all(b"ping").unwrap();
        let mut text = [0; 4];
        socket.accept().unwrap().read_exact(&mut text).unwrap();
        assert_eq!(&text, b"ping");
    }
}
