//! Writes on a thread of its own behind a bounded buffer, so that rings are drained while a disk stalls or the reader of a pipe is
//! slow.

use std::collections::VecDeque;
use std::io;
use std::mem;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError};
use host::sys::schedule::PriorityGuard;
use host::sys::signals::InterruptibleGuard;
use perfdata::write::RecordWriter;

use super::Output;
use crate::error::Error;

/// Maximum number of bytes of records that wait to be written, for a disk or pipe that stalls for a while.
pub const OUTPUT_BUFFER_BYTES: usize = 64 << 20;
/// Records are sent to the thread in blocks of at least this many bytes, or fewer before a checkpoint or the end.
const BLOCK_BYTES: usize = 64 << 10;
/// After waiting this long for the end of writing, signals may end the process.
const UNINTERRUPTED_WAIT: Duration = Duration::from_secs(1);

/// An order to the thread.
enum Order {
    Records(Block),
    Checkpoint,
    /// Finishes the output, if there is one, or continues with another; an error ends the writing.
    Exchange(Exchange),
}

/// Finishes an output and puts the next one in its place, if one follows.
type Exchange = Box<dyn FnOnce(&mut Option<Output>) -> io::Result<()> + Send>;

/// Whole records, with the ends of rounds among them.
#[derive(Default)]
struct Block {
    bytes: Vec<u8>,
    /// The offset in `bytes` at which each round was finished.
    rounds: Vec<usize>,
}

impl Block {
    fn with_room() -> Self {
        Self { bytes: Vec::with_capacity(2 * BLOCK_BYTES), rounds: Vec::new() }
    }

    fn is_empty(&self) -> bool {
        self.bytes.is_empty() && self.rounds.is_empty()
    }
}

/// Appends `records` to a writer, and marks the end of a round at each offset in `rounds`.
pub(crate) fn append_rounds(
    records: &[u8],
    rounds: &[usize],
    writer: &mut dyn RecordWriter,
) -> io::Result<()> {
    let mut begin = 0;
    for &end in rounds {
        writer.append(records.get(begin..end).unwrap_or_default())?;
        writer.finished_round()?;
        begin = end;
    }
    writer.append(records.get(begin..).unwrap_or_default())
}

#[derive(Default)]
struct State {
    orders: VecDeque<Order>,
    /// Bytes of records in `orders`, and in the order that is being executed.
    bytes: usize,
    /// The error after which the thread executes no more orders, until a caller has got it.
    failure: Option<io::Error>,
    failed: bool,
    /// True if no more orders can come.
    abandoned: bool,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    /// Signalled when there is an order.
    ordered: Condvar,
    /// Signalled when an order has been executed.
    done: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // No code panics while it holds the lock; if it did, the state would still be consistent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A writer to an [`Output`] that a thread owns. Its next call returns the thread's error.
pub(crate) struct WriteBehind {
    shared: Arc<Shared>,
    pending: Block,
    blocked_time: Duration,
}

impl WriteBehind {
    /// Starts the thread.
    ///
    /// # Errors
    /// If no thread can be started.
    pub(crate) fn start(output: Option<Output>) -> Result<Self, Error> {
        let shared = Arc::new(Shared::default());
        let its = Arc::clone(&shared);
        // The thread ends with the last order. It is not blocked_time for, because its output may block for ever.
        std::thread::Builder::new()
            .name("writer".to_owned())
            .spawn(move || execute_orders(&its, output))
            .map_err(|errno| Error::System { what: "cannot start a thread", errno })?;
        Ok(Self { shared, pending: Block::with_room(), blocked_time: Duration::ZERO })
    }

    /// Returns for how long callers were blocked because the buffer was full.
    pub(crate) fn blocked_time(&self) -> Duration {
        self.blocked_time
    }

    /// Has the thread continue with another output, after all that was appended.
    ///
    /// # Errors
    /// The error of an earlier order.
    pub(crate) fn exchange(&mut self, exchange: Exchange) -> io::Result<()> {
        self.send_block()?;
        self.order(Order::Exchange(exchange))
    }

    /// Waits for what an exchange sends.
    ///
    /// # Errors
    /// The error of an earlier order, after which the exchange is not executed.
    pub(crate) fn wait<T>(&mut self, answer: &Receiver<T>) -> io::Result<T> {
        let answered = match answer.recv_timeout(UNINTERRUPTED_WAIT) {
            Err(RecvTimeoutError::Timeout) => {
                // The disk or the pipe's reader decides how long this takes. A user who does not want to wait can end the process,
                // and keeps what is written.
                let _endable = InterruptibleGuard::acquire();
                answer.recv().ok()
            }
            answered => answered.ok(),
        };
        match answered {
            Some(answer) => Ok(answer),
            None => Err(self.shared.lock().failure.take().unwrap_or_else(|| io::ErrorKind::NotFound.into())),
        }
    }

    fn order(&mut self, order: Order) -> io::Result<()> {
        let mut state = self.shared.lock();
        let length = if let Order::Records(block) = &order { block.bytes.len() } else { 0 };
        // A block that is larger than the buffer fits into an empty one.
        if length > 0 && state.bytes > 0 && state.bytes + length > OUTPUT_BUFFER_BYTES && !state.failed {
            let begin = Instant::now();
            while state.bytes > 0 && state.bytes + length > OUTPUT_BUFFER_BYTES && !state.failed {
                state = self.shared.done.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            self.blocked_time += begin.elapsed();
        }
        if let Some(failure) = state.failure.take() {
            return Err(failure);
        }
        state.bytes += length;
        state.orders.push_back(order);
        drop(state);
        self.shared.ordered.notify_one();
        Ok(())
    }

    fn send_block(&mut self) -> io::Result<()> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let block = mem::replace(&mut self.pending, Block::with_room());
        self.order(Order::Records(block))
    }

    /// Appends whole records.
    ///
    /// # Errors
    /// The error of an earlier order.
    pub(crate) fn append(&mut self, records: &[u8]) -> io::Result<()> {
        self.pending.bytes.extend_from_slice(records);
        if self.pending.bytes.len() >= BLOCK_BYTES { self.send_block() } else { Ok(()) }
    }

    /// Marks the end of a round.
    pub(crate) fn finished_round(&mut self) {
        // Waking the thread for each round would cost more than writing the records.
        self.pending.rounds.push(self.pending.bytes.len());
    }

    /// Makes what was appended readable.
    ///
    /// # Errors
    /// The error of an earlier order.
    pub(crate) fn checkpoint(&mut self) -> io::Result<()> {
        self.send_block()?;
        self.order(Order::Checkpoint)
    }
}

impl Drop for WriteBehind {
    fn drop(&mut self) {
        self.shared.lock().abandoned = true;
        self.shared.ordered.notify_one();
    }
}

/// Executes orders until the last one, on the writer's thread.
fn execute_orders(shared: &Shared, mut output: Option<Output>) {
    // The thread needs little CPU time, but the buffer fills up while it waits behind thousands of busy threads.
    let _urgent = PriorityGuard::acquire();
    let mut state = shared.lock();
    loop {
        let Some(order) = state.orders.pop_front() else {
            if state.abandoned {
                return;
            }
            state = shared.ordered.wait(state).unwrap_or_else(PoisonError::into_inner);
            continue;
        };
        let failed = state.failed;
        drop(state);
        let mut written = 0;
        let result = match (order, &mut output) {
            // After an error no order is executed.
            _ if failed => Ok(()),
            (Order::Exchange(exchange), output) => exchange(output),
            (Order::Records(records), Some(output)) => {
                written = records.bytes.len();
                append_rounds(&records.bytes, &records.rounds, output.records())
            }
            (Order::Checkpoint, Some(output)) => {
                output.records().checkpoint().and_then(|()| output.check_not_deleted())
            }
            (Order::Records(_) | Order::Checkpoint, None) => Ok(()),
        };
        state = shared.lock();
        if let Err(failure) = result {
            (state.failed, state.failure) = (true, Some(failure));
        }
        state.bytes = state.bytes.saturating_sub(written);
        shared.done.notify_all();
    }
}
