//! How long this process waits for file systems that may not answer.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// One in this number of seconds may be spent waiting, besides [`Patience::total`].
const WAITING_SHARE: u32 = 10;

/// The time that this process waits for file systems.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// For one answer. Who does not answer within that time is not asked again until that answer has come.
    pub answer: Duration,
    /// For all answers together, besides a tenth of the time that this process runs.
    pub total: Duration,
}

/// The time that was waited for all file systems together.
#[derive(Debug)]
pub(crate) struct WaitingTime {
    pub(super) patience: Patience,
    began: Instant,
    waited: Mutex<Duration>,
}

impl WaitingTime {
    /// Begins to measure.
    pub(crate) fn new(patience: Patience) -> Self {
        Self { patience, began: Instant::now(), waited: Mutex::new(Duration::ZERO) }
    }

    /// Returns the time to wait for the next answer; `None` if there is none left.
    pub(super) fn for_an_answer(&self) -> Option<Duration> {
        let total = self.patience.total + self.began.elapsed() / WAITING_SHARE;
        (*self.waited() < total).then_some(self.patience.answer)
    }

    /// Adds the time that was waited for an answer. Those that come within a tenth of their time are as good as any other's, however many.
    pub(super) fn add(&self, waited: Duration) {
        if waited > self.patience.answer / WAITING_SHARE {
            *self.waited() += waited;
        }
    }

    fn waited(&self) -> MutexGuard<'_, Duration> {
        // A panic in another thread leaves the sum as it was.
        self.waited.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
