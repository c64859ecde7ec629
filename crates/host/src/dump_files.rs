//! Opens the jitdumps of processes of this machine, to unwind generated code.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use generated::{DumpFile, DumpSource};
use model::{Pid, ProcessLifetime};

use crate::perf_map;
use crate::timed_worker::{CALL_TIMEOUT, Outcome, TOTAL_TIMEOUT, TimedWorker};

/// Opens and reads jitdumps on a thread of its own, which is abandoned if a file system does not answer.
pub struct DumpFiles {
    life: Box<dyn Fn(Pid) -> Option<ProcessLifetime> + Send>,
    worker: TimedWorker,
    /// The time spent waiting for calls that were not answered in time.
    waited: Duration,
    created: Instant,
}

impl DumpFiles {
    /// Creates a source of jitdumps. `life` returns when a process lived and as which user, to distinguish its dump from a file that
    /// another user has placed there; it returns `None` if no file of this machine can be the dump.
    pub fn new(life: impl Fn(Pid) -> Option<ProcessLifetime> + Send + 'static) -> Self {
        let (worker, waited) = (TimedWorker::default(), Duration::ZERO);
        Self { life: Box::new(life), worker, waited, created: Instant::now() }
    }

    fn run_in_time<T: Send + 'static>(&mut self, work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        let timeout = CALL_TIMEOUT.min(TOTAL_TIMEOUT.saturating_sub(self.waited));
        let begin = Instant::now();
        match self.worker.run(timeout, work) {
            // Only unanswered calls count: reading takes time, too.
            Outcome::Done(value) => Some(value),
            Outcome::Pending(_) | Outcome::Refused => {
                self.waited += begin.elapsed();
                None
            }
        }
    }
}

impl fmt::Debug for DumpFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DumpFiles").field("waited", &self.waited).finish_non_exhaustive()
    }
}

impl DumpSource for DumpFiles {
    fn open(&mut self, pid: Pid, path: &[u8]) -> Option<Arc<dyn DumpFile>> {
        let life = (self.life)(pid)?;
        let path = path.to_vec();
        let file = self.run_in_time(move || perf_map::find_dump(pid, &path, life).ok().flatten())??;
        Some(Arc::new(file))
    }

    fn run(&mut self, read: Box<dyn FnOnce() + Send>) {
        self.run_in_time(read);
    }

    fn now(&self) -> Duration {
        self.created.elapsed()
    }
}
