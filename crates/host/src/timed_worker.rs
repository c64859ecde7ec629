//! Runs work with a timeout on a thread that is abandoned if the work does not end, because a file system does not answer.

use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

/// The longest time to wait for all files of generated code, or calls about them, that do not answer in time. One that is slow, as over a
/// network, answers within a second.
pub const TOTAL_TIMEOUT: Duration = Duration::from_secs(10);
/// The longest time to wait for one while stacks wait to be unwound, or in a view that goes on: what comes later is there at the next look.
pub const CALL_TIMEOUT: Duration = Duration::from_millis(200);

type Work = Box<dyn FnOnce() + Send>;

/// Maximum number of abandoned threads, each in a call that does not return. Further work is refused.
const MAX_ABANDONED_THREADS: usize = 32;

/// A thread that runs work with a timeout. If work exceeds its timeout, the thread is abandoned with it, and the next work gets
/// a new thread.
#[derive(Debug, Default)]
pub struct TimedWorker {
    work: Option<Sender<Work>>,
    abandoned: Vec<Receiver<()>>,
}

/// Receives the result of work that exceeded its timeout.
#[derive(Debug)]
pub struct PendingResult<T>(Receiver<T>);

/// The outcome of work with a timeout.
#[derive(Debug)]
pub enum Outcome<T> {
    /// The work ended in time.
    Done(T),
    /// The work exceeded its timeout and still runs.
    Pending(PendingResult<T>),
    /// The work was not started (too many threads are abandoned, or no thread can be started), or it panicked.
    Refused,
}

impl<T> PendingResult<T> {
    /// Returns the result if the work has ended.
    ///
    /// # Errors
    /// Returns itself if the work still runs.
    pub fn poll(self) -> Result<T, Self> {
        self.0.try_recv().map_err(|_| self)
    }
}

impl TimedWorker {
    /// Runs `work` on the thread and waits for its result for at most `timeout`.
    pub fn run<T: Send + 'static>(
        &mut self,
        timeout: Duration,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Outcome<T> {
        let (result, received) = channel();
        let (over, ended) = channel::<()>();
        let work: Work = Box::new(move || {
            // The receiver may have been dropped.
            let _ = result.send(work());
            drop(over);
        });
        if self.send(work).is_err() {
            return Outcome::Refused;
        }
        match received.recv_timeout(timeout) {
            Ok(value) => Outcome::Done(value),
            Err(RecvTimeoutError::Timeout) => {
                self.work = None;
                self.abandoned.push(ended);
                Outcome::Pending(PendingResult(received))
            }
            // The work panicked, which ended its thread.
            Err(RecvTimeoutError::Disconnected) => {
                self.work = None;
                Outcome::Refused
            }
        }
    }

    fn send(&mut self, work: Work) -> io::Result<()> {
        if self.work.is_none() {
            self.abandoned
                .retain(|ended| matches!(ended.try_recv(), Err(std::sync::mpsc::TryRecvError::Empty)));
            if self.abandoned.len() >= MAX_ABANDONED_THREADS {
                return Err(io::ErrorKind::ResourceBusy.into());
            }
            let (sender, receiver) = channel::<Work>();
            let run_all = move || receiver.into_iter().for_each(|work| work());
            thread::Builder::new().name("prof-files".to_owned()).spawn(run_all)?;
            self.work = Some(sender);
        }
        let sent = self.work.as_ref().is_some_and(|sender| sender.send(work).is_ok());
        if sent { Ok(()) } else { Err(io::ErrorKind::BrokenPipe.into()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::sync_channel;
    use std::time::Instant;

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn work_that_hangs_is_abandoned_and_the_next_is_done() {
        let mut worker = TimedWorker::default();
        let (release, held) = sync_channel::<()>(0);
        let Outcome::Pending(late) = worker.run(Duration::from_millis(10), move || held.recv().is_ok())
        else {
            panic!("it cannot be done")
        };
        let Err(late) = late.poll() else { panic!("it cannot be done") };
        assert!(matches!(worker.run(LONG, || 7), Outcome::Done(7)), "another thread does it");
        release.send(()).unwrap();
        let begin = Instant::now();
        let mut late = Err(late);
        while let Err(still) = late {
            assert!(begin.elapsed() < LONG);
            late = still.poll();
        }
        assert!(late.unwrap(), "a result that comes late is not lost");
    }

    #[test]
    fn threads_that_hang_are_few_and_come_back() {
        let mut worker = TimedWorker::default();
        let mut releases = Vec::new();
        let mut hang = |worker: &mut TimedWorker| {
            let (release, held) = sync_channel::<()>(0);
            releases.push(release);
            worker.run(Duration::ZERO, move || held.recv().is_ok())
        };
        for _ in 0..MAX_ABANDONED_THREADS {
            assert!(matches!(hang(&mut worker), Outcome::Pending(_)));
        }
        assert!(matches!(hang(&mut worker), Outcome::Refused));
        drop(releases);
        let begin = Instant::now();
        while !matches!(worker.run(LONG, || ()), Outcome::Done(())) {
            assert!(begin.elapsed() < LONG);
        }
    }
}
