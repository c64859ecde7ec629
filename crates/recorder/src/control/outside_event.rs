//! Events that reach a running recording from outside of its rings.

use host::sys::signals::Received;

/// An event outside the rings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum OutsideEvent {
    /// [`Control::stop`] was called.
    Stop,
    /// A signal arrived that ends the recording, or is meant for its command ([`super::ends_with_command`]).
    Signal(Received),
    /// SIGUSR2 arrived: it requests a file with the kept records.
    Dump,
    /// A condition is met: its index in [`crate::Options::dump_conditions`].
    Condition(usize),
    /// A command arrived. The answer to it carries the ticket.
    Command(Command, u64),
    /// The watched process at this index has ended.
    Ended(usize),
}

/// A command to a running recording, with perf's names where perf has the command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Command {
    /// Starts or resumes sampling.
    Enable,
    /// Pauses sampling.
    Disable,
    /// Writes the kept records to a file.
    Dump,
    /// Does nothing but answer.
    Ping,
    /// Ends the recording.
    Stop,
}
