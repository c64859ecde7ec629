//! Regular work while recording: fitting the sizes of stack copies, releasing memory, and following CPUs that go offline and come back.

use std::io;
use std::time::{Duration, Instant};

use host::sys::memory;

use super::Session;
use crate::notice::Notice;
use crate::open::{Opened, follow_cpus};
use crate::options::Options;
use crate::ring::Readers;

/// Interval between releases of unused memory.
const RELEASE_INTERVAL: Duration = Duration::from_secs(10);

/// Releases unused memory regularly, if the recording is one that stays open.
pub(super) struct Upkeep {
    stays_open: bool,
    released: Instant,
}

impl Upkeep {
    pub(super) fn new(options: &Options) -> Self {
        Self { stays_open: options.low_memory || options.in_parts, released: Instant::now() }
    }

    /// Releases unused memory to the system, if the last release is long enough ago.
    pub(super) fn release_memory(&mut self, readers: &Readers) {
        if self.stays_open && self.released.elapsed() >= RELEASE_INTERVAL {
            self.released = Instant::now();
            readers.release_unused();
            memory::release_freed();
        }
    }
}

impl Session<'_> {
    /// Changes the sizes of stack copies if the consumer wants others. Returns true if one has changed. Sends a notice the first time
    /// that stacks of waits have smaller copies than was asked for.
    pub(super) fn resize_copies(&mut self, opened: &mut Opened) -> bool {
        let wanted = self.consumer.wanted_copy_sizes();
        let is_changed = wanted.is_some_and(|sizes| opened.set_copy_sizes(sizes));
        if let Some((asked, given)) = opened.small_copies_of_waits().filter(|_| is_changed)
            && !std::mem::replace(&mut self.has_small_copies, true)
        {
            (self.notices)(Notice::WaitCopiesShrunk { asked, given });
        }
        is_changed
    }

    /// Starts to record CPUs that came online.
    pub(super) fn follow_cpus(&mut self, opened: &mut Opened, options: &Options) {
        let change = follow_cpus(opened, options, self.notices);
        self.event_ids.extend(change.ids);
        for pair in change.rings {
            let rings = [Some(pair.sideband), pair.samples].into_iter().flatten().collect();
            if let Err(error) = self.readers.add(rings) {
                self.failure.get_or_insert(io::Error::other(error));
            }
        }
    }
}
