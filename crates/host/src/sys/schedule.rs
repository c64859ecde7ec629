//! When a thread gets its turn: `sched_setattr(2)`.

/// Before all ordinary threads, and behind every other real-time thread.
const LOWEST_REAL_TIME: u32 = 1;
/// The most urgent of ordinary threads.
const MOST_URGENT: i32 = -20;
/// Linux 6.12 lets an ordinary thread ask for shorter turns, which come sooner; this is the shortest, in nanoseconds.
const SHORTEST_TURN: u64 = 100_000;
/// `SCHED_FLAG_RESET_ON_FORK`: what the thread starts is ordinary.
const RESET_ON_FORK: u64 = 1;

/// Lets the calling thread, which works little and must not wait, run as soon as it has something to do: before ordinary
/// threads where that is allowed (`CAP_SYS_NICE`), else in shorter turns than theirs.
pub fn prefer_low_latency() {
    let real_time = attr(libc::SCHED_FIFO, LOWEST_REAL_TIME, 0, 0);
    let _ = set(&real_time) || set(&attr(libc::SCHED_OTHER, 0, nice(), SHORTEST_TURN));
}

/// Lets the calling thread run before ordinary ones, where that is allowed, until it is dropped: for what is soon done, and
/// must not be interrupted by thousands of others in the middle.
#[derive(Debug)]
pub struct RealtimeGuard {
    before: Option<libc::sched_attr>,
}

impl RealtimeGuard {
    /// Changes how the calling thread is scheduled.
    pub fn acquire() -> Self {
        let before = get();
        let allowed = set(&attr(libc::SCHED_FIFO, LOWEST_REAL_TIME, 0, 0));
        Self { before: before.filter(|_| allowed) }
    }
}

impl Drop for RealtimeGuard {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            set(before);
        }
    }
}

/// Lets the calling thread run sooner than other ordinary ones, where that is allowed, until it is dropped.
#[derive(Debug)]
pub struct PriorityGuard {
    nice: i32,
}

impl PriorityGuard {
    /// Changes how the calling thread is scheduled.
    pub fn acquire() -> Self {
        let nice = nice();
        let _ = set(&attr(libc::SCHED_OTHER, 0, MOST_URGENT, SHORTEST_TURN))
            || set(&attr(libc::SCHED_OTHER, 0, nice, SHORTEST_TURN));
        Self { nice }
    }
}

impl Drop for PriorityGuard {
    fn drop(&mut self) {
        let ordinary = attr(libc::SCHED_OTHER, 0, self.nice, 0);
        set(&libc::sched_attr { sched_flags: 0, ..ordinary });
    }
}

/// Lets the calling thread, and those that it starts from now on, run sooner than other ordinary ones, where that is allowed:
/// for a process that works for a moment.
pub fn raise_priority() {
    set(&libc::sched_attr { sched_flags: 0, ..attr(libc::SCHED_OTHER, 0, MOST_URGENT, 0) });
}

fn nice() -> i32 {
    // SAFETY: getpriority touches no memory; 0 is the calling thread.
    unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) }
}

fn attr(policy: libc::c_int, priority: u32, nice: i32, turn: u64) -> libc::sched_attr {
    libc::sched_attr {
        size: u32::try_from(size_of::<libc::sched_attr>()).unwrap_or(0),
        sched_policy: policy.unsigned_abs(),
        sched_flags: RESET_ON_FORK,
        sched_nice: nice,
        sched_priority: priority,
        sched_runtime: turn,
        sched_deadline: 0,
        sched_period: 0,
    }
}

/// Returns the scheduling of the calling thread; `None` before Linux 3.14.
fn get() -> Option<libc::sched_attr> {
    let mut now = attr(0, 0, 0, 0);
    let size = now.size;
    // SAFETY: the kernel writes at most `size` bytes, which is the size of the structure.
    let got = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut now, size, 0) == 0 };
    got.then_some(now)
}

/// Returns true if the calling thread may have it.
fn set(attr: &libc::sched_attr) -> bool {
    // SAFETY: the kernel reads the structure, whose size it is told, before the call returns.
    unsafe { libc::syscall(libc::SYS_sched_setattr, 0, std::ptr::from_ref(attr), 0) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urgency_ends() {
        let before = nice();
        drop(PriorityGuard::acquire());
        assert_eq!(nice(), before);
        let how = |attr: libc::sched_attr| (attr.sched_policy, attr.sched_priority, attr.sched_nice);
        let before = get().map(how);
        drop(RealtimeGuard::acquire());
        assert_eq!(get().map(how), before);
    }
}
