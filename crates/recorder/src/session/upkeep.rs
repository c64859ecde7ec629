//! What a recording that may run for days does from time to time.

use std::io;
use std::time::{Duration, Instant};

use host::sys::memory;

use super::Run;
use crate::open::Opened;
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
        Self { stays_open: options.low_memory || options.in_parts, released: Instant::now() }
    }

    /// Gives back what is free, now and then.
    pub(super) fn release_memory(&mut self, readers: &Readers) {
        if self.stays_open && self.released.elapsed() >= BETWEEN_RELEASES {
            self.released = Instant::now();
            readers.release_unused();
            memory::release_freed();
        }
    }
}

impl Run<'_> {
    /// CPUs that came or came back are recorded from now on.
    pub(super) fn look_after_cpus(&mut self, opened: &mut Opened, options: &Options) {
        let change = opened.look_after_cpus(options, self.notices);
        self.numbers.learn(change.numbers);
        for pair in change.rings {
            let rings = [Some(pair.sideband), pair.samples].into_iter().flatten().collect();
            if let Err(error) = self.readers.add(rings) {
                self.failure.get_or_insert(io::Error::other(error));
            }
        }
    }
}
