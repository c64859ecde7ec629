//! What a file contains so far.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::output::{BuildIds, Description};
use crate::unwind::StackTotals;

/// The contents of a file so far.
#[derive(Clone)]
pub(super) struct Contents {
    /// Bytes of records.
    pub(super) bytes: u64,
    pub(super) samples: u64,
    /// The times of the first and the last sample, in nanoseconds.
    pub(super) sample_time: Option<(u64, u64)>,
    /// The thread that writes adds the build ids of what was mapped before the file.
    pub(super) build_ids: Arc<Mutex<BuildIds>>,
    /// The totals of stacks when the file began.
    pub(super) stacks_before: StackTotals,
}

impl Contents {
    pub(super) fn new(stacks_before: StackTotals, description: &Description) -> Self {
        let (bytes, samples, sample_time) = (0, 0, None);
        let build_ids = Arc::new(Mutex::new(description.build_ids.clone()));
        Self { bytes, samples, sample_time, build_ids, stacks_before }
    }

    pub(super) fn span(&self) -> Duration {
        let (first, last) = self.sample_time.unwrap_or_default();
        Duration::from_nanos(last.saturating_sub(first))
    }

    /// Appends these contents to those of the file before, because the next file could not be created.
    pub(super) fn appended_to(&self, before: Self) -> Self {
        lock(&before.build_ids).add(&lock(&self.build_ids));
        Self {
            bytes: before.bytes + self.bytes,
            samples: before.samples + self.samples,
            sample_time: match (before.sample_time, self.sample_time) {
                (Some((first, a)), Some((_, b))) => Some((first, a.max(b))),
                (before, since) => before.or(since),
            },
            ..before
        }
    }
}

/// Locks a value that the thread that writes has, too.
pub(super) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // No code panics while it holds the lock; if it did, the value would still be consistent.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
