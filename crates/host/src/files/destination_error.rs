//! Says why a path cannot be written to.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

/// The reason why a path cannot be written to.
#[derive(Error, Debug)]
pub enum DestinationError {
    /// An error of the operating system.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// A folder of the path does not exist.
    #[error("there is no folder {}; try: mkdir -p {}", missing.display(), folder.display())]
    NoFolder {
        /// The outermost that is missing.
        missing: PathBuf,
        /// The whole path of the folder.
        folder: PathBuf,
    },
    /// A link on the way to the last component that an untrusted user has placed, or may have.
    #[error("{} is a link {}, and such links are not followed; name the folder that it leads to", link.display(), ownership_in_words(*owner))]
    ForeignLink {
        /// The path of the link.
        link: PathBuf,
        /// Its owner, where that is somebody else.
        owner: Option<u32>,
    },
    /// A named pipe that an untrusted user has placed, or may have.
    #[error("it is a named pipe {}, and such pipes are not written to; remove it, or name another file", ownership_in_words(*owner))]
    ForeignPipe {
        /// Its owner, where that is somebody else.
        owner: Option<u32>,
    },
    /// A named pipe is needed, and the path is not one.
    #[error("there is no named pipe {}; try: mkfifo {}", .0.display(), .0.display())]
    NoPipe(PathBuf),
    /// A device other than a terminal and those that discard their input.
    #[error(
        "it is a {kind} device, and of devices only /dev/null, /dev/zero, /dev/full and terminals are written to"
    )]
    Device {
        /// `block` or `character`.
        kind: &'static str,
    },
    /// A file is needed, and the path is a device or pipe.
    #[error("it is no file; name another one")]
    Stream,
    /// The path is a socket.
    #[error("it is a socket; name another file")]
    Socket,
    /// The path is a directory.
    #[error("it is a directory; name a file in it")]
    Directory,
    /// `/dev/fd/N`, where descriptor N is not open for writing.
    #[error("descriptor {number} is not open for writing")]
    NotOpen {
        /// The number N of the descriptor.
        number: i32,
    },
}

/// Completes "a link" or "a named pipe" in a message.
fn ownership_in_words(owner: Option<u32>) -> String {
    match owner {
        Some(owner) => format!("of user {owner}"),
        None => "that others may have put there".to_owned(),
    }
}

impl DestinationError {
    /// Returns the kind of the underlying error of the system, or the closest one.
    pub fn kind(&self) -> io::ErrorKind {
        match self {
            Self::Io(error) => error.kind(),
            Self::NoFolder { .. } => io::ErrorKind::NotFound,
            Self::Directory => io::ErrorKind::IsADirectory,
            _ => io::ErrorKind::InvalidInput,
        }
    }
}

impl From<DestinationError> for io::Error {
    fn from(error: DestinationError) -> Self {
        match error {
            DestinationError::Io(error) => error,
            error => Self::new(error.kind(), error),
        }
    }
}
