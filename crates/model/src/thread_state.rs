//! What a thread did while it did not compute: the innermost "frame" of a stack in a profile of wall-clock time.

use alloc::string::String;
use core::fmt;

/// The state of a thread in a stretch of time.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ThreadState {
    /// On a CPU. Only where no sample says with which stack: running time with samples ends in their innermost function.
    Running,
    /// Ready to run, while others had the CPU.
    Runnable(Runnable),
    /// Off the CPU until something happens.
    Blocked(Blocked),
    /// The recording does not say: switch records were lost.
    Unknown,
    /// No state of its own: the waker that ended the blocked state below it.
    WokenBy(Waker),
}

/// The thread or interrupt that woke a thread.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Waker {
    /// A thread of this name.
    Thread(String),
    /// A deferred interrupt (softirq), while a thread of this name had the CPU: the network's are often on its behalf.
    DeferredInterrupt(String),
    /// An interrupt: a timer, a device.
    Interrupt,
    /// A thread that was not recorded.
    Outside,
}

/// The reason why a thread that could run did not.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Runnable {
    /// It was taken off the CPU, or gave it up (`sched_yield(2)`).
    Preempted,
    /// It had been woken and had to wait for its turn.
    Woken,
    /// It had just been started.
    Started,
}

/// The event or resource that a thread waited for.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Blocked {
    /// In one of the calls that event loops rest in (epoll, poll, select, io_uring, signals), by name.
    Events(String),
    /// For this: a futex, a pipe, a child, a page of a file; else the system call.
    For(String),
    /// Not known what for.
    Somehow,
    /// Not known what for, in uninterruptible sleep (`D` in ps).
    Uninterruptible,
    /// It slept when the recording began: with which stack is not known.
    SinceBefore,
}

impl ThreadState {
    /// Returns true if the thread was off the CPU, or may have been.
    pub fn is_off_cpu(&self) -> bool {
        !matches!(self, Self::Running)
    }
}

impl fmt::Display for ThreadState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Running => f.write_str("running: not sampled"),
            Self::Runnable(Runnable::Preempted) => f.write_str("runnable: preempted"),
            Self::Runnable(Runnable::Woken) => f.write_str("runnable: woken"),
            Self::Runnable(Runnable::Started) => f.write_str("runnable: started"),
            Self::Blocked(Blocked::Events(what)) => write!(f, "waiting: {what}"),
            Self::Blocked(Blocked::For(what)) => write!(f, "blocked: {what}"),
            Self::Blocked(Blocked::Somehow) => f.write_str("blocked"),
            Self::Blocked(Blocked::Uninterruptible) => f.write_str("blocked: uninterruptible"),
            Self::Blocked(Blocked::SinceBefore) => f.write_str("blocked: since before the recording"),
            Self::Unknown => f.write_str("unknown: switches lost"),
            Self::WokenBy(Waker::Thread(name)) => write!(f, "woken by: {name}"),
            Self::WokenBy(Waker::DeferredInterrupt(name)) => write!(f, "woken by: softirq in {name}"),
            Self::WokenBy(Waker::Interrupt) => f.write_str("woken by: interrupt"),
            Self::WokenBy(Waker::Outside) => f.write_str("woken by: thread not recorded"),
        }
    }
}
