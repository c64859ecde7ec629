//! Empties the rings into a channel: a thread per CPU does it when they run full, and the writer itself at each round, as long as
//! they hold little.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use host::sys::poll::{PollSet, Waker};
use host::sys::schedule::{self, RealtimeGuard};

use super::buffer_pool::{BufferReturn, BufferSource, buffer_pool};
use super::protocol::Shrink;
use super::shared_rings::{DrainOptions, RingSource, SharedRings};
use crate::control::messages::{Message, Outbox};
use crate::error::Error;

/// Maximum number of bytes that the writer copies out of rings itself in a round. To wake another thread for so few would cost more,
/// and they would then be in the cache of another core.
const MAX_WRITER_BYTES: u64 = 4 << 20;

/// Time from the wake-up by a sideband ring until its mappings are looked at. A program maps its libraries one after the other: the time
/// lets a reader see several at once, and bounds the wake-ups to 2,000 a second where threads start and end all the time. A program of
/// a millisecond still lives then.
const OBSERVATION_DELAY: Duration = Duration::from_micros(500);
/// The same time once all mapped files are known, which bounds the wake-ups to 500 a second. With [`OBSERVATION_DELAY`] alone, the
/// readers woke 1,100 times while a shell started 300 programs, and all together took a tenth more CPU time. A program of two
/// milliseconds still lives then.
const OBSERVATION_DELAY_OF_KNOWN: Duration = Duration::from_millis(2);
/// Number of looks that find no new file, after which all are taken for known: a build that makes, runs and deletes a program takes
/// fewer.
const LOOKS_UNTIL_KNOWN: u32 = 32;

/// Maximum number of buffers for chunks.
const MAX_BUFFERS: usize = 2048;

/// The stack of a reader: it keeps nothing large there.
const READER_STACK_BYTES: usize = 128 << 10;

/// The state of the rounds, which the writer and all readers share.
#[derive(Default)]
struct Rounds {
    /// True if the current round is the last.
    is_last: AtomicBool,
    /// The number of readers that were asked in the current round and have not answered.
    unanswered: AtomicUsize,
    /// The fill, from 0 to 1, from which on a reader empties its rings before the next round, as [`f64::to_bits`]. The kernel wakes
    /// the reader each time that a quarter of a ring has been written, even if the writer has emptied it since.
    reader_threshold: AtomicU64,
}

/// The readers, as the writer sees them.
pub(crate) struct Readers {
    handles: Vec<ReaderHandle>,
    rounds: Arc<Rounds>,
    /// The number of the last round.
    round: u64,
    buffer_return: BufferReturn,
    buffers: BufferSource,
    options: DrainOptions,
    /// `None` from the last round on.
    messages: Option<Outbox>,
}

/// The state that one reader and the writer share.
struct Shared {
    rings: SharedRings,
    waker: Waker,
    /// The number of the last round that the reader was asked to answer.
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
    /// The number of the last round that the reader has answered.
    answered: u64,
    messages: Outbox,
    buffers: BufferSource,
}

impl Readers {
    /// Starts a thread for each element of `rings`. All buffers for chunks are allocated here, up to `max_waiting` bytes: a reader that
    /// allocates would have to wait for locks of the allocator that threads of lower priority hold.
    pub(crate) fn start(
        rings: Vec<Vec<RingSource>>,
        options: DrainOptions,
        max_waiting: u64,
        messages: &Outbox,
    ) -> Result<Self, Error> {
        let rounds = Arc::new(Rounds::default());
        let sizes = rings.iter().flatten().map(|ring| ring.mapping.data_size());
        let size = sizes.max().unwrap_or(0);
        let fitting = usize::try_from(max_waiting).unwrap_or(usize::MAX) / size.max(1);
        let (buffer_return, buffers) = buffer_pool(fitting.clamp(2 * rings.len().max(2), MAX_BUFFERS), size);
        let messages = Some(messages.clone());
        let mut readers =
            Self { handles: Vec::new(), rounds, round: 0, buffer_return, buffers, options, messages };
        for rings in rings {
            readers.add(rings)?;
        }
        Ok(readers)
    }

    /// Starts one more reader, which takes part from the next round on.
    pub(crate) fn add(&mut self, rings: Vec<RingSource>) -> Result<(), Error> {
        let Some(messages) = self.messages.clone() else { return Ok(()) };
        let waker = Waker::new().map_err(|errno| Error::System { what: "cannot make an eventfd", errno })?;
        let shared = Arc::new(Shared {
            rings: SharedRings::new(rings, self.options.clone()),
            waker,
            asked: AtomicU64::new(0),
        });
        let reader = Reader {
            shared: Arc::clone(&shared),
            rounds: Arc::clone(&self.rounds),
            answered: 0,
            messages,
            buffers: self.buffers.clone(),
        };
        let thread = std::thread::Builder::new()
            .name("ring".to_owned())
            .stack_size(READER_STACK_BYTES)
            .spawn(move || reader.run())
            .map_err(|errno| Error::System { what: "cannot start a thread", errno })?;
        self.handles.push(ReaderHandle { shared, thread });
        Ok(())
    }

    /// Returns how much the kernel has written into the busiest ring since the last call, in sizes of a ring, whether or not it has
    /// been read since.
    pub(crate) fn take_max_written(&self) -> f64 {
        self.handles.iter().map(|reader| reader.shared.rings.take_max_written()).fold(0.0, f64::max)
    }

    /// Sets the fill, from 0 to 1, from which on readers empty their rings before the next round.
    pub(crate) fn set_reader_threshold(&self, fill: f64) {
        self.rounds.reader_threshold.store(fill.to_bits(), Ordering::Relaxed);
    }

    /// Empties the rings that hold little, with samples replaced by `shrink`, and asks the readers to empty the others. Returns how
    /// many answers there will be, and the number of the round.
    pub(crate) fn begin_round(&mut self, shrink: Shrink<'_>) -> (usize, u64) {
        self.round += 1;
        let Some(messages) = &self.messages else { return (0, self.round) };
        // Readers wait for the lock of their rings with realtime priority. The thread that holds it must not be preempted by
        // ordinary threads.
        let _realtime = RealtimeGuard::acquire();
        let mut budget = MAX_WRITER_BYTES;
        let mut asked = Vec::new();
        for reader in &self.handles {
            if !reader.shared.rings.empty_within(&mut budget, &self.buffers, shrink, messages) {
                asked.push(reader);
            }
        }
        let answered = messages.leave(Message::Answer(self.round)).is_ok();
        self.ask(&asked);
        (asked.len() + usize::from(answered), self.round)
    }

    /// Asks all readers to empty their rings for the last time, and to end. Returns as [`Readers::begin_round`].
    pub(crate) fn begin_last_round(&mut self) -> (usize, u64) {
        self.round += 1;
        self.messages = None;
        self.rounds.is_last.store(true, Ordering::Release);
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

    /// Returns the number of rings of samples that were full when they were emptied last: no LOST record has told yet what the
    /// kernel lost then.
    pub(crate) fn full_rings(&self) -> u64 {
        self.handles.iter().map(|reader| reader.shared.rings.full_rings() as u64).sum()
    }

    /// Returns true if a ring of samples was full when it was emptied, at any time since the last call.
    pub(crate) fn take_filled(&self) -> bool {
        self.handles.iter().fold(false, |any, reader| any | reader.shared.rings.take_filled())
    }

    /// Returns the buffer of a chunk that was consumed; `None` where the consumer has kept it.
    pub(crate) fn recycle(&self, bytes: Option<Vec<u8>>) {
        self.buffer_return.put_back(bytes);
    }

    /// Returns to the kernel the memory of buffers that were not needed since the last call.
    pub(crate) fn release_unused(&self) {
        self.buffer_return.release_unused();
    }

    /// Waits until all readers have ended, after the last round.
    pub(crate) fn join(self) {
        for reader in self.handles {
            // Readers do not panic. If one did, its records are missing, and its round was never answered.
            let _ = reader.thread.join();
        }
    }
}

impl Reader {
    fn run(mut self) {
        // Among a thousand busy threads, rings are full before an ordinary thread gets the CPU.
        schedule::prefer_low_latency();
        let mut poll = PollSet::default();
        let waker = poll.add(self.shared.waker.as_fd());
        let mut delay = PollSet::default();
        delay.add(self.shared.waker.as_fd());
        let events = self.shared.rings.events();
        let are_sideband = self.shared.rings.are_sideband();
        let mut looks_since_new = 0_u32;
        // Per ring, the index of the event that is polled, and its place in the set.
        let mut polled: Vec<(usize, usize)> =
            events.iter().filter_map(|events| Some((0, poll.add(events.first()?.as_fd())))).collect();
        loop {
            if poll.wait(None).is_err() {
                // The kernel has no memory for it. The rings are still emptied at each round.
                std::thread::yield_now();
            }
            if poll.ready(waker).readable {
                self.shared.waker.clear();
            }
            // Loaded before the rings are emptied: what they hold when a round begins belongs to that round. `is_last` is stored
            // before any reader is asked.
            let asked = self.shared.asked.load(Ordering::Acquire);
            let is_last = self.rounds.is_last.load(Ordering::Acquire);
            let threshold = f64::from_bits(self.rounds.reader_threshold.load(Ordering::Relaxed));
            let is_due = is_last || asked > self.answered || self.shared.rings.max_fill() > threshold;
            let mut sideband = polled.iter().zip(&are_sideband).filter(|(_, is_sideband)| **is_sideband);
            if !is_due && sideband.any(|((_, place), _)| poll.ready(*place).readable) {
                // A round that begins meanwhile does not wait for that.
                let are_known = looks_since_new >= LOOKS_UNTIL_KNOWN;
                let time = if are_known { OBSERVATION_DELAY_OF_KNOWN } else { OBSERVATION_DELAY };
                let _ = delay.wait(Some(time));
                let is_any_new = self.shared.rings.observe_mappings();
                looks_since_new = if is_any_new { 0 } else { looks_since_new.saturating_add(1) };
            }
            let emptied =
                if is_due { self.shared.rings.empty(&self.buffers, &self.messages) } else { Ok(false) };
            let Ok(was_any) = emptied else { return };
            if was_any && asked == self.answered {
                self.messages.wake();
            }
            for (events, (event, place)) in events.iter().zip(&mut polled) {
                if poll.ready(*place).hung_up {
                    // The thread of this event has ended; other events may still write into the ring.
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
                // The last reader to answer wakes the writer for the messages of all.
                if is_last || self.rounds.unanswered.fetch_sub(1, Ordering::AcqRel) == 1 {
                    self.messages.wake();
                }
                if left.is_err() || is_last {
                    return;
                }
            }
        }
    }
}
