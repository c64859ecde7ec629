//! Runs child processes with a time limit, and accounts for their CPU time.

use std::io;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::check;
use super::poll::LOOK_INTERVAL;
use super::spawn::ExitStatus;

/// Maximum time to wait for the end of a child that was killed: it may have a gigabyte of memory to release.
const DEATH_TIME: Duration = Duration::from_secs(2);

/// CPU time of these children in microseconds: user, kernel.
static USED_MICROSECONDS: [AtomicU64; 2] = [AtomicU64::new(0), AtomicU64::new(0)];

/// Runs a program until it ends, or kills it at `until` and returns `None`. Calls `when_late` once if it has not ended at `soon`. The
/// program must not leave processes behind.
///
/// # Errors
/// Those of starting it, and of `wait4(2)`.
pub fn run_until(
    command: &mut Command,
    (soon, until): (Instant, Instant),
    when_late: &mut dyn FnMut(),
) -> io::Result<Option<ExitStatus>> {
    let mut is_late = false;
    let mut child = command.spawn()?;
    let pid = libc::pid_t::try_from(child.id()).unwrap_or(libc::pid_t::MAX);
    loop {
        if let Some(status) = wait(pid, libc::WNOHANG)? {
            return Ok(Some(status));
        }
        let now = Instant::now();
        if now >= soon && !is_late {
            is_late = true;
            when_late();
        }
        if now >= until {
            // Fails only if it has ended meanwhile.
            let _ = child.kill();
            // It may never end: in a call to a file system that does not answer.
            while wait(pid, libc::WNOHANG)?.is_none() && now.elapsed() < DEATH_TIME {
                thread::sleep(LOOK_INTERVAL);
            }
            return Ok(None);
        }
        thread::sleep(LOOK_INTERVAL);
    }
}

/// Returns the CPU time of these children so far: user, kernel. `RUSAGE_CHILDREN` includes it.
pub(super) fn cpu_time() -> [Duration; 2] {
    [0, 1].map(|part| Duration::from_micros(USED_MICROSECONDS[part].load(Ordering::Relaxed)))
}

fn wait(pid: libc::pid_t, flags: libc::c_int) -> io::Result<Option<ExitStatus>> {
    let mut status = 0;
    // SAFETY: a structure of numbers, for which zeroes are valid.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    loop {
        // SAFETY: the kernel writes the number and the structure before the call returns.
        match check(unsafe { libc::wait4(pid, &raw mut status, flags, &raw mut usage) }) {
            Ok(0) => return Ok(None),
            Ok(_) => break,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    for (used, time) in USED_MICROSECONDS.iter().zip([usage.ru_utime, usage.ru_stime]) {
        let microseconds = time.tv_sec.saturating_mul(1_000_000).saturating_add(time.tv_usec);
        used.fetch_add(u64::try_from(microseconds).unwrap_or(0), Ordering::Relaxed);
    }
    Ok(Some(if libc::WIFSIGNALED(status) {
        ExitStatus::Signal(libc::WTERMSIG(status))
    } else {
        ExitStatus::Code(libc::WEXITSTATUS(status))
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(script: &str, within: Duration) -> Option<ExitStatus> {
        let (now, mut is_late) = (Instant::now(), 0);
        let mut command = Command::new("sh");
        let times = (now + within / 2, now + within);
        let status = run_until(command.args(["-c", script]), times, &mut || is_late += 1).unwrap();
        assert_eq!(is_late, u32::from(status.is_none()), "{script}");
        status
    }

    #[test]
    fn helpers_end_by_themselves_or_in_time() {
        assert_eq!(run("exit 3", Duration::from_secs(60)), Some(ExitStatus::Code(3)));
        let begin = Instant::now();
        assert_eq!(run("exec sleep 60", Duration::from_millis(50)), None);
        assert!(begin.elapsed() < Duration::from_secs(30));
        let now = Instant::now();
        assert!(run_until(&mut Command::new("/no/such/program"), (now, now), &mut || ()).is_err());
    }

    #[test]
    fn their_cpu_time_is_not_that_of_the_command() {
        let before = cpu_time();
        let busy = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done";
        assert_eq!(run(busy, Duration::from_secs(60)), Some(ExitStatus::Code(0)));
        let used = cpu_time();
        assert!(used[0] + used[1] >= before[0] + before[1] + Duration::from_millis(2));
        // Tests of other modules may have children of their own.
        assert!(super::super::clock::cpu_time_of_children().user < Duration::from_secs(3600));
    }
}
