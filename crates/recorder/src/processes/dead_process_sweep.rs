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
pub(crate) struct DeadProcessSweep {
    last: Instant,
}

impl Default for DeadProcessSweep {
    fn default() -> Self {
        Self { last: Instant::now() }
    }
}

impl DeadProcessSweep {
    /// Lets the tracker forget the dead, where it is time to look.
    pub(crate) fn run_if_due(&mut self, tracker: &mut Tracker) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use decoder::SampleId;
    use decoder::record::{Comm, Record};
    use host::sys::perf_event::own_pid;
    use model::Tid;

    /// Beyond the largest number that a process can have (`PID_MAX_LIMIT`).
    const NOBODY: i32 = 1 << 22;

    /// So many processes that do not live, and ourselves.
    fn tracker(dead: i32) -> Tracker {
        let mut tracker = Tracker::new();
        for pid in (NOBODY + 1..=NOBODY + dead).map(Pid).chain([own_pid()]) {
            let (tid, sample_id) = (Tid(pid.0), SampleId::default());
            tracker.apply(&Record::Comm(Comm { pid, tid, comm: b"name", exec: true, sample_id }));
        }
        tracker
    }

    /// One that looked so long ago, if the machine has run for that long.
    fn swept_before(age: Duration) -> Option<DeadProcessSweep> {
        Instant::now().checked_sub(age).map(|last| DeadProcessSweep { last })
    }

    #[test]
    fn the_dead_are_forgotten_at_the_second_look_and_the_living_stay() {
        let mut tracker = tracker(MANY as i32);
        for left in [MANY + 1, 1] {
            let Some(mut sweep) = swept_before(BETWEEN) else { return };
            sweep.run_if_due(&mut tracker);
            assert_eq!(tracker.processes(), left);
        }
        assert!(tracker.knows(own_pid()));
    }

    #[test]
    fn looks_are_seldom_and_only_where_there_are_many() {
        let mut crowd = tracker(MANY as i32);
        let Some(mut just_looked) = swept_before(Duration::ZERO) else { return };
        for _ in 0..3 {
            just_looked.run_if_due(&mut crowd);
        }
        assert_eq!(crowd.processes(), MANY + 1);
        let mut few = tracker(MANY as i32 - 2);
        for _ in 0..3 {
            let Some(mut long_ago) = swept_before(BETWEEN) else { return };
            long_ago.run_if_due(&mut few);
        }
        assert_eq!(few.processes(), MANY - 1);
    }
}
