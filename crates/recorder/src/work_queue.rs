//! A queue of orders to a thread of its own. Who gives one wakes the thread only if it sleeps, and holds no lock then: orders come in
//! bursts, and each switch between threads costs as much as reading a file that is in memory.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::error::Error;

/// Maximum number of orders that wait while recording. Further ones are dropped: who gives orders gives them again.
const MAX_WAITING: usize = 1024;
/// Longest time to wait, at the end of a recording, for what is being read.
pub(crate) const FINISH_TIME: Duration = Duration::from_secs(1);

/// The giving side of the queue. When it is dropped, the thread ends after the order that it executes.
#[derive(Debug)]
pub(crate) struct WorkQueue<T>(Arc<Queue<T>>);

/// The taking side of the queue.
pub(crate) struct Orders<T>(Arc<Queue<T>>);

#[derive(Debug)]
struct Queue<T> {
    state: Mutex<State<T>>,
    /// Is notified when there is something to do for a sleeping thread.
    work: Condvar,
    /// Is notified when the thread goes to sleep.
    done: Condvar,
}

#[derive(Debug)]
struct State<T> {
    waiting: VecDeque<T>,
    is_asleep: bool,
    is_closed: bool,
}

impl<T: Send + 'static> WorkQueue<T> {
    /// Starts the thread. It is not waited for when the queue is dropped, because a file system or a process may keep it waiting for ever.
    ///
    /// # Errors
    /// If no thread can be started.
    pub(crate) fn start(name: &str, run: impl FnOnce(Orders<T>) + Send + 'static) -> Result<Self, Error> {
        let state = State { waiting: VecDeque::new(), is_asleep: false, is_closed: false };
        let queue = Arc::new(Queue { state: Mutex::new(state), work: Condvar::new(), done: Condvar::new() });
        let orders = Orders(Arc::clone(&queue));
        std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || run(orders))
            .map_err(|errno| Error::System { what: "cannot start a thread", errno })?;
        Ok(Self(queue))
    }

    /// Gives an order, unless too many wait.
    pub(crate) fn offer(&self, order: T) {
        self.0.change(|state| {
            if state.waiting.len() < MAX_WAITING {
                state.waiting.push_back(order);
            }
        });
    }

    /// Gives these orders, and waits until they and all before them are executed, or until `deadline`.
    pub(crate) fn finish(&self, orders: impl IntoIterator<Item = T>, deadline: Instant) {
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

impl<T> Drop for WorkQueue<T> {
    fn drop(&mut self) {
        self.0.change(|state| state.is_closed = true);
    }
}

impl<T> Iterator for Orders<T> {
    type Item = T;

    /// Returns the next order. Waits for it; `None` when nobody can give one any more.
    fn next(&mut self) -> Option<T> {
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

impl<T> Queue<T> {
    /// Changes the state, and wakes the thread if it sleeps.
    fn change(&self, change: impl FnOnce(&mut State<T>)) {
        let mut state = self.lock();
        change(&mut state);
        let wakes = state.is_asleep && (state.is_closed || !state.waiting.is_empty());
        state.is_asleep &= !wakes;
        drop(state);
        if wakes {
            self.work.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        // No code panics while it holds the lock; if it did, the queue would still be consistent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_executed_in_turn_and_waited_for() {
        let done = Arc::<Mutex<Vec<u32>>>::default();
        let seen = Arc::clone(&done);
        let run = move |orders: Orders<u32>| orders.for_each(|order| seen.lock().unwrap().push(order));
        let queue = WorkQueue::start("test", run).unwrap();
        queue.finish([], Instant::now() + Duration::from_secs(10));
        (0..100).for_each(|order| queue.offer(order));
        queue.finish(100..3000, Instant::now() + Duration::from_secs(10));
        assert_eq!(*done.lock().unwrap(), (0..3000).collect::<Vec<_>>());
    }

    #[test]
    fn who_waits_gives_up_in_time_and_too_many_orders_are_dropped() {
        let (began, may_end) = (Arc::new(std::sync::Barrier::new(2)), Arc::new(std::sync::Barrier::new(2)));
        let both = (Arc::clone(&began), Arc::clone(&may_end));
        let number = Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let executed = Arc::clone(&number);
        let queue = WorkQueue::start("test", move |mut orders: Orders<()>| {
            orders.next();
            both.0.wait();
            both.1.wait();
            orders.for_each(|()| {
                executed.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            });
        });
        let queue = queue.unwrap();
        queue.offer(());
        began.wait();
        (0..2 * MAX_WAITING).for_each(|_| queue.offer(()));
        queue.finish([], Instant::now() + Duration::from_millis(20));
        may_end.wait();
        queue.finish([], Instant::now() + Duration::from_secs(10));
        assert_eq!(number.load(std::sync::atomic::Ordering::Relaxed), MAX_WAITING);
    }
}
