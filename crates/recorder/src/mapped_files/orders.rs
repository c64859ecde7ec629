//! The queue of orders to the thread that reads mapped files. Who gives one wakes the thread only if it sleeps, and holds no lock then:
//! most mappings come in bursts, and each switch between threads costs as much as reading a file that is in memory.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::Request;
use crate::error::Error;

/// Maximum number of mappings that wait while recording. A file beyond that is read when it is mapped again.
const MAX_WAITING: usize = 1024;

/// An order to the thread.
#[derive(Debug)]
pub(super) enum Order {
    /// Reads a file, unless it is known by then.
    Read(Request),
    /// Looks whether a known file was written.
    ReadAgain(Request),
}

/// The giving side of the queue. When it is dropped, the thread ends after the order that it executes.
#[derive(Debug)]
pub(super) struct Orders(Arc<Queue>);

/// The taking side of the queue.
pub(super) struct Taker(Arc<Queue>);

#[derive(Default, Debug)]
struct Queue {
    state: Mutex<State>,
    /// Is notified when there is something to do for a sleeping thread.
    work: Condvar,
    /// Is notified when the thread goes to sleep.
    done: Condvar,
}

#[derive(Default, Debug)]
struct State {
    waiting: VecDeque<Order>,
    is_asleep: bool,
    is_closed: bool,
}

impl Orders {
    /// Starts the thread. It is not waited for when the queue is dropped, because a file system may block for ever.
    ///
    /// # Errors
    /// If no thread can be started.
    pub(super) fn start(run: impl FnOnce(Taker) + Send + 'static) -> Result<Self, Error> {
        let queue = Arc::<Queue>::default();
        let taker = Taker(Arc::clone(&queue));
        std::thread::Builder::new()
            .name("build-ids".to_owned())
            .spawn(move || run(taker))
            .map_err(|errno| Error::System { what: "cannot start a thread", errno })?;
        Ok(Self(queue))
    }

    /// Gives an order, unless too many wait.
    pub(super) fn offer(&self, order: Order) {
        self.0.change(|state| {
            if state.waiting.len() < MAX_WAITING {
                state.waiting.push_back(order);
            }
        });
    }

    /// Gives these orders, and waits until they and all before them are executed, or until `deadline`.
    pub(super) fn finish(&self, orders: impl IntoIterator<Item = Order>, deadline: Instant) {
        self.0.change(|state| state.waiting.extend(orders));
        let mut state = self.0.lock();
        while !(state.is_asleep && state.waiting.is_empty()) {
            let rest = deadline.saturating_duration_since(Instant::now());
            if rest.is_zero() {
                return;
            }
            state = self.0.done.wait_timeout(state, rest).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Drop for Orders {
    fn drop(&mut self) {
        self.0.change(|state| state.is_closed = true);
    }
}

impl Taker {
    /// Returns the next order. Waits for it; `None` when nobody can give one any more.
    pub(super) fn next(&self) -> Option<Order> {
        let mut state = self.0.lock();
        loop {
            if state.is_closed {
                return None;
            }
            if let Some(order) = state.waiting.pop_front() {
                return Some(order);
            }
            state.is_asleep = true;
            self.0.done.notify_all();
            state = self.0.work.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Queue {
    /// Changes the state, and wakes the thread if it sleeps.
    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.lock();
        change(&mut state);
        let wakes = state.is_asleep && (state.is_closed || !state.waiting.is_empty());
        state.is_asleep &= !wakes;
        drop(state);
        if wakes {
            self.work.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No code panics while it holds the lock; if it did, the queue would still be consistent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
