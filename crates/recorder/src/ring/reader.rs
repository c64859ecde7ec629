//! How rings get emptied into a channel: by one thread per CPU that wakes when they run full, and by the writer at each
//! round, as long as they hold little.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::JoinHandle;

use host::sys::poll::{PollSet, Waker};
use host::sys::schedule::{self, RealtimeGuard};

use super::memory::{self, Recycled, Spare};
use super::protocol::Shrink;
use super::rings::{RingSource, Rings, Samples};
use crate::control::messages::{Message, Outbox};
use crate::error::Error;

/// So many bytes the writer takes itself in a round. To wake another thread for them would cost more, and they would be in
/// another core's cache then.
const LITTLE: u64 = 4 << 20;

/// The state that the readers and the writer share.
#[derive(Default)]
struct Rounds {
    last: AtomicBool,
    /// The number of the asked readers that have not answered.
    unanswered: AtomicUsize,
    /// The fill, of 1, up to which a ring waits for the next round, as [`f64::to_bits`]. The kernel wakes its reader whenever so
    /// and so much has been written, whoever has read it since.
    waits_until: AtomicU64,
}

/// The readers, as the writer sees them.
pub(crate) struct Readers {
    handles: Vec<ReaderHandle>,
    rounds: Arc<Rounds>,
    /// The number of the last round.
    round: u64,
    recycled: Recycled,
    spare: Spare,
    samples: Samples,
    /// Until the last round.
    messages: Option<Outbox>,
}

/// The state that one reader and the writer share.
struct Shared {
    rings: Rings,
    waker: Waker,
    /// The last round that the reader was asked to answer.
    asked: AtomicU64,
}

/// A running reader.
struct ReaderHandle {
    shared: Arc<Shared>,
    thread: JoinHandle<()>,
}

/// A thread that reads the rings of a CPU.
struct Reader {
    shared: Arc<Shared>,
    rounds: Arc<Rounds>,
    /// The last round that it has answered.
    answered: u64,
    messages: Outbox,
    spare: Spare,
}

impl Readers {
    /// Starts a thread for each element of `rings`; `samples` says what is known of theirs. All memory that they will use is made here, `waiting` bytes: a reader that allocates waits for the locks that slower threads of
    /// ours hold while they do not get their turn.
    pub(crate) fn start(
        rings: Vec<Vec<RingSource>>,
        samples: Samples,
        waiting: u64,
        messages: &Outbox,
    ) -> Result<Self, Error> {
        let rounds = Arc::new(Rounds::default());
        let sizes = rings.iter().flatten().map(|ring| ring.mapping.data_size());
        let size = sizes.max().unwrap_or(0);
        let fitting = usize::try_from(waiting).unwrap_or(usize::MAX) / size.max(1);
        let (recycled, spare) = memory::pieces(fitting.clamp(2 * rings.len().max(2), 2048), size);
        let messages = Some(messages.clone());
        let mut readers = Self { handles: Vec::new(), rounds, round: 0, recycled, spare, samples, messages };
        for rings in rings {
            readers.add(rings)?;
        }
        Ok(readers)
    }

    /// Starts one more, which takes part from the next round on.
    pub(crate) fn add(&mut self, rings: Vec<RingSource>) -> Result<(), Error> {
        let Some(messages) = self.messages.clone() else { return Ok(()) };
        let waker = Waker::new().map_err(|errno| Error::System { what: "cannot make an eventfd", errno })?;
        let shared = Arc::new(Shared {
            rings: Rings::new(rings, self.samples.clone()),
            waker,
            asked: AtomicU64::new(0),
        });
        let reader = Reader {
            shared: Arc::clone(&shared),
            rounds: Arc::clone(&self.rounds),
            answered: 0,
            messages,
            spare: self.spare.clone(),
        };
        let thread = std::thread::Builder::new()
            .name("ring".to_owned())
            .stack_size(128 << 10)
            .spawn(move || reader.run())
            .map_err(|errno| Error::System { what: "cannot start a thread", errno })?;
        self.handles.push(ReaderHandle { shared, thread });
        Ok(())
    }

    /// Returns the amount written into the busiest ring since the last call, in sizes of a ring: also what readers
    /// have taken out of it.
    pub(crate) fn written(&self) -> f64 {
        self.handles.iter().map(|reader| reader.shared.rings.written()).fold(0.0, f64::max)
    }

    /// Lets rings that are no fuller than this, of 1, wait for the next round.
    pub(crate) fn wait_until(&self, fill: f64) {
        self.rounds.waits_until.store(fill.to_bits(), Ordering::Relaxed);
    }

    /// Empties all rings, with what samples `shrink` can say shorter, or asks their readers to do it; returns how many answers
    /// there will be, and the number of the round.
    pub(crate) fn begin_round(&mut self, shrink: Shrink<'_>) -> (usize, u64) {
        self.round += 1;
        let Some(messages) = &self.messages else { return (0, self.round) };
        // A reader that waits for us must not wait for all ordinary threads of the machine.
        let _at_once = RealtimeGuard::acquire();
        let mut budget = LITTLE;
        let mut asked = Vec::new();
        for reader in &self.handles {
            if !reader.shared.rings.empty_little(&mut budget, &self.spare, shrink, messages) {
                asked.push(reader);
            }
        }
        let answered = messages.leave(Message::Answer(self.round)).is_ok();
        self.ask(&asked);
        (asked.len() + usize::from(answered), self.round)
    }

    /// The same for the last time, by the readers, who then end.
    pub(crate) fn begin_last_round(&mut self) -> (usize, u64) {
        self.round += 1;
        self.messages = None;
        self.rounds.last.store(true, Ordering::Release);
        let all: Vec<&ReaderHandle> = self.handles.iter().collect();
        self.ask(&all);
        (all.len(), self.round)
    }

    fn ask(&self, readers: &[&ReaderHandle]) {
        self.rounds.unanswered.store(readers.len(), Ordering::Release);
        for reader in readers {
            reader.shared.asked.store(self.round, Ordering::Release);
            reader.shared.waker.wake();
        }
    }

    /// Returns the number of rings of samples that were full when they were emptied last: what the kernel lost then
    /// is in no LOST record yet.
    pub(crate) fn full_rings(&self) -> u64 {
        self.handles.iter().map(|reader| reader.shared.rings.full() as u64).sum()
    }

    /// Gives memory back for the next chunk, in the place of a chunk's that was taken; `None` where that was kept.
    pub(crate) fn recycle(&self, bytes: Option<Vec<u8>>) {
        self.recycled.give(bytes);
    }

    /// Gives memory back to the kernel that was not needed since the last call.
    pub(crate) fn release_unused(&self) {
        self.recycled.release_unused();
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
        schedule::prefer_low_latency();
        let mut poll = PollSet::default();
        let waker = poll.add(self.shared.waker.as_fd());
        let events = self.shared.rings.events();
        // Per ring, which of its events is waited for, and where it is in the set.
        let mut waited: Vec<(usize, usize)> =
            events.iter().filter_map(|events| Some((0, poll.add(events.first()?.as_fd())))).collect();
        loop {
            if poll.wait(None).is_err() {
                // Only for want of kernel memory: the rings are still emptied at each round.
                std::thread::yield_now();
            }
            if poll.ready(waker).readable {
                self.shared.waker.clear();
            }
            // Read before the rings: what they hold when a round begins belongs to that round. And whether it is the last one is
            // known before anybody is asked.
            let asked = self.shared.asked.load(Ordering::Acquire);
            let last = self.rounds.last.load(Ordering::Acquire);
            let waits_until = f64::from_bits(self.rounds.waits_until.load(Ordering::Relaxed));
            let is_due = last || asked > self.answered || self.shared.rings.fill() > waits_until;
            let emptied =
                if is_due { self.shared.rings.empty(&self.spare, &self.messages) } else { Ok(false) };
            let Ok(left) = emptied else { return };
            if left && asked == self.answered {
                self.messages.wake();
            }
            for (events, (event, place)) in events.iter().zip(&mut waited) {
                if poll.ready(*place).hung_up {
                    // The thread of that event has ended. Others may still write into the ring.
                    poll.ignore(*place);
                    *event += 1;
                    if let Some(next) = events.get(*event) {
                        *place = poll.add(next.as_fd());
                    }
                }
            }
            if asked > self.answered {
                self.answered = asked;
                let left = self.messages.leave(Message::Answer(asked));
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
}
