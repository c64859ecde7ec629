//! Which of the processes that a tracker knows still live.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use host::procfs;
use model::Pid;
use rustc_hash::FxBuildHasher;
use tracker::Tracker;

/// With fewer processes it is not worth a look.
const MANY: usize = 1024;
/// Nor more often than this. Records wait for less long: a process that was dead at two looks has no more to come.
const BETWEEN: Duration = Duration::from_secs(30);

/// Looks now and then which processes live, for a tracker of this machine that runs for days: processes whose end was lost
/// would be remembered for ever.
#[derive(Debug)]
pub struct Census {
    last: Instant,
}

impl Default for Census {
    fn default() -> Self {
        Self { last: Instant::now() }
    }
}

impl Census {
    /// Lets the tracker forget the dead, where it is time to look.
    pub fn take(&mut self, tracker: &mut Tracker) {
        if tracker.processes() < MANY || self.last.elapsed() < BETWEEN {
            return;
        }
        self.last = Instant::now();
        // Where /proc cannot be read, nothing is known of anybody.
        if let Ok(alive) = procfs::processes() {
            let alive: HashSet<Pid, FxBuildHasher> = alive.into_iter().collect();
            tracker.forget_dead(|pid| alive.contains(&pid));
        }
    }
}
