//! Clocks and CPU time: `clock_gettime(2)`, `getrusage(2)`.

use std::io;
use std::time::Duration;

use super::check;

/// The number of a clock (`CLOCK_MONOTONIC` is 1).
pub type ClockId = i32;

/// Returns the time of `clock`, in nanoseconds.
///
/// # Errors
/// `EINVAL` if the kernel does not know the clock.
pub fn now(clock: ClockId) -> io::Result<u64> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes the structure.
    check(unsafe { libc::clock_gettime(clock, &raw mut time) })?;
    Ok(nanoseconds(time))
}

/// Returns the resolution of `clock`, in nanoseconds.
///
/// # Errors
/// `EINVAL` if the kernel does not know the clock.
pub fn resolution(clock: ClockId) -> io::Result<u64> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes the structure.
    check(unsafe { libc::clock_getres(clock, &raw mut time) })?;
    Ok(nanoseconds(time))
}

/// CPU time of processes.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct CpuTime {
    /// In user space. Kernels that account by ticks put all time of processes shorter than a tick here (`cputime_adjust()` in
    /// kernel/sched/cputime.c).
    pub user: Duration,
    /// In the kernel.
    pub kernel: Duration,
}

impl CpuTime {
    /// Returns the sum, which is exact on every kernel.
    pub fn total(&self) -> Duration {
        self.user + self.kernel
    }

    /// Returns what was added since an earlier reading.
    pub fn since(self, before: Self) -> Self {
        Self {
            user: self.user.saturating_sub(before.user),
            kernel: self.kernel.saturating_sub(before.kernel),
        }
    }
}

/// Returns the CPU time of children that have been waited for, including their children (`RUSAGE_CHILDREN`), excluding those of
/// [`super::timed_child`].
pub fn cpu_time_of_children() -> CpuTime {
    // SAFETY: a structure of numbers, for which zeroes are valid.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes the structure.
    unsafe { libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage) };
    let part = |time: libc::timeval| {
        Duration::from_secs(u64::try_from(time.tv_sec).unwrap_or(0))
            + Duration::from_micros(u64::try_from(time.tv_usec).unwrap_or(0))
    };
    let [user, kernel] = super::timed_child::cpu_time();
    CpuTime {
        user: part(usage.ru_utime).saturating_sub(user),
        kernel: part(usage.ru_stime).saturating_sub(kernel),
    }
}

/// Returns the CPU time of all threads of this process (`CLOCK_PROCESS_CPUTIME_ID`).
pub fn cpu_time_of_this_process() -> Duration {
    Duration::from_nanos(now(libc::CLOCK_PROCESS_CPUTIME_ID).unwrap_or(0))
}

/// Returns the local date and time as `YYYYMMDDTHHMMSS`.
pub fn local_date_and_time() -> String {
    let seconds = now(libc::CLOCK_REALTIME).unwrap_or(0) / 1_000_000_000;
    let seconds = libc::time_t::try_from(seconds).unwrap_or(0);
    // SAFETY: a structure of numbers and a pointer that is only ever printed by libc; zeroes are valid.
    let mut parts: libc::tm = unsafe { std::mem::zeroed() };
    // SAFETY: both live until the call returns; where it fails, the zeroes stay.
    unsafe { libc::localtime_r(&raw const seconds, &raw mut parts) };
    format!(
        "{:04}{:02}{:02}T{:02}{:02}{:02}",
        i64::from(parts.tm_year) + 1900,
        parts.tm_mon + 1,
        parts.tm_mday,
        parts.tm_hour,
        parts.tm_min,
        parts.tm_sec
    )
}

fn nanoseconds(time: libc::timespec) -> u64 {
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    seconds.saturating_mul(1_000_000_000).saturating_add(u64::try_from(time.tv_nsec).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_sort_as_they_follow_each_other() {
        let date = local_date_and_time();
        assert_eq!((date.len(), date.find('T')), (15, Some(8)), "{date}");
        assert!(date.as_str() > "20260101T000000", "{date}");
        assert!(date.bytes().filter(u8::is_ascii_digit).count() == 14, "{date}");
    }
}
