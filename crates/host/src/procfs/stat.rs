//! Start, parent and CPU time of processes: `/proc/PID/stat`, `/proc/PID/status`, `/proc/stat` (proc(5)).

use std::fs;
use std::io;
use std::time::Duration;

use model::{Pid, ProcessLifetime, Tid};

use super::path;
use super::status::{Status, status_of_process};
use crate::sys::{clock, system};

const CLOCK_REALTIME: i32 = 0;
const CLOCK_BOOTTIME: i32 = 7;

/// Reads the life of a running process: its start, user and pid in its own namespace.
///
/// # Errors
/// `ENOENT` if there is no such process.
pub fn life(pid: Pid) -> io::Result<ProcessLifetime> {
    let Status { creator, own_number, .. } = status_of_process(pid)?;
    // Read last: if another process got the pid meanwhile, its start is later.
    let start = start_since_boot(&fs::read(path(pid, "stat")?)?)?;
    // Converted with the current difference of the clocks: a wall clock that was set since shifts the start.
    let boot = clock::now(CLOCK_REALTIME)?.saturating_sub(clock::now(CLOCK_BOOTTIME)?);
    Ok(ProcessLifetime {
        start: Some(boot.saturating_add(start)),
        end: None,
        user: Some(creator),
        own_number: Some(own_number),
    })
}

/// The state of a thread, as `/proc/TID/stat` has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TaskState {
    /// True if the thread has ended and its number is not free yet (a zombie).
    pub has_ended: bool,
    /// Number of threads of its process that have not ended, and its first one.
    pub threads: u64,
    /// Clock ticks from boot to its start.
    pub start: u64,
}

/// Reads the state of a thread.
///
/// # Errors
/// `ENOENT` or `ESRCH` if there is no such thread.
pub fn task_state(tid: Tid) -> io::Result<TaskState> {
    state_in(&fs::read(path(Pid(tid.0), "stat")?)?).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

fn state_in(stat: &[u8]) -> Option<TaskState> {
    let mut fields = fields_after_name(stat)?;
    let has_ended = matches!(fields.next()?, "Z" | "X" | "x");
    // Fields 20 and 22.
    let threads = fields.nth(16)?.parse().ok()?;
    Some(TaskState { has_ended, threads, start: fields.nth(1)?.parse().ok()? })
}

/// Returns the CPU time of a process and of the children that it has waited for.
///
/// # Errors
/// `ENOENT` if there is no such process.
pub fn cpu_time(pid: Pid) -> io::Result<Duration> {
    let stat = fs::read(path(pid, "stat")?)?;
    // utime, stime, cutime and cstime.
    let fields = fields_after_name(&stat).and_then(|fields| {
        let fields: Vec<u64> = fields.skip(11).take(4).filter_map(|field| field.parse().ok()).collect();
        (fields.len() == 4).then_some(fields)
    });
    fields.map(|ticks| ticks_to_duration(ticks.iter().sum())).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// Returns the mean busy time of a CPU since boot: the sum over all CPUs, divided by their number.
///
/// # Errors
/// `/proc` cannot be read.
pub fn busy_time() -> io::Result<Duration> {
    let text = fs::read_to_string("/proc/stat")?;
    busy_in(&text).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// Returns how often all CPUs have switched between threads since boot.
///
/// # Errors
/// `/proc` cannot be read.
pub fn context_switches() -> io::Result<u64> {
    let text = fs::read_to_string("/proc/stat")?;
    let count = text.lines().find_map(|line| line.strip_prefix("ctxt ")?.parse().ok());
    count.ok_or_else(|| io::ErrorKind::InvalidData.into())
}

fn busy_in(stat: &str) -> Option<Duration> {
    let all = stat.lines().next()?.strip_prefix("cpu ")?;
    let ticks: Vec<u64> = all.split_ascii_whitespace().filter_map(|field| field.parse().ok()).collect();
    // user, nice, system, idle, iowait, irq, softirq, steal. User time includes guest time.
    let [user, nice, system, _, _, irq, softirq, steal, ..] = ticks[..] else { return None };
    let is_cpu = |line: &&str| {
        line.strip_prefix("cpu").is_some_and(|rest| rest.starts_with(|digit: char| digit.is_ascii_digit()))
    };
    let cpus = u32::try_from(stat.lines().filter(is_cpu).count()).ok()?.max(1);
    let sum = [user, nice, system, irq, softirq, steal].into_iter().fold(0_u64, u64::saturating_add);
    Some(ticks_to_duration(sum) / cpus)
}

fn ticks_to_duration(ticks: u64) -> Duration {
    Duration::from_nanos(ticks.saturating_mul(1_000_000_000 / system::ticks_per_second()))
}

/// Returns the fields of `/proc/PID/stat` from the third on. The second one, the name, may contain any byte.
fn fields_after_name(stat: &[u8]) -> Option<std::str::SplitAsciiWhitespace<'_>> {
    let end = stat.iter().rposition(|&byte| byte == b')')?;
    Some(str::from_utf8(stat.get(end + 1..)?).ok()?.split_ascii_whitespace())
}

/// Returns the start time (field 22), in nanoseconds since boot.
fn start_since_boot(stat: &[u8]) -> io::Result<u64> {
    let field = fields_after_name(stat).and_then(|mut fields| fields.nth(19));
    let ticks: u64 = field.and_then(|field| field.parse().ok()).ok_or(io::ErrorKind::InvalidData)?;
    Ok(ticks.saturating_mul(1_000_000_000 / system::ticks_per_second()))
}

/// The parent and the session of a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lineage {
    /// The parent: the process that started it, or the one that adopted it.
    pub parent: Pid,
    /// The session: the pid of its leader, which may have ended.
    pub session: Pid,
}

/// Reads the lineage of a process.
///
/// # Errors
/// `ENOENT` if there is no such process.
pub fn lineage(pid: Pid) -> io::Result<Lineage> {
    lineage_in(&fs::read(path(pid, "stat")?)?).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

fn lineage_in(stat: &[u8]) -> Option<Lineage> {
    // `pid (comm) state ppid pgrp session …`
    let mut fields = fields_after_name(stat)?.skip(1);
    let mut number = || fields.next()?.parse().ok();
    let (parent, _group, session) = (number()?, number()?, number()?);
    Some(Lineage { parent: Pid(parent), session: Pid(session) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::perf_event::own_pid;

    #[test]
    fn busy_times_leave_out_idling() {
        let stat = "cpu  100 10 20 5000 300 4 5 1 77 0\ncpu0 1\ncpu1 2\nintr 5\n";
        assert_eq!(busy_in(stat), Some(ticks_to_duration(140) / 2));
        assert_eq!(busy_in("cpu 1 2\n"), None);
        assert!(busy_time().unwrap() > Duration::ZERO);
        assert!(cpu_time(own_pid()).is_ok());
    }

    #[test]
    fn a_name_cannot_pretend_another_start() {
        let fields = "S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 500 20";
        let tick = 1_000_000_000 / system::ticks_per_second();
        for name in ["a", "a) S 1 2 (b", ") ) 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7"] {
            let stat = format!("42 ({name}) {fields}");
            assert_eq!(start_since_boot(stat.as_bytes()).unwrap(), 500 * tick, "{name}");
        }
        for bad in ["", "42 (a", "42 (a) S 1", "42 (a) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 x 20"] {
            assert!(start_since_boot(bad.as_bytes()).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_thread_that_has_ended_is_no_process_that_has() {
        let stat = b"42 (a) Z) Z 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 3 18 500 20";
        assert_eq!(state_in(stat), Some(TaskState { has_ended: true, threads: 3, start: 500 }));
        let own = task_state(Tid(own_pid().0)).unwrap();
        assert!(!own.has_ended && own.threads >= 1 && own.start > 0, "{own:?}");
        assert_eq!(state_in(b"42 (a) Z 1 2"), None);
    }

    #[test]
    fn a_child_begins_after_us_and_now() {
        let own = life(own_pid()).unwrap().start.unwrap();
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let pid = Pid(child.id().try_into().unwrap());
        let begun = life(pid).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        let now = clock::now(CLOCK_REALTIME).unwrap();
        let start = begun.start.unwrap();
        assert!(own <= start && start <= now + 20_000_000, "{own} {start} {now}");
        assert_eq!(begun.own_number, Some(pid));
        assert!(life(Pid(0)).is_err());
    }

    #[test]
    fn names_with_anything_in_them_are_passed_over() {
        let lineage = Lineage { parent: Pid(7), session: Pid(5) };
        assert_eq!(lineage_in(b"42 (a) R 1 2 3) S 7 6 5 0 -1\n"), Some(lineage));
        assert_eq!(lineage_in(b"42 (\xff) S 7 6 5"), Some(lineage));
        assert_eq!(lineage_in(b"42 (a) S 7 6"), None);
        assert_eq!(lineage_in(b""), None);
    }
}
