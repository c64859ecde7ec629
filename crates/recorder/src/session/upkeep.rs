//! What a recording that may run for days does from time to time.

use std::time::{Duration, Instant};

use host::sys::memory;

use crate::options::Options;
use crate::ring::Readers;

/// The interval at which memory is given back.
const BETWEEN_RELEASES: Duration = Duration::from_secs(10);

/// Gives memory back that is not needed any more, where the recording stays open.
pub(super) struct Upkeep {
    stays_open: bool,
    released: Instant,
}

impl Upkeep {
    pub(super) fn new(options: &Options) -> Self {
        Self { stays_open: options.light || options.in_parts, released: Instant::now() }
    }

    /// Gives back what is free, now and then.
    pub(super) fn release_memory(&mut self, readers: &Readers) {
        if self.stays_open && self.released.elapsed() >= BETWEEN_RELEASES {
            self.released = Instant::now();
            readers.release_unused();
            memory::give_back();
        }
    }
}
