//! Pairs switches out and in to intervals in which a thread ran, was runnable, or was blocked.
//!
//! Recordings describe a switch in different ways. `PERF_RECORD_SWITCH` says when a recorded thread was switched out or in, and
//! whether it was preempted. A sample of `sched:sched_switch` has the stack, the state, and the thread that runs next; a sample of
//! the `context-switches` event has the stack. A [`Timeline`] accepts all of them, and counts each switch once.

#[cfg(test)]
mod tests;

use alloc::vec::Vec;

use hashbrown::HashMap;
use model::{CpuId, Pid, Tid, Timestamp};
use rustc_hash::FxBuildHasher;

/// Greatest distance of two descriptions of one switch, in nanoseconds: the tracepoint fires before the record is written, and a
/// virtual machine may be stopped between them. Where a thread is switched in twice at a greater distance, the switch out
/// between was lost.
const SAME_SWITCH_NANOSECONDS: u64 = 1_000_000;

/// The activity of a thread in an interval.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Activity {
    /// It was on a CPU.
    Running,
    /// It was taken off the CPU, or gave it up, and could go on.
    Preempted,
    /// It had been woken, and waited for a CPU.
    Woken,
    /// It had been started, and waited for a CPU.
    Started,
    /// It slept.
    Blocked,
    /// It slept, and signals would not have woken it (`D`).
    Uninterruptible,
    /// It slept already when the recording began.
    BlockedSinceBefore,
    /// Switches were lost.
    Unknown,
    /// Switches were not recorded then.
    Unwatched,
}

/// A stretch of a thread's time. Intervals of a thread follow each other without gaps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Interval<S> {
    /// The process.
    pub pid: Pid,
    /// The thread.
    pub tid: Tid,
    /// The activity of the thread in the interval.
    pub activity: Activity,
    /// The beginning.
    pub start: Timestamp,
    /// The end, not before the beginning.
    pub end: Timestamp,
    /// The stack that it was switched out with, where that is known.
    pub stack: Option<S>,
    /// The CPU that it ran on, or ran on last.
    pub cpu: Option<CpuId>,
}

/// The state in which a thread is switched out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Leaving {
    /// It can go on (`R`).
    Preempted,
    /// It sleeps (`S`).
    Blocked,
    /// It sleeps, and signals do not wake it (`D`).
    Uninterruptible,
    /// It has ended.
    Dead,
    /// The sample does not say; the switch record does.
    Unsaid,
}

impl Leaving {
    /// Reads `prev_state` of `sched:sched_switch`: the low bits are `TASK_*` of `include/linux/sched.h`, the same since 4.14.
    pub fn from_prev_state(state: u64) -> Self {
        match state & 0xff {
            0 => Self::Preempted,
            state if state & 0x30 != 0 => Self::Dead,
            // TASK_IDLE is uninterruptible with TASK_NOLOAD: a kernel thread that rests.
            state if state & 0x82 == 0x02 => Self::Uninterruptible,
            _ => Self::Blocked,
        }
    }
}

/// Greatest time, in nanoseconds, from the switch in of a thread that has waited for a page to the sample of the page fault. The kernel
/// takes it when the page is mapped.
const MAX_FAULT_END_NANOSECONDS: u64 = 100_000;

/// Follows threads from switch to switch. Its methods must be called in the order of time.
#[derive(Debug)]
pub struct Timeline<S> {
    threads: HashMap<Tid, Thread<S>, FxBuildHasher>,
    /// The time at which the recording began.
    begin: Option<Timestamp>,
    /// Ended intervals that [`Timeline::take_ended`] has not returned yet.
    ended: Vec<Interval<S>>,
    /// True if switches are not recorded at the moment.
    is_paused: bool,
    /// True if switches have been held back: from then on, that a thread is switched in may have no record of its own.
    is_sampled: bool,
    /// Threads that ended lately, with the time of their end. Each is switched out at least once after it, which is ignored.
    gone: HashMap<Tid, Timestamp, FxBuildHasher>,
}

/// Age, in nanoseconds, from which on an ended thread may be forgotten.
const ENDED_THREAD_AGE_NANOSECONDS: u64 = 10_000_000_000;

/// A thread, and the state that it has had since a time.
#[derive(Debug)]
struct Thread<S> {
    pid: Pid,
    /// The time at which the state began; `None` for a thread that was there when the recording began.
    since: Option<Timestamp>,
    state: State<S>,
    cpu: Option<CpuId>,
    /// The stack of its last sample.
    sampled: Option<S>,
    /// The wait that has ended last, until the thread is switched out again: [`Timeline::faulted`] may set its stack.
    last_wait: Option<Interval<S>>,
}

impl<S> Thread<S> {
    fn new(pid: Pid, since: Option<Timestamp>, state: State<S>, cpu: Option<CpuId>) -> Self {
        Self { pid, since, state, cpu, sampled: None, last_wait: None }
    }
}

#[derive(Clone, Copy, Debug)]
enum State<S> {
    /// It existed before the recording, and no switch of it has been recorded. Has the stack that it was seen blocked with.
    Before(Option<S>),
    /// A new thread that has not run yet.
    New,
    Running,
    Off(Wait<S>),
    /// No event of it has been recorded since a gap. Has the wait that it was in when the gap began: it is taken to last until an
    /// event tells otherwise. Without one its time is unwatched.
    Unseen(Option<Wait<S>>),
}

/// The time of a thread off the CPU.
#[derive(Clone, Copy, Debug)]
struct Wait<S> {
    stack: Option<S>,
    leaving: Leaving,
    woken: Option<Timestamp>,
}

impl<S> Wait<S> {
    fn new(leaving: Leaving, stack: Option<S>) -> Self {
        Self { stack, leaving, woken: None }
    }
}

impl<S> Default for Timeline<S> {
    fn default() -> Self {
        let (threads, gone) = (HashMap::default(), HashMap::default());
        Self { threads, begin: None, ended: Vec::new(), is_paused: false, is_sampled: false, gone }
    }
}

impl<S: Copy> Timeline<S> {
    /// Sets the start of the recording, once. Without it, the recording starts with the first switch.
    pub fn begin(&mut self, time: Timestamp) {
        self.begin.get_or_insert(time);
    }

    /// Adds a thread that existed when the recording began.
    pub fn exists(&mut self, pid: Pid, tid: Tid) {
        self.threads.entry(tid).or_insert_with(|| Thread::new(pid, None, State::Before(None), None));
    }

    /// Adds a thread that was started at `time`.
    pub fn started(&mut self, pid: Pid, tid: Tid, time: Timestamp) {
        self.begin(time);
        self.gone.remove(&tid);
        let before = self.threads.insert(tid, Thread::new(pid, Some(time), State::New, None));
        self.ended.extend(before.and_then(|thread| thread.last_wait));
    }

    /// Starts the time of a running thread at its exec, and drops all time before: until then it was not the command.
    pub fn restarted(&mut self, pid: Pid, tid: Tid, time: Timestamp, cpu: Option<CpuId>) {
        self.begin = Some(time);
        self.ended.retain(|interval| interval.tid != tid);
        self.threads.insert(tid, Thread::new(pid, Some(time), State::Running, cpu));
    }

    /// Ends the current interval of a thread that gets another name at `time`. A thread that renames itself runs.
    pub fn renamed(&mut self, tid: Tid, time: Timestamp, by_itself: bool) {
        let Some(thread) = self.threads.get_mut(&tid) else { return };
        if !by_itself || self.is_paused {
            return self.end_state(tid, time);
        }
        // A thread that was switched out and runs was switched in: that record was lost.
        let is_lost = matches!(thread.state, State::Off(_));
        thread.state = State::Running;
        self.end(tid, if is_lost { Activity::Unknown } else { Activity::Running }, None, time);
    }

    /// Starts a gap in which switches are not recorded, until [`Timeline::resume`]. In it, only starts and ends of threads are
    /// reported.
    pub fn pause(&mut self, time: Timestamp) {
        self.end_states(time);
        (self.is_paused, self.is_sampled) = (true, true);
    }

    /// Ends a gap. A thread that was blocked before it is taken to be blocked still. Of the others nothing is known until their next
    /// event.
    pub fn resume(&mut self, time: Timestamp) {
        self.end_states(time);
        for thread in self.threads.values_mut() {
            thread.state = match thread.state {
                before @ State::Before(_) => before,
                State::Off(wait) if wait.woken.is_none() && wait.leaving != Leaving::Preempted => {
                    State::Unseen(Some(wait))
                }
                State::Off(_) | State::New | State::Running => State::Unseen(None),
                unseen @ State::Unseen(_) => unseen,
            };
        }
        self.is_paused = false;
    }

    /// Records that a thread was switched out: by a sample, which has its stack, or by a switch record (`sampled` is `None`), which may
    /// describe a switch that a sample has told of.
    pub fn switched_out(&mut self, pid: Pid, tid: Tid, at: At, leaving: Leaving, sampled: Option<S>) {
        if leaving == Leaving::Dead {
            return self.exited(tid, at.time);
        }
        if self.gone.contains_key(&tid) {
            return;
        }
        self.begin(at.time);
        let is_sampled = self.is_sampled;
        let thread = self.thread(pid, tid);
        // Its switch in was not recorded if it ran when the recording began, or since it was started or a gap ended.
        let mut activity = Activity::Running;
        if let State::Off(wait) = &mut thread.state {
            if sampled.is_none() && is_same_switch(thread.since, at.time) {
                if wait.leaving == Leaving::Unsaid {
                    wait.leaving = leaving;
                }
                return;
            }
            let wait = *wait;
            if is_sampled {
                // As far as is known, it has run since it was woken.
                self.end_wait(tid, wait, wait.woken.unwrap_or(at.time));
            } else {
                activity = Activity::Unknown;
            }
        }
        self.end(tid, activity, None, at.time);
        let thread = self.thread(pid, tid);
        // A preempted thread is still where it ran. A blocked one is not: its last sample says nothing of its wait.
        let stack = sampled.or(thread.sampled.filter(|_| leaving == Leaving::Preempted));
        (thread.state, thread.cpu) = (State::Off(Wait::new(leaving, stack)), at.cpu);
    }

    /// Records that a thread is woken. `mark` may add the waker to the stack that the thread was blocked with.
    pub fn woken(&mut self, tid: Tid, time: Timestamp, mark: impl FnOnce(S) -> S) {
        let Some(thread) = self.threads.get_mut(&tid) else { return };
        let before = match thread.state {
            State::Off(wait) => wait,
            State::Before(stack) => {
                let stack = stack.map(mark);
                self.end(tid, Activity::BlockedSinceBefore, stack, time);
                return self.set_off(tid, Wait { woken: Some(time), ..Wait::new(Leaving::Blocked, stack) });
            }
            // A thread that is woken has slept.
            State::Unseen(wait) => wait.unwrap_or(Wait::new(Leaving::Blocked, None)),
            State::New | State::Running => return,
        };
        // A second waking does not end the wait.
        if before.woken.is_none() {
            self.set_off(tid, Wait { woken: Some(time), stack: before.stack.map(mark), ..before });
        }
    }

    /// Records that a thread was switched in.
    pub fn switched_in(&mut self, pid: Pid, tid: Tid, at: At) {
        if self.gone.contains_key(&tid) {
            return;
        }
        self.begin(at.time);
        let thread = self.thread(pid, tid);
        match thread.state {
            State::Running if is_same_switch(thread.since, at.time) => return,
            State::Running => self.end(tid, Activity::Unknown, None, at.time),
            _ => self.end_state(tid, at.time),
        }
        let is_wait = |last: &mut Interval<S>| {
            last.tid == tid && matches!(last.activity, Activity::Blocked | Activity::Uninterruptible)
        };
        let last_wait = self.ended.pop_if(is_wait);
        let thread = self.thread(pid, tid);
        (thread.state, thread.cpu, thread.last_wait) = (State::Running, at.cpu, last_wait);
    }

    /// Records that a sample of a switch names a thread, of any process, as the next to run. With records of switches
    /// (`has_records`), threads that are not followed are ignored: they are not recorded.
    ///
    /// The kernel takes the time of the one that comes next from here on (`/proc/PID/schedstat`), and writes the record when
    /// the switch is done.
    pub fn comes_next(&mut self, tid: Tid, at: At, has_records: bool) {
        let is_sampled = self.is_sampled;
        let is_known = |thread: &Thread<S>| is_sampled || !matches!(thread.state, State::Before(_));
        if self.threads.get(&tid).is_some_and(is_known) || !has_records {
            self.switched_in(Pid::NONE, tid, at);
        }
    }

    /// Records that a thread ran before one that was switched in. If no other event has said so, it was switched out, for an
    /// unknown reason.
    pub fn ran_before(&mut self, tid: Tid, at: At) {
        if matches!(self.threads.get(&tid), Some(Thread { state: State::Running, .. })) {
            self.switched_out(Pid::NONE, tid, at, Leaving::Unsaid, None);
        }
    }

    /// Sets the stack of a thread's current wait, which was read from outside. `fuller` merges it with a stack that is already known.
    pub fn seen_blocked(&mut self, tid: Tid, stack: S, fuller: impl FnOnce(S, S) -> S) {
        let Some(thread) = self.threads.get_mut(&tid) else { return };
        let known = match &mut thread.state {
            State::Before(known) => known,
            State::Off(wait) => &mut wait.stack,
            State::Unseen(wait) => &mut wait.get_or_insert(Wait::new(Leaving::Blocked, None)).stack,
            State::New | State::Running => return,
        };
        *known = Some(known.map_or(stack, |known| fuller(known, stack)));
    }

    /// Sets the stack of the wait that a thread has just ended, by a sample of the page fault that it waited in.
    pub fn faulted(&mut self, tid: Tid, time: Timestamp, stack: S) {
        if let Some(last_wait) = self.threads.get_mut(&tid).and_then(|thread| thread.last_wait.as_mut())
            && time.0.saturating_sub(last_wait.end.0) <= MAX_FAULT_END_NANOSECONDS
        {
            last_wait.stack.get_or_insert(stack);
        }
    }

    /// Records a sample of a running thread. If no switch of the thread was recorded before, it has run all the time. `stack` is that
    /// of later switches by which the thread is preempted, if nothing else tells their stacks.
    pub fn sampled(&mut self, tid: Tid, stack: Option<S>) {
        let Some(thread) = self.threads.get_mut(&tid) else { return };
        thread.sampled = stack.or(thread.sampled);
        if matches!(thread.state, State::Before(_) | State::Unseen(_)) && !self.is_paused {
            thread.state = State::Running;
        }
    }

    /// Ends a thread at `time`.
    pub fn exited(&mut self, tid: Tid, time: Timestamp) {
        self.end_state(tid, time);
        if self.gone.len() >= crate::MAX_ENDED {
            self.gone.retain(|_, ended| time.0.saturating_sub(ended.0) < ENDED_THREAD_AGE_NANOSECONDS);
        }
        self.gone.insert(tid, time);
        self.threads.remove(&tid);
    }

    /// Lets a thread go on that runs in its process after its EXIT record: it has executed a program with more rights, not ended.
    pub fn revived(&mut self, pid: Pid, tid: Tid) {
        if let Some(since) = self.gone.remove(&tid) {
            self.threads.insert(tid, Thread::new(pid, Some(since), State::Running, None));
        }
    }

    /// Ends all threads at `time`, with the recording.
    pub fn finish(&mut self, time: Timestamp) {
        self.end_states(time);
        self.threads.clear();
    }

    /// Cuts the current interval of every thread at `time`. The part before can be taken; the part behind goes on in the same
    /// state. No later call may have an older time.
    pub fn cut(&mut self, time: Timestamp) {
        self.end_states(time);
        // Threads that are seen first after the cut have no time before it.
        self.begin = self.begin.map(|begin| begin.max(time));
    }

    /// Replaces the stacks of current waits, and of last samples.
    pub fn rename_stacks(&mut self, mut rename: impl FnMut(S) -> S) {
        for thread in self.threads.values_mut() {
            let of_wait = match &mut thread.state {
                State::Before(stack) | State::Off(Wait { stack, .. }) => stack.as_mut(),
                State::Unseen(wait) => wait.as_mut().and_then(|wait| wait.stack.as_mut()),
                State::New | State::Running => None,
            };
            of_wait.into_iter().chain(&mut thread.sampled).for_each(|stack| *stack = rename(*stack));
        }
    }

    /// Forgets threads for which `keep` returns false: those whose ends were lost.
    pub fn retain(&mut self, keep: impl Fn(Pid, Tid) -> bool) {
        self.threads.retain(|tid, thread| keep(thread.pid, *tid));
    }

    /// Returns true if the thread is followed.
    pub fn knows(&self, tid: Tid) -> bool {
        self.threads.contains_key(&tid)
    }

    /// Returns the number of threads that are followed.
    pub fn threads(&self) -> usize {
        self.threads.len()
    }

    /// Returns the intervals that have ended since the last call. The wait of a thread that runs again follows when the thread
    /// is switched out, or with the next cut: until then, [`Timeline::faulted`] may set its stack.
    pub fn take_ended(&mut self) -> Vec<Interval<S>> {
        core::mem::take(&mut self.ended)
    }

    fn thread(&mut self, pid: Pid, tid: Tid) -> &mut Thread<S> {
        let new = || Thread::new(pid, None, State::Before(None), None);
        let known = self.threads.entry(tid).or_insert_with(new);
        // A sample that names a thread as the next one does not know its process.
        if pid != Pid::NONE {
            known.pid = pid;
        }
        known
    }

    fn set_off(&mut self, tid: Tid, wait: Wait<S>) {
        if let Some(thread) = self.threads.get_mut(&tid) {
            thread.state = State::Off(wait);
        }
    }

    /// Ends the current intervals of all threads. Their states go on.
    fn end_states(&mut self, time: Timestamp) {
        let threads: Vec<Tid> = self.threads.keys().copied().collect();
        for tid in threads {
            self.end_state(tid, time);
        }
    }

    /// Ends the current interval of a thread by its state, which goes on.
    fn end_state(&mut self, tid: Tid, time: Timestamp) {
        match self.threads.get(&tid).map(|thread| thread.state) {
            None => {}
            Some(State::Running) => self.end(tid, Activity::Running, None, time),
            Some(State::New) => self.end(tid, Activity::Started, None, time),
            Some(State::Before(stack)) => self.end(tid, Activity::BlockedSinceBefore, stack, time),
            Some(State::Off(wait) | State::Unseen(Some(wait))) => self.end_wait(tid, wait, time),
            Some(State::Unseen(None)) => self.end(tid, Activity::Unwatched, None, time),
        }
    }

    fn end_wait(&mut self, tid: Tid, wait: Wait<S>, time: Timestamp) {
        let Wait { stack, leaving, woken } = wait;
        let activity = match leaving {
            Leaving::Preempted => Activity::Preempted,
            Leaving::Uninterruptible => Activity::Uninterruptible,
            Leaving::Blocked | Leaving::Unsaid | Leaving::Dead => Activity::Blocked,
        };
        match woken.filter(|_| activity != Activity::Preempted) {
            Some(woken) => {
                self.end(tid, activity, stack, woken);
                self.end(tid, Activity::Woken, stack, time);
            }
            None => self.end(tid, activity, stack, time),
        }
    }

    /// Ends the current interval of a thread, and starts the next one at `time`.
    fn end(&mut self, tid: Tid, activity: Activity, stack: Option<S>, time: Timestamp) {
        let Some(thread) = self.threads.get_mut(&tid) else { return };
        let (activity, stack) = if self.is_paused { (Activity::Unwatched, None) } else { (activity, stack) };
        self.ended.extend(thread.last_wait.take());
        let start = thread.since.or(self.begin).unwrap_or(time);
        let end = time.max(start);
        thread.since = Some(end);
        if end > start {
            let Thread { pid, cpu, .. } = *thread;
            self.ended.push(Interval { pid, tid, activity, start, end, stack, cpu });
        }
    }
}

/// Returns true if what is told at `time` may be the switch by which the state began at `since`.
fn is_same_switch(since: Option<Timestamp>, time: Timestamp) -> bool {
    since.is_some_and(|since| time.0.saturating_sub(since.0) <= SAME_SWITCH_NANOSECONDS)
}

/// The time and CPU of an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct At {
    /// The time.
    pub time: Timestamp,
    /// On which CPU, where that is known.
    pub cpu: Option<CpuId>,
}
