//! Threads and their names.

use alloc::collections::VecDeque;
use alloc::format;

use hashbrown::HashMap;
use hashbrown::hash_map::Entry;
use model::{Name, Pid, Tid};
use rustc_hash::FxBuildHasher;

/// A thread, alive or ended.
#[derive(Debug)]
pub(crate) struct Thread {
    pub(crate) pid: Pid,
    /// The name, once a record gave one; `:TID` until then, as perf has it, and `[exiting]` for a thread that the kernel
    /// numbers no more (-1) while it takes it down.
    pub(crate) comm: Name,
    /// True if `comm` came from a record (or a parent that had it from one).
    pub(crate) named: bool,
    pub(crate) alive: bool,
}

/// All threads by their number: those that live, and those that ended lately.
#[derive(Default, Debug)]
pub(crate) struct Threads {
    threads: HashMap<Tid, Thread, FxBuildHasher>,
    /// Those that ended, oldest first.
    ended: VecDeque<Tid>,
}

/// The thread that a number names now: the same as before, or a new one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Seen {
    /// It names the thread it named before.
    Known,
    /// It names a new thread.
    New,
    /// It names a new thread; it was one of this process, which nobody had seen end.
    Replaced(Pid),
}

impl Threads {
    /// The thread with this number in this process, newly made where there is none.
    pub(crate) fn find(&mut self, pid: Pid, tid: Tid) -> (&mut Thread, Seen) {
        match self.threads.entry(tid) {
            Entry::Vacant(entry) => (entry.insert(Thread::new(pid, tid)), Seen::New),
            Entry::Occupied(entry) => {
                let thread = entry.into_mut();
                if thread.pid == pid {
                    return (thread, Seen::Known);
                }
                let seen = if thread.alive { Seen::Replaced(thread.pid) } else { Seen::New };
                *thread = Thread::new(pid, tid);
                (thread, seen)
            }
        }
    }

    /// The thread with this number in this process, if known.
    pub(crate) fn get(&self, pid: Pid, tid: Tid) -> Option<&Thread> {
        self.threads.get(&tid).filter(|thread| thread.pid == pid)
    }

    /// Like [`Threads::find`], but a known thread with this number has ended: a new one begins.
    pub(crate) fn begin(&mut self, pid: Pid, tid: Tid) -> (&mut Thread, Seen) {
        let thread = Thread::new(pid, tid);
        match self.threads.entry(tid) {
            Entry::Vacant(entry) => (entry.insert(thread), Seen::New),
            Entry::Occupied(entry) => {
                let slot = entry.into_mut();
                let seen = if slot.alive { Seen::Replaced(slot.pid) } else { Seen::New };
                *slot = thread;
                (slot, seen)
            }
        }
    }
}

impl Threads {
    /// A thread has ended. The one that did so longest ago is forgotten, where there are too many.
    pub(crate) fn end(&mut self, tid: Tid) {
        self.ended.push_back(tid);
        if self.ended.len() > crate::MAX_ENDED
            && let Some(oldest) = self.ended.pop_front()
            && self.threads.get(&oldest).is_some_and(|thread| !thread.alive)
        {
            self.threads.remove(&oldest);
        }
    }

    /// Forgets all threads of these processes.
    pub(crate) fn forget_processes(&mut self, gone: impl Fn(Pid) -> bool) {
        self.threads.retain(|_, thread| !gone(thread.pid));
    }

    /// Returns the number of known threads.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.threads.len()
    }
}

impl Thread {
    fn new(pid: Pid, tid: Tid) -> Self {
        // Neither has a COMM record.
        let special = match tid {
            Tid(0) => Some("swapper"),
            Tid(-1) => Some("[exiting]"),
            _ => None,
        };
        let comm = special.map_or_else(|| Name::from(format!(":{tid}").as_str()), Name::from);
        Self { pid, comm, named: special.is_some(), alive: true }
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    #[test]
    fn threads_without_a_record_are_called_by_their_number_or_what_it_says() {
        let mut threads = Threads::default();
        let mut name = |tid| threads.find(Pid(5), Tid(tid)).0.comm.to_string();
        assert_eq!([7, 0, -1].map(&mut name), [":7", "swapper", "[exiting]"]);
    }
}
