//! Has a tracker forget processes that have ended without an EXIT record.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use host::procfs;
use model::Pid;
use rustc_hash::FxBuildHasher;
use tracker::Tracker;

/// Minimum number of known processes for a sweep; with fewer it is not worth reading `/proc`.
pub(crate) const MIN_PROCESSES_TO_SWEEP: usize = 1024;
/// Shortest time between two sweeps. Records are in order sooner than that: a process that was dead at two sweeps has no more
/// records to come.
pub(crate) const SWEEP_INTERVAL: Duration = Duration::from_secs(30);

/// Regularly reads which processes live, for a tracker of this machine that runs for days: processes whose EXIT record was lost
/// would never be forgotten.
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
    /// Has the tracker forget dead processes, if a sweep is due.
    pub(crate) fn run_if_due(&mut self, tracker: &mut Tracker) {
        if tracker.processes() < MIN_PROCESSES_TO_SWEEP || self.last.elapsed() < SWEEP_INTERVAL {
            return;
        }
        self.last = Instant::now();
        // If /proc cannot be read, all may live.
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

    /// Above the largest pid (`PID_MAX_LIMIT`).
    const NOBODY: i32 = 1 << 22;

    /// A tracker of `dead` processes that do not exist, and of this one.
    fn tracker(dead: i32) -> Tracker {
        let mut tracker = Tracker::new();
        for pid in (NOBODY + 1..=NOBODY + dead).map(Pid).chain([own_pid()]) {
            let (tid, sample_id) = (Tid(pid.0), SampleId::default());
            tracker.apply(&Record::Comm(Comm { pid, tid, comm: b"name", exec: true, sample_id }));
        }
        tracker
    }

    /// A sweep that last ran `age` ago; `None` if the machine has not run for that long.
    fn swept_before(age: Duration) -> Option<DeadProcessSweep> {
        Instant::now().checked_sub(age).map(|last| DeadProcessSweep { last })
    }

    #[test]
    fn the_dead_are_forgotten_at_the_second_look_and_the_living_stay() {
        let mut tracker = tracker(MIN_PROCESSES_TO_SWEEP as i32);
        for left in [MIN_PROCESSES_TO_SWEEP + 1, 1] {
            let Some(mut sweep) = swept_before(SWEEP_INTERVAL) else { return };
            sweep.run_if_due(&mut tracker);
            assert_eq!(tracker.processes(), left);
        }
        assert!(tracker.knows(own_pid()));
    }

    #[test]
    fn looks_are_seldom_and_only_where_there_are_many() {
        let mut crowd = tracker(MIN_PROCESSES_TO_SWEEP as i32);
        let Some(mut just_looked) = swept_before(Duration::ZERO) else { return };
        for _ in 0..3 {
            just_looked.run_if_due(&mut crowd);
        }
        assert_eq!(crowd.processes(), MIN_PROCESSES_TO_SWEEP + 1);
        let mut few = tracker(MIN_PROCESSES_TO_SWEEP as i32 - 2);
        for _ in 0..3 {
            let Some(mut long_ago) = swept_before(SWEEP_INTERVAL) else { return };
            long_ago.run_if_due(&mut few);
        }
        assert_eq!(few.processes(), MIN_PROCESSES_TO_SWEEP - 1);
    }
}
