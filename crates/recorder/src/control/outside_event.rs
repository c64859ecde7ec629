//! What happens to a running recording from outside of its rings.

use host::sys::signals::Received;

/// An event outside the rings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum OutsideEvent {
    /// [`Control::stop`] was called.
    Stop,
    /// A signal arrived that ends the recording.
    Signal(Received),
    /// One arrived that asks for a file with what is kept.
    Dump,
    /// One of [`crate::Options::dump_conditions`] has happened: its place there.
    Condition(usize),
    /// A command came, which is answered with its ticket.
    Command(Command, u64),
    /// The process at this place of the list has ended.
    Ended(usize),
}

/// A command that can be asked for, in perf's words where it has them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Command {
    /// Sample from now on.
    Enable,
    /// Do not sample from now on.
    Disable,
    /// Write what is kept.
    Dump,
    /// Answer.
    Ping,
    /// End the recording.
    Stop,
}
