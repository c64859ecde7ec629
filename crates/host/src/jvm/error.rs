//! The reasons why attaching to a Java virtual machine fails.

use std::io;

use model::Name;
use thiserror::Error;

/// The reason why a virtual machine wrote no perf map.
#[derive(Debug, Error)]
pub enum AttachError {
    /// The process has ended, or `/proc` does not let us read it.
    #[error("it cannot be looked at: {0}")]
    Unreadable(io::Error),
    /// The process has not mapped `libjvm.so`.
    #[error("it is no Java virtual machine (libjvm.so is not mapped)")]
    NotJava,
    /// The virtual machine is OpenJ9, where SIGQUIT has another meaning.
    #[error("it is OpenJ9, which has no Compiler.perfmap")]
    OpenJ9,
    /// The process is stopped.
    #[error("it is stopped (try: kill -CONT)")]
    Stopped,
    /// Attaching is disabled: SIGQUIT would print the threads.
    #[error("attaching to it is disabled (-XX:+DisableAttachMechanism)")]
    Disabled,
    /// The process does not handle SIGQUIT, which would end it.
    #[error("it does not handle SIGQUIT (started with -Xrs, or too young)")]
    NoHandler,
    /// We may not act as the user of the process.
    #[error("it belongs to another user (try: sudo)")]
    OtherUser,
    /// A foreign file has the name of the socket or of the attach file.
    #[error("{0} is in the way: it is not its own")]
    NameTaken(Name),
    /// Another process listens at the socket.
    #[error("{0} is the socket of another process")]
    Impostor(Name),
    /// The attach file cannot be created in `/tmp` of the process.
    #[error("cannot make {0}: {1}")]
    CannotCreate(Name, io::Error),
    /// The virtual machine does not answer in time.
    #[error("it does not answer within a second")]
    NoAnswer,
    /// Sending or receiving failed.
    #[error("cannot talk with it: {0}")]
    Connection(io::Error),
    /// The virtual machine does not know the command.
    #[error("it is older than Java 17, which was the first with Compiler.perfmap")]
    TooOld,
    /// The virtual machine answers with an error.
    #[error("it answers: {0}")]
    Refused(Name),
}

impl AttachError {
    /// Returns true if a later attempt may succeed.
    pub fn may_succeed_later(&self) -> bool {
        matches!(
            self,
            Self::Stopped | Self::NoHandler | Self::CannotCreate(..) | Self::NoAnswer | Self::Connection(_)
        )
    }
}
