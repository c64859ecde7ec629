//! When threads have left a program for another.
//!
//! The kernel takes the memory of the old program away, its stack with it, before it writes the COMM record that tells of the
//! exec (`begin_new_exec()` in fs/exec.c: first `exec_mmap()`, then `__set_task_comm()`). In between, samples still name the
//! instruction that asked for it.

use std::collections::HashMap;

use decoder::{CpuMode, Sample};
use model::{Tid, Timestamp};
use rustc_hash::FxBuildHasher;

/// The longest time that the kernel needs, in nanoseconds: memory of gigabytes is taken away page by page.
const LONGEST: u64 = 200_000_000;

/// Beyond this many threads, those are forgotten whose exec is long ago.
const MANY: usize = 4096;

/// The threads whose exec has been told of, with its time.
#[derive(Default, Debug)]
pub(super) struct Execs(HashMap<Tid, Timestamp, FxBuildHasher>);

impl Execs {
    /// A thread tells of its exec. The records before this one may not have had their turn.
    pub(super) fn note(&mut self, tid: Tid, time: Timestamp) {
        if self.0.len() >= MANY {
            self.0.retain(|_, exec| exec.0.saturating_add(LONGEST) >= time.0);
        }
        self.0.insert(tid, time);
    }

    /// Returns true if the thread of a sample without any stack tells of an exec soon after.
    pub(super) fn follow(&self, sample: &Sample<'_>) -> bool {
        let (CpuMode::Kernel, Some((_, tid)), Some(time)) = (sample.mode, sample.thread, sample.time) else {
            return false;
        };
        let exec = self.0.get(&tid).and_then(|exec| exec.0.checked_sub(time.0));
        exec.is_some_and(|later| later < LONGEST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::Pid;

    #[test]
    fn what_comes_right_before_an_exec_belongs_to_it() {
        let mut execs = Execs::default();
        execs.note(Tid(7), Timestamp(1_000_000_000));
        let follow = |execs: &Execs, tid, time| {
            let (thread, time) = (Some((Pid(7), Tid(tid))), Some(Timestamp(time)));
            execs.follow(&Sample { mode: CpuMode::Kernel, thread, time, ..Sample::default() })
        };
        assert!(follow(&execs, 7, 999_000_000) && follow(&execs, 7, 1_000_000_000));
        assert!(!follow(&execs, 7, 1_000_000_001), "it runs the next program");
        assert!(!follow(&execs, 7, 500_000_000), "long before");
        assert!(!follow(&execs, 8, 999_000_000));
        for tid in 10_000..20_000 {
            execs.note(Tid(tid), Timestamp(1_000_000_000 + 100_000 * tid as u64));
        }
        assert!(execs.0.len() <= MANY && follow(&execs, 19_999, 2_999_900_000));
    }
}
