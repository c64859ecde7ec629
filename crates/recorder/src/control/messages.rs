//! What the threads of a recording tell the one that writes. It sleeps as long as there is nothing that it should do at once:
//! to be woken for each message of a round would cost it more than the records in them.

use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, TryRecvError};

use super::OutsideEvent;
use crate::consumer::Chunk;

/// A message to the reader of a recording.
pub(crate) enum Message {
    /// Records of one ring, in the order of the ring.
    Chunk(Chunk),
    /// A reader has emptied its rings since round `.0` began.
    Answer(u64),
    /// Something from outside: see `control`.
    Outside(OutsideEvent),
}

/// Nobody takes messages any more.
#[derive(Debug)]
pub(crate) struct Closed;

/// True if those who tell something are still there is seen by looking only.
const LONGEST_SLEEP: Duration = Duration::from_millis(100);

/// A box for messages to the calling thread. What is under way in it is bounded by the readers' memory.
pub(crate) fn boxes() -> (Outbox, Inbox) {
    let (sender, messages) = crossbeam_channel::unbounded();
    (Outbox { messages: sender, addressee: thread::current() }, Inbox { messages })
}

/// The side of those who tell something.
#[derive(Clone)]
pub(crate) struct Outbox {
    messages: Sender<Message>,
    addressee: Thread,
}

impl Outbox {
    /// Leaves a message, to be found when its addressee is awake.
    pub(crate) fn leave(&self, message: Message) -> Result<(), Closed> {
        self.messages.send(message).map_err(|_| Closed)
    }

    /// Wakes the addressee for what has been left.
    pub(crate) fn wake(&self) {
        self.addressee.unpark();
    }
}

/// The addressee's side, for the thread that made it.
pub(crate) struct Inbox {
    messages: Receiver<Message>,
}

impl Inbox {
    /// The next message; waits for it until `deadline` (`None`: as long as somebody may tell something).
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
            // Who leaves a message before waking us is not missed, whatever else has woken us.
            thread::park_timeout(rest.unwrap_or(LONGEST_SLEEP).min(LONGEST_SLEEP));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_found_when_woken_and_when_the_time_is_over() {
        let (outbox, inbox) = boxes();
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
