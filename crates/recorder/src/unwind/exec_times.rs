//! The times at which threads left one program for another by exec.
//!
//! The kernel frees the memory of the old program, and with it the stack, before it writes the COMM record of the exec
//! (`begin_new_exec()` in fs/exec.c: first `exec_mmap()`, then `__set_task_comm()`). In between, samples have the instruction
//! pointer of the old program's system call, and no stack.

use std::collections::HashMap;

use decoder::{CpuMode, Sample};
use model::{Tid, Timestamp};
use rustc_hash::FxBuildHasher;

/// The longest time from the freeing of memory to the COMM record, in nanoseconds: the kernel frees gigabytes page by page.
const MAX_EXEC_NS: u64 = 200_000_000;

/// From this number of threads on, each exec removes those whose exec is longer ago than [`MAX_EXEC_NS`].
const PRUNING_THRESHOLD_THREADS: usize = 4096;

/// The time of the newest exec of each thread.
#[derive(Default, Debug)]
pub(super) struct ExecTimes(HashMap<Tid, Timestamp, FxBuildHasher>);

impl ExecTimes {
    /// Records the exec of a thread, as soon as its COMM record has come out of the ring: older samples of the thread may still
    /// wait for their turn in the order of time.
    pub(super) fn record(&mut self, tid: Tid, time: Timestamp) {
        if self.0.len() >= PRUNING_THRESHOLD_THREADS {
            self.0.retain(|_, exec| exec.0.saturating_add(MAX_EXEC_NS) >= time.0);
        }
        self.0.insert(tid, time);
    }

    /// Returns true if `sample` was taken in the kernel, and its thread's exec was recorded less than [`MAX_EXEC_NS`] later.
    pub(super) fn is_in_exec(&self, sample: &Sample<'_>) -> bool {
        let (CpuMode::Kernel, Some((_, tid)), Some(time)) = (sample.mode, sample.thread, sample.time) else {
            return false;
        };
        let exec = self.0.get(&tid).and_then(|exec| exec.0.checked_sub(time.0));
        exec.is_some_and(|later| later < MAX_EXEC_NS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::Pid;

    #[test]
    fn samples_right_before_an_exec_belong_to_it() {
        let mut execs = ExecTimes::default();
        execs.record(Tid(7), Timestamp(1_000_000_000));
        let is_in_exec = |execs: &ExecTimes, tid, time| {
            let (thread, time) = (Some((Pid(7), Tid(tid))), Some(Timestamp(time)));
            execs.is_in_exec(&Sample { mode: CpuMode::Kernel, thread, time, ..Sample::default() })
        };
        assert!(is_in_exec(&execs, 7, 999_000_000) && is_in_exec(&execs, 7, 1_000_000_000));
        assert!(!is_in_exec(&execs, 7, 1_000_000_001), "it runs the next program");
        assert!(!is_in_exec(&execs, 7, 500_000_000), "long before");
        assert!(!is_in_exec(&execs, 8, 999_000_000));
        for tid in 10_000..20_000 {
            execs.record(Tid(tid), Timestamp(1_000_000_000 + 100_000 * tid as u64));
        }
        assert!(execs.0.len() <= PRUNING_THRESHOLD_THREADS && is_in_exec(&execs, 19_999, 2_999_900_000));
    }
}
