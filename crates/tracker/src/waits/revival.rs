//! Threads that go on after their EXIT record.

use model::{Pid, Tid};

use super::{State, Thread, Timeline};

impl<S: Copy> Timeline<S> {
    /// Lets a thread go on that runs in its process after its EXIT record: it has executed a program with more rights, not ended.
    pub fn revived(&mut self, pid: Pid, tid: Tid) {
        if let Some(since) = self.gone.remove(&tid) {
            self.threads.insert(tid, Thread::new(pid, Some(since), State::Running, None));
        }
    }
}
