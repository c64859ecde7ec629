//! A thread that looks at threads of Python while they run, far more often than there are rounds: each look sees one of the callers that a
//! function has, so that their shares are as exact as there are looks.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use host::sys::clock::{self, ClockId};
use host::sys::schedule;
use model::{Pid, Tid, Timestamp};
use python::{Look, ThreadView};
use rustc_hash::FxHashMap;

use crate::round_memory::RoundMemory;

/// The shortest time between two looks, and what is added at random at most: looks in step with a program's own period would see one
/// of its functions alone. Together more than 500 looks in a second of CPU time.
const SHORTEST: Duration = Duration::from_micros(1_200);
const RANDOM_MICROSECONDS: u64 = 1_000;
/// The CPU time for which a thread is looked at once: less than that between two looks, so that a thread which runs all the time is looked
/// at until the next round brings its samples.
const TIME_OF_LOOK: u64 = 1_200_000;
/// The maximum CPU time for which a thread is looked at after its last sample, and that before there are further samples of it: the longest
/// interval between rounds.
const MAX_CREDIT: u64 = 200_000_000;
/// The maximum number of threads, and of looks that wait for a round: what is more is dropped. With more threads of a process, all are
/// searched again: most have ended.
pub(super) const MAX_THREADS: usize = 1024;

/// The thread; it ends when this is dropped.
#[derive(Debug)]
pub(super) struct Looker(Arc<Shared>);

#[derive(Default, Debug)]
struct Shared {
    state: Mutex<State>,
    /// Is notified when a thread is to be looked at, and at the end.
    work: Condvar,
}

#[derive(Default, Debug)]
struct State {
    threads: Vec<Watched>,
    /// The number of the thread that is looked at next.
    next: usize,
    looks: Vec<(Pid, Tid, Option<Look>)>,
    is_closed: bool,
}

/// A thread with the CPU time for which it is still to be looked at.
#[derive(Debug)]
struct Watched {
    view: ThreadView,
    credit: u64,
    sampled: Timestamp,
    /// The CPU time in nanoseconds for which one sample stands, about.
    period: u64,
}

impl Looker {
    /// Starts the thread. The looks have their times of `clock`.
    pub(super) fn start(clock: ClockId) -> Option<Self> {
        let shared = Arc::new(Shared::default());
        let looker = Self(Arc::clone(&shared));
        std::thread::Builder::new().name("looks".to_owned()).spawn(move || shared.run(clock)).ok()?;
        Some(looker)
    }

    /// Looks at a thread from now on.
    pub(super) fn watch(&self, view: ThreadView, time: Timestamp) {
        let mut state = self.0.state();
        state.threads.retain(|watched| watched.view.thread() != view.thread());
        if state.threads.len() < MAX_THREADS {
            state.threads.push(Watched { view, credit: MAX_CREDIT, sampled: time, period: TIME_OF_LOOK });
            self.0.work.notify_one();
        }
    }

    /// Counts a sample of a thread: it is looked at for as long as its samples say that it ran.
    pub(super) fn sampled(&self, thread: (Pid, Tid), time: Timestamp) {
        let mut state = self.0.state();
        if let Some(watched) = state.threads.iter_mut().find(|watched| watched.view.thread() == thread) {
            let ran = time.0.saturating_sub(watched.sampled.0).min(2 * watched.period);
            watched.period = (7 * watched.period + ran) / 8;
            watched.sampled = time;
            let is_first = watched.credit < TIME_OF_LOOK;
            watched.credit = watched.credit.saturating_add(ran).min(MAX_CREDIT);
            if is_first && watched.credit >= TIME_OF_LOOK {
                self.0.work.notify_one();
            }
        }
    }

    /// Returns the looks since the last call, in the order of time; `None` for a thread that is not found any more.
    pub(super) fn take_looks(&self) -> Vec<(Pid, Tid, Option<Look>)> {
        std::mem::take(&mut self.0.state().looks)
    }
}

impl Drop for Looker {
    fn drop(&mut self) {
        self.0.state().is_closed = true;
        self.0.work.notify_one();
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self, clock: ClockId) {
        schedule::prefer_low_latency();
        let most = std::thread::available_parallelism().map_or(1, usize::from);
        let mut random = 0x2545_f491_4f6c_dd1d_u64;
        // Most of what a look reads is where the one before read it: all is asked for at once.
        let mut memories = FxHashMap::<(Pid, Tid), RoundMemory>::default();
        loop {
            let mut state = self.state();
            while !state.is_closed && state.threads.iter().all(|watched| watched.credit < TIME_OF_LOOK) {
                state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            if state.is_closed {
                return;
            }
            let due = state.take_due(most);
            drop(state);
            for view in due {
                let (process, thread) = view.thread();
                if memories.len() >= MAX_THREADS {
                    memories.clear();
                }
                let memory = memories.entry((process, thread)).or_default();
                memory.forget();
                let look = clock::now(clock).ok().and_then(|now| view.look(memory, Timestamp(now)));
                let mut state = self.state();
                if look.is_none() {
                    state.threads.retain(|watched| watched.view.thread() != (process, thread));
                }
                if state.looks.len() < MAX_THREADS {
                    state.looks.push((process, thread, look));
                }
            }
            // xorshift64
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            std::thread::sleep(SHORTEST + Duration::from_micros(random % RANDOM_MICROSECONDS));
        }
    }
}

impl State {
    /// Returns up to `most` threads that are due, in turn.
    fn take_due(&mut self, most: usize) -> Vec<ThreadView> {
        let mut due = Vec::new();
        for _ in 0..self.threads.len() {
            self.next = (self.next + 1) % self.threads.len();
            if let Some(watched) = self.threads.get_mut(self.next)
                && watched.credit >= TIME_OF_LOOK
            {
                watched.credit -= TIME_OF_LOOK;
                due.push(watched.view.clone());
                if due.len() >= most {
                    break;
                }
            }
        }
        due
    }
}
