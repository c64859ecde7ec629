//! Why a virtual machine was not asked, or did not do it.

use std::io;

use model::Name;
use thiserror::Error;

/// The reason why there is no new map.
#[derive(Debug, Error)]
pub enum AttachError {
    /// It has ended, or may not be looked at.
    #[error("it cannot be looked at: {0}")]
    Unreadable(io::Error),
    /// It has no `libjvm.so`.
    #[error("it is no Java virtual machine (libjvm.so is not mapped)")]
    NotJava,
    /// It is OpenJ9, for which SIGQUIT means something else.
    #[error("it is OpenJ9, which has no Compiler.perfmap")]
    OpenJ9,
    /// It does not run.
    #[error("it is stopped (try: kill -CONT)")]
    Stopped,
    /// It would print its threads instead.
    #[error("attaching to it is disabled (-XX:+DisableAttachMechanism)")]
    Disabled,
    /// It would die.
    #[error("it does not handle SIGQUIT (started with -Xrs, or too young)")]
    NoHandler,
    /// We may not act as its user.
    #[error("it belongs to another user (try: sudo)")]
    OtherUser,
    /// The name of its socket, or of the file that asks for it, is that of something else.
    #[error("{0} is in the way: it is not its own")]
    NameTaken(Name),
    /// Somebody else listens at its socket.
    #[error("{0} is the socket of another process")]
    Impostor(Name),
    /// The file that asks it to listen could not be made in its `/tmp`.
    #[error("cannot make {0}: {1}")]
    CannotCreate(Name, io::Error),
    /// It did not do it in time.
    #[error("it does not answer within a second")]
    NoAnswer,
    /// Talking with it failed.
    #[error("cannot talk with it: {0}")]
    Connection(io::Error),
    /// It does not know the command.
    #[error("it is older than Java 17, which was the first with Compiler.perfmap")]
    TooOld,
    /// It said no.
    #[error("it answers: {0}")]
    Refused(Name),
}

impl AttachError {
    /// Returns true if it may go better later.
    pub fn may_succeed_later(&self) -> bool {
        matches!(
            self,
            Self::Stopped | Self::NoHandler | Self::CannotCreate(..) | Self::NoAnswer | Self::Connection(_)
        )
    }
}
