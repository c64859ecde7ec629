//! The message queue from the threads of a recording to the session's thread. Sending and waking are separate calls: waking the
//! thread for each message of a round would cost more than consuming the records.

use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, TryRecvError};
use host::sys::signals::Received;

use crate::consumer::Chunk;

/// A message to the session's thread.
pub(crate) enum Message {
    /// Records of one ring, in the order of the ring.
    Chunk(Chunk),
    /// A reader has drained its rings for the round with this number.
    Answer(u64),
    /// An event from outside of the rings.
    Outside(OutsideEvent),
}

/// The error of sending to a queue whose receiver is dropped.
#[derive(Debug)]
pub(crate) struct Closed;

/// Longest time to park. A closed channel does not wake the thread, so it checks for that at least this often.
const MAX_SLEEP: Duration = Duration::from_millis(100);

/// Creates a queue to the calling thread. It is unbounded; the memory that readers have for chunks bounds what is in it.
pub(crate) fn queue() -> (Outbox, Inbox) {
    let (sender, messages) = crossbeam_channel::unbounded();
    (Outbox { messages: sender, receiver: thread::current() }, Inbox { messages })
}

/// The sending side.
#[derive(Clone)]
pub(crate) struct Outbox {
    messages: Sender<Message>,
    receiver: Thread,
}

impl Outbox {
    /// Sends a message without waking the receiving thread.
    pub(crate) fn leave(&self, message: Message) -> Result<(), Closed> {
        self.messages.send(message).map_err(|_| Closed)
    }

    /// Wakes the receiving thread.
    pub(crate) fn wake(&self) {
        self.receiver.unpark();
    }
}

/// The receiving side, for the thread that created the queue.
pub(crate) struct Inbox {
    messages: Receiver<Message>,
}

impl Inbox {
    /// Returns the next message. Waits for it until `deadline`; without one, until a message comes or all senders are dropped.
    pub(crate) fn next(&self, deadline: Option<Instant>) -> Result<Message, RecvTimeoutError> {
        loop {
            match self.messages.try_recv() {
                Ok(message) => return Ok(message),
                Err(TryRecvError::Disconnected) => return Err(RecvTimeoutError::Disconnected),
                Err(TryRecvError::Empty) => {}
            }
            let rest = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if rest == Some(Duration::ZERO) {
                return Err(RecvTimeoutError::Timeout);
            }
            // A message is in the queue before its sender wakes us, so that parking here cannot miss one.
            thread::park_timeout(rest.unwrap_or(MAX_SLEEP).min(MAX_SLEEP));
        }
    }
}

/// An event outside the rings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum OutsideEvent {
    /// [`Control::stop`](super::Control::stop) was called.
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
    /// Pauses sampling, until [`Self::Enable`] resumes it.
    Disable,
    /// Writes the kept records to a file.
    Dump,
    /// Does nothing but answer.
    Ping,
    /// Ends the recording.
    Stop,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_found_when_woken_and_when_the_time_is_over() {
        let (outbox, inbox) = queue();
        assert!(matches!(inbox.next(Some(Instant::now())), Err(RecvTimeoutError::Timeout)));
        let its = outbox.clone();
        let teller = thread::spawn(move || {
            its.leave(Message::Answer(1)).unwrap();
            its.leave(Message::Answer(2)).unwrap();
            its.wake();
        });
        assert!(matches!(inbox.next(None), Ok(Message::Answer(1))));
        assert!(matches!(inbox.next(None), Ok(Message::Answer(2))));
        teller.join().unwrap();
        let its = outbox.clone();
        let teller = thread::spawn(move || its.leave(Message::Answer(3)).is_ok());
        assert!(matches!(inbox.next(None), Ok(Message::Answer(3))), "though nobody woke us");
        teller.join().unwrap();
        drop(outbox);
        assert!(matches!(inbox.next(None), Err(RecvTimeoutError::Disconnected)));
    }
}
