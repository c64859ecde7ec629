//! The jitdumps of this machine's processes, for the unwinding of generated code.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use generated::{DumpFile, DumpSource};
use model::{Pid, ProcessLifetime};

use crate::perf_map;
use crate::timed_worker::{Outcome, TimedWorker};

/// The longest time to wait for one file system call, since stacks wait to be unwound meanwhile.
const PATIENCE: Duration = Duration::from_millis(200);
/// The longest time to wait for file systems that do not answer, all calls together.
const PATIENCE_TOGETHER: Duration = Duration::from_secs(10);

/// Opens and reads the jitdumps of processes on a thread of its own, and leaves that behind where a file system does not answer.
pub struct DumpFiles {
    life: Box<dyn Fn(Pid) -> Option<ProcessLifetime> + Send>,
    worker: TimedWorker,
    /// The time spent on waiting for answers that did not come.
    waited: Duration,
    created: Instant,
}

impl DumpFiles {
    /// Creates a source that asks `life` when each process lived, and as which user: by these a process's own dump is told from
    /// files that somebody else has left in its place. `life` returns `None` where no file of this machine can be the dump.
    pub fn new(life: impl Fn(Pid) -> Option<ProcessLifetime> + Send + 'static) -> Self {
        let (worker, waited) = (TimedWorker::default(), Duration::ZERO);
        Self { life: Box::new(life), worker, waited, created: Instant::now() }
    }

    fn run_in_time<T: Send + 'static>(&mut self, work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        let patience = PATIENCE.min(PATIENCE_TOGETHER.saturating_sub(self.waited));
        let begin = Instant::now();
        match self.worker.run(patience, work) {
            // Time is counted only where no answer came: to read takes its time, too.
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
