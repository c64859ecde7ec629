//! Writing on a thread of its own, behind a bounded buffer: a disk that stalls for a while, or a slow reader of a pipe, keeps
//! nobody from the rings.

use std::collections::VecDeque;
use std::io;
use std::mem;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use host::sys::schedule::PriorityGuard;
use host::sys::signals::InterruptibleGuard;
use perfdata::features::Features;
use perfdata::write::RecordWriter;

use super::Output;
use crate::error::Error;

/// Bytes of records that may wait to be written.
pub(crate) const BUFFER: usize = 64 << 20;
/// Records are handed on in blocks of at least this many bytes; fewer where all that came shall be written.
const BLOCK: usize = 64 << 10;
/// The number of emptied blocks that are kept.
const SPARE: usize = 8;
/// The end is waited for so long before a signal may end us.
const PATIENCE: Duration = Duration::from_secs(1);

/// An order to the thread.
enum Order {
    Records(Block),
    FinishedInit,
    Checkpoint,
    /// Goes on with another output; what cannot be ends the writing.
    Exchange(Exchange),
    Finish(Box<Features>),
}

/// Finishes an output, and puts the next one in its place.
pub(crate) type Exchange = Box<dyn FnOnce(&mut Output) -> io::Result<()> + Send>;

/// Whole records.
#[derive(Default)]
struct Block {
    bytes: Vec<u8>,
    /// The number of bytes when each round was finished.
    rounds: Vec<usize>,
}

impl Block {
    fn with_room() -> Self {
        Self { bytes: Vec::with_capacity(2 * BLOCK), rounds: Vec::new() }
    }

    fn is_empty(&self) -> bool {
        self.bytes.is_empty() && self.rounds.is_empty()
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.rounds.clear();
    }

    fn write_to(&self, writer: &mut dyn RecordWriter) -> io::Result<()> {
        let mut begin = 0;
        for &end in &self.rounds {
            writer.append(self.bytes.get(begin..end).unwrap_or_default())?;
            writer.finished_round()?;
            begin = end;
        }
        writer.append(self.bytes.get(begin..).unwrap_or_default())
    }
}

#[derive(Default)]
struct State {
    orders: VecDeque<Order>,
    /// Bytes in `orders`, and in the one that is carried out.
    bytes: usize,
    spare: Vec<Block>,
    /// The reason why the thread carries nothing out any more.
    failure: Option<io::Error>,
    failed: bool,
    /// The size, when all is written.
    size: Option<u64>,
    /// Nobody gives orders any more.
    abandoned: bool,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    /// There is an order.
    ordered: Condvar,
    /// An order has been carried out.
    done: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Nobody panics while holding it; if so, the state is as good as it was.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes to an [`Output`] that belongs to a thread. What fails is told by the next call.
pub(crate) struct WriteBehind {
    shared: Arc<Shared>,
    pending: Block,
    waited: Duration,
}

impl WriteBehind {
    /// Starts the thread.
    ///
    /// # Errors
    /// Where there can be no more threads.
    pub(crate) fn start(output: Output) -> Result<Self, Error> {
        let shared = Arc::new(Shared::default());
        let its = Arc::clone(&shared);
        // It ends with the last order, and is not waited for: what it writes to may never take anything again.
        std::thread::Builder::new()
            .name("writer".to_owned())
            .spawn(move || carry_out(&its, output))
            .map_err(|errno| Error::System { what: "cannot start a thread", errno })?;
        Ok(Self { shared, pending: Block::with_room(), waited: Duration::ZERO })
    }

    /// For how long the buffer was full, and everything waited for the output.
    pub(crate) fn waited(&self) -> Duration {
        self.waited
    }

    /// Lets the thread go on with another output, behind all that was appended.
    ///
    /// # Errors
    /// What failed before.
    pub(crate) fn exchange(&mut self, exchange: Exchange) -> io::Result<()> {
        self.hand_on()?;
        self.order(Order::Exchange(exchange))
    }

    fn order(&mut self, order: Order) -> io::Result<()> {
        let mut state = self.shared.lock();
        let length = if let Order::Records(block) = &order { block.bytes.len() } else { 0 };
        // An empty buffer takes any block.
        if length > 0 && state.bytes > 0 && state.bytes + length > BUFFER && !state.failed {
            let begin = Instant::now();
            while state.bytes > 0 && state.bytes + length > BUFFER && !state.failed {
                state = self.shared.done.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            self.waited += begin.elapsed();
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

    fn hand_on(&mut self) -> io::Result<()> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let spare = self.shared.lock().spare.pop();
        let block = mem::replace(&mut self.pending, spare.unwrap_or_else(Block::with_room));
        self.order(Order::Records(block))
    }
}

impl RecordWriter for WriteBehind {
    fn append(&mut self, records: &[u8]) -> io::Result<()> {
        self.pending.bytes.extend_from_slice(records);
        if self.pending.bytes.len() >= BLOCK { self.hand_on() } else { Ok(()) }
    }

    fn finished_init(&mut self) -> io::Result<()> {
        self.hand_on()?;
        self.order(Order::FinishedInit)
    }

    fn finished_round(&mut self) -> io::Result<()> {
        // To be woken for each round would cost the thread more than to write what came in it.
        self.pending.rounds.push(self.pending.bytes.len());
        Ok(())
    }

    fn checkpoint(&mut self) -> io::Result<()> {
        self.hand_on()?;
        self.order(Order::Checkpoint)
    }

    fn finish(&mut self, features: &Features) -> io::Result<u64> {
        self.hand_on()?;
        self.order(Order::Finish(Box::new(features.clone())))?;
        let (begin, mut endable) = (Instant::now(), None);
        let mut state = self.shared.lock();
        while state.size.is_none() && !state.failed {
            let rest = PATIENCE.saturating_sub(begin.elapsed());
            state = if rest.is_zero() {
                // What it takes now is up to the disk, or the pipe's reader. Who does not want to wait finds what was
                // written before.
                endable.get_or_insert_with(InterruptibleGuard::acquire);
                self.shared.done.wait(state).unwrap_or_else(PoisonError::into_inner)
            } else {
                self.shared.done.wait_timeout(state, rest).unwrap_or_else(PoisonError::into_inner).0
            };
        }
        match (state.size, state.failure.take()) {
            (_, Some(failure)) => Err(failure),
            (Some(size), None) => Ok(size),
            // It has been told before.
            (None, None) => Err(io::ErrorKind::NotFound.into()),
        }
    }
}

impl Drop for WriteBehind {
    fn drop(&mut self) {
        self.shared.lock().abandoned = true;
        self.shared.ordered.notify_one();
    }
}

/// The thread.
fn carry_out(shared: &Shared, mut output: Output) {
    // It works little. Where it waits for thousands of others, the buffer fills up.
    let _urgent = PriorityGuard::acquire();
    let mut state = shared.lock();
    loop {
        let Some(order) = state.orders.pop_front() else {
            if state.abandoned || state.size.is_some() {
                return;
            }
            state = shared.ordered.wait(state).unwrap_or_else(PoisonError::into_inner);
            continue;
        };
        let failed = state.failed;
        drop(state);
        let (mut size, mut block) = (None, None);
        let result = match order {
            // After a failure nothing may follow.
            _ if failed => Ok(()),
            Order::Records(records) => {
                let result = records.write_to(output.records());
                block = Some(records);
                result
            }
            Order::FinishedInit => output.records().finished_init(),
            Order::Checkpoint => output.records().checkpoint().and_then(|()| output.still_there()),
            Order::Exchange(exchange) => exchange(&mut output),
            Order::Finish(features) => output.records().finish(&features).and_then(|written| {
                size = Some(written);
                output.still_there()
            }),
        };
        state = shared.lock();
        if let Err(failure) = result {
            (state.failed, state.failure) = (true, Some(failure));
        }
        if let Some(mut block) = block {
            state.bytes = state.bytes.saturating_sub(block.bytes.len());
            if state.spare.len() < SPARE && block.bytes.capacity() <= 4 * BLOCK {
                block.clear();
                state.spare.push(block);
            }
        }
        state.size = size;
        shared.done.notify_all();
    }
}
