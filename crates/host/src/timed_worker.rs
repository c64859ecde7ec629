//! Work that may never end, because a file system does not answer: it is waited for only so long.

use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

type Work = Box<dyn FnOnce() + Send>;

/// Threads that are left behind, each in a call that does not return. With so many, nothing new is begun.
const MAX_ABANDONED_THREADS: usize = 32;

/// A thread that works for one who has other things to do. When work takes longer than its patience, the thread is left
/// behind with it, and another one takes what comes next.
#[derive(Debug, Default)]
pub struct TimedWorker {
    work: Option<Sender<Work>>,
    left_behind: Vec<Receiver<()>>,
}

/// A channel for the result of work that took too long: it may come later.
#[derive(Debug)]
pub struct PendingResult<T>(Receiver<T>);

/// The outcome of work under a limit of time.
#[derive(Debug)]
pub enum Outcome<T> {
    /// It is done.
    Done(T),
    /// It goes on.
    Pending(PendingResult<T>),
    /// It was not begun: too much else does not end, or there can be no thread.
    Refused,
}

impl<T> PendingResult<T> {
    /// The result, if it has come meanwhile.
    ///
    /// # Errors
    /// The same work, which still goes on.
    pub fn poll(self) -> Result<T, Self> {
        self.0.try_recv().map_err(|_| self)
    }
}

impl TimedWorker {
    /// Does `work` on the thread, and waits for it no longer than `patience`.
    pub fn run<T: Send + 'static>(
        &mut self,
        patience: Duration,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Outcome<T> {
        let (result, received) = channel();
        let (over, ended) = channel::<()>();
        let work: Work = Box::new(move || {
            // Whoever asked may have gone.
            let _ = result.send(work());
            drop(over);
        });
        if self.send(work).is_err() {
            return Outcome::Refused;
        }
        match received.recv_timeout(patience) {
            Ok(value) => Outcome::Done(value),
            Err(RecvTimeoutError::Timeout) => {
                self.work = None;
                self.left_behind.push(ended);
                Outcome::Pending(PendingResult(received))
            }
            // It panicked, and its thread ended.
            Err(RecvTimeoutError::Disconnected) => {
                self.work = None;
                Outcome::Refused
            }
        }
    }

    fn send(&mut self, work: Work) -> io::Result<()> {
        if self.work.is_none() {
            self.left_behind
                .retain(|ended| matches!(ended.try_recv(), Err(std::sync::mpsc::TryRecvError::Empty)));
            if self.left_behind.len() >= MAX_ABANDONED_THREADS {
                return Err(io::ErrorKind::ResourceBusy.into());
            }
            let (sender, receiver) = channel::<Work>();
            let go_on = move || receiver.into_iter().for_each(|work| work());
            thread::Builder::new().name("prof-files".to_owned()).spawn(go_on)?;
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
    fn work_that_hangs_is_left_behind_and_the_next_is_done() {
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
