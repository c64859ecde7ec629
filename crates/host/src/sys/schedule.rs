//! Scheduling of the calling thread: `sched_setattr(2)`.

/// The lowest real-time priority: above all ordinary threads, below every other real-time thread.
const MIN_REALTIME_PRIORITY: u32 = 1;
/// The nice value with the highest priority.
const MIN_NICE: i32 = -20;
/// The shortest time slice that a thread can request, in nanoseconds. Since Linux 6.12, threads with shorter slices run sooner.
const MIN_SLICE_NS: u64 = 100_000;
/// `SCHED_FLAG_RESET_ON_FORK`: children of the thread get default scheduling.
const RESET_ON_FORK: u64 = 1;

/// Schedules the calling thread for low latency, permanently: with real-time priority if that is permitted (`CAP_SYS_NICE`), else with
/// short time slices. For threads that use little CPU time.
pub fn prefer_low_latency() {
    let real_time = attr(libc::SCHED_FIFO, MIN_REALTIME_PRIORITY, 0, 0);
    let _ = set(&real_time) || set(&attr(libc::SCHED_OTHER, 0, nice(), MIN_SLICE_NS));
}

/// While this lives, the calling thread has real-time priority, if that is permitted. For short work that must not be preempted by
/// thousands of other threads.
#[derive(Debug)]
pub struct RealtimeGuard {
    before: Option<libc::sched_attr>,
}

impl RealtimeGuard {
    /// Changes the scheduling of the calling thread until the guard is dropped.
    pub fn acquire() -> Self {
        let before = get();
        let allowed = set(&attr(libc::SCHED_FIFO, MIN_REALTIME_PRIORITY, 0, 0));
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

/// While this lives, the calling thread has a high ordinary priority and short time slices, if that is permitted.
#[derive(Debug)]
pub struct PriorityGuard {
    nice: i32,
}

impl PriorityGuard {
    /// Changes the scheduling of the calling thread until the guard is dropped.
    pub fn acquire() -> Self {
        let nice = nice();
        let _ = set(&attr(libc::SCHED_OTHER, 0, MIN_NICE, MIN_SLICE_NS))
            || set(&attr(libc::SCHED_OTHER, 0, nice, MIN_SLICE_NS));
        Self { nice }
    }
}

impl Drop for PriorityGuard {
    fn drop(&mut self) {
        let ordinary = attr(libc::SCHED_OTHER, 0, self.nice, 0);
        set(&libc::sched_attr { sched_flags: 0, ..ordinary });
    }
}

/// Raises the priority of the calling thread and of threads that it starts later, if that is permitted. For short-lived processes.
pub fn raise_priority() {
    set(&libc::sched_attr { sched_flags: 0, ..attr(libc::SCHED_OTHER, 0, MIN_NICE, 0) });
}

fn nice() -> i32 {
    // SAFETY: getpriority touches no memory; 0 is the calling thread.
    unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) }
}

fn attr(policy: libc::c_int, priority: u32, nice: i32, slice_ns: u64) -> libc::sched_attr {
    libc::sched_attr {
        size: u32::try_from(size_of::<libc::sched_attr>()).unwrap_or(0),
        sched_policy: policy.unsigned_abs(),
        sched_flags: RESET_ON_FORK,
        sched_nice: nice,
        sched_priority: priority,
        sched_runtime: slice_ns,
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

/// Applies the attributes to the calling thread, and returns true if that is permitted.
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
