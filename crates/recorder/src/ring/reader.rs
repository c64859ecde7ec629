//! One thread per CPU that empties the CPU's rings into a channel.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::JoinHandle;

use host::sys::perf_event::PerfEvent;
use host::sys::poll::{PollSet, Waker};
use host::sys::ring::RingMapping;
use host::sys::schedule;

use super::memory::{self, Recycled, Spare};
use super::protocol::drain;
use super::stack_place::StackPlace;
use crate::consumer::{Chunk, RingKind};
use crate::error::Error;
use crate::messages::{Closed, Message, Outbox};

/// A ring with the events that write into it; the first maps it.
pub(crate) struct RingSource {
    pub(crate) kind: RingKind,
    pub(crate) mapping: RingMapping,
    pub(crate) events: Vec<Arc<PerfEvent>>,
}

/// What the readers and the writer share.
struct Rounds {
    current: AtomicU64,
    last: AtomicBool,
    /// How many readers have not answered the current one.
    unanswered: AtomicUsize,
}

/// The readers, as the writer sees them.
pub(crate) struct Readers {
    handles: Vec<ReaderHandle>,
    rounds: Arc<Rounds>,
    recycled: Recycled,
    spare: Spare,
    stacks: Option<StackPlace>,
    /// Until the last round.
    messages: Option<Outbox>,
}

/// A running reader.
struct ReaderHandle {
    waker: Arc<Waker>,
    thread: JoinHandle<()>,
}

/// The state of one reader thread.
struct Reader {
    rings: Vec<RingSource>,
    stacks: Option<StackPlace>,
    waker: Arc<Waker>,
    rounds: Arc<Rounds>,
    /// The last round that it has answered, or that began before it.
    answered: u64,
    messages: Outbox,
    spare: Spare,
}

impl Readers {
    /// Starts a thread for each element of `rings`; `stacks` is where the samples have their stack copies. All memory that
    /// they will use is made here, `waiting` bytes: a reader that allocates waits for the locks that slower threads of
    /// ours hold while they do not get their turn.
    pub(crate) fn start(
        rings: Vec<Vec<RingSource>>,
        stacks: Option<StackPlace>,
        waiting: u64,
        messages: &Outbox,
    ) -> Result<Self, Error> {
        let rounds = Arc::new(Rounds {
            current: AtomicU64::new(0),
            last: AtomicBool::new(false),
            unanswered: AtomicUsize::new(0),
        });
        let sizes = rings.iter().flatten().map(|ring| ring.mapping.data_size());
        let size = sizes.max().unwrap_or(0);
        let fitting = usize::try_from(waiting).unwrap_or(usize::MAX) / size.max(1);
        let (recycled, spare) =
            memory::pieces(fitting.clamp(2 * rings.len().max(2), 2048), size, rings.len());
        let messages = Some(messages.clone());
        let mut readers = Self { handles: Vec::new(), rounds, recycled, spare, stacks, messages };
        for rings in rings {
            readers.add(rings)?;
        }
        Ok(readers)
    }

    /// Starts one more, which answers from the next round on.
    pub(crate) fn add(&mut self, rings: Vec<RingSource>) -> Result<(), Error> {
        let Some(messages) = self.messages.clone() else { return Ok(()) };
        let waker =
            Arc::new(Waker::new().map_err(|errno| Error::System { what: "cannot make an eventfd", errno })?);
        let reader = Reader {
            rings,
            stacks: self.stacks,
            waker: Arc::clone(&waker),
            rounds: Arc::clone(&self.rounds),
            answered: self.rounds.current.load(Ordering::Acquire),
            messages,
            spare: self.spare.clone(),
        };
        let thread = std::thread::Builder::new()
            .name("ring".to_owned())
            .stack_size(128 << 10)
            .spawn(move || reader.run())
            .map_err(|errno| Error::System { what: "cannot start a thread", errno })?;
        self.handles.push(ReaderHandle { waker, thread });
        Ok(())
    }

    /// Asks every reader to empty its rings; returns how many will answer, and the number of the round.
    pub(crate) fn begin_round(&mut self, last: bool) -> (usize, u64) {
        if last {
            self.messages = None;
            self.rounds.last.store(true, Ordering::Release);
        }
        self.rounds.unanswered.store(self.handles.len(), Ordering::Relaxed);
        let round = self.rounds.current.fetch_add(1, Ordering::AcqRel) + 1;
        self.handles.iter().for_each(|reader| reader.waker.wake());
        (self.handles.len(), round)
    }

    /// Gives memory back for the next chunk, in the place of a chunk's that was taken; `None` where that was kept.
    pub(crate) fn recycle(&self, bytes: Option<Vec<u8>>) {
        self.recycled.give(bytes);
    }

    /// Waits for the readers' ends, after the last round.
    pub(crate) fn join(self) {
        for reader in self.handles {
            // A reader does not panic; if it did, its records are missing and the round has not been answered.
            let _ = reader.thread.join();
        }
    }
}

impl Reader {
    fn run(mut self) {
        // Among a thousand busy threads, rings are full before an ordinary thread has its turn.
        schedule::run_at_once();
        let mut poll = PollSet::default();
        let waker = poll.add(self.waker.as_fd());
        // Per ring, which of its events is waited for, and where it is in the set.
        let mut waited: Vec<(usize, usize)> =
            self.rings.iter().filter_map(|ring| Some((0, poll.add(ring.events.first()?.as_fd())))).collect();
        loop {
            if poll.wait(None).is_err() {
                // Only for want of kernel memory: the rings are still emptied at each round.
                std::thread::yield_now();
            }
            if poll.ready(waker).readable {
                self.waker.clear();
            }
            // Read before the rings: what they hold when a round begins belongs to that round.
            let last = self.rounds.last.load(Ordering::Acquire);
            let round = self.rounds.current.load(Ordering::Acquire);
            let mut left = false;
            for index in 0..self.rings.len() {
                match self.empty(index) {
                    Ok(something) => left |= something,
                    Err(Closed) => return,
                }
            }
            if left && round == self.answered {
                self.messages.wake();
            }
            for (ring, (event, place)) in self.rings.iter().zip(&mut waited) {
                if poll.ready(*place).hung_up {
                    // The thread of that event has ended. Others may still write into the ring.
                    poll.ignore(*place);
                    *event += 1;
                    if let Some(next) = ring.events.get(*event) {
                        *place = poll.add(next.as_fd());
                    }
                }
            }
            if round > self.answered {
                self.answered = round;
                let left = self.messages.leave(Message::Answer(round));
                // Who answers last wakes the writer for what all have left.
                if last || self.rounds.unanswered.fetch_sub(1, Ordering::AcqRel) == 1 {
                    self.messages.wake();
                }
                if left.is_err() || last {
                    return;
                }
            }
        }
    }

    /// Empties one ring, and says whether there was anything.
    fn empty(&mut self, index: usize) -> Result<bool, Closed> {
        let Some(ring) = self.rings.get(index) else { return Ok(false) };
        if ring.mapping.head() == ring.mapping.tail() {
            return Ok(false);
        }
        let mut bytes = match self.spare.take() {
            Some(bytes) => bytes,
            None => {
                // Where all memory waits to be written, the records wait in their ring.
                self.messages.wake();
                self.spare.wait().ok_or(Closed)?
            }
        };
        let stacks = self.stacks.as_ref().filter(|_| ring.kind == RingKind::Samples);
        let drained = drain(&ring.mapping, stacks, &mut bytes);
        self.messages.leave(Message::Chunk(Chunk { ring: ring.kind, bytes, drained }))?;
        Ok(true)
    }
}
