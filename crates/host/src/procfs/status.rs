//! Users, state, signals and capabilities of a thread: `/proc/PID/status` (proc(5)).

use std::fs;
use std::io;

use model::{CpuId, Pid, Tid};

/// The fields of `/proc/PID/status` that a profiler needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Status {
    /// The process that the thread belongs to.
    pub process: Pid,
    /// The parent process.
    pub parent: Pid,
    /// The real user.
    pub user: u32,
    /// The effective user.
    pub effective_user: u32,
    /// The user that owns files which it creates (fsuid).
    pub creator: u32,
    /// The effective group.
    pub effective_group: u32,
    /// The pid in its own pid namespace.
    pub own_number: Pid,
    /// The state: `R`, `S`, `D`, `Z`, …
    pub state: u8,
    /// The signals that have handlers: bit N − 1 for signal N.
    pub caught_signals: u64,
    /// The effective capabilities: bit N for capability N.
    pub effective_capabilities: u64,
    /// The seccomp mode: 0 none, 1 strict, 2 filter.
    pub seccomp: u32,
}

/// A capability that profiling can need (capabilities(7)).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Capability {
    /// Locked memory without limit.
    IpcLock = 14,
    /// Events on other users' processes.
    SysPtrace = 19,
    /// Everything that `Perfmon` permits, and uprobes.
    SysAdmin = 21,
    /// Kernel addresses in `/proc/kallsyms`.
    Syslog = 34,
    /// All perf events (since Linux 5.8).
    Perfmon = 38,
}

impl Status {
    /// Parses the text of `/proc/PID/status`.
    ///
    /// # Errors
    /// `InvalidData` if a line is missing or malformed.
    pub fn parse(text: &str) -> io::Result<Self> {
        parse(text)
    }

    /// Returns true if the process has a handler for `signal`.
    pub fn catches(&self, signal: i32) -> bool {
        self.caught_signals & signal_bit(signal) != 0
    }

    /// Returns true if the process has `capability` (in its own user namespace).
    pub fn has(&self, capability: Capability) -> bool {
        self.effective_capabilities & (1 << capability as u8) != 0
    }
}

/// Reads the status of a thread.
///
/// # Errors
/// `ENOENT` if there is no such thread.
pub fn status(tid: Tid) -> io::Result<Status> {
    parse(&fs::read_to_string(super::path(Pid(tid.0), "status")?)?)
}

/// Reads the status of the first thread of a process.
pub(super) fn status_of_process(pid: Pid) -> io::Result<Status> {
    status(Tid(pid.0))
}

/// Returns the bit of a signal in a mask; 0 for an invalid number.
fn signal_bit(signal: i32) -> u64 {
    let bit = u32::try_from(signal).ok().and_then(|signal| signal.checked_sub(1));
    bit.and_then(|bit| 1_u64.checked_shl(bit)).unwrap_or(0)
}

/// Reads the status of the calling thread.
///
/// # Errors
/// `/proc` is not mounted.
pub fn own_status() -> io::Result<Status> {
    parse(&fs::read_to_string("/proc/thread-self/status")?)
}

/// Returns the CPUs that the calling thread may run on (`Cpus_allowed_list`).
///
/// # Errors
/// `/proc` is not mounted, or has no such line.
pub fn allowed_cpus() -> io::Result<Vec<CpuId>> {
    let text = fs::read_to_string("/proc/thread-self/status")?;
    let list = text.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    list.and_then(|list| crate::cpus::parse(list.trim())).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

fn parse(text: &str) -> io::Result<Status> {
    let field = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.and_then(|line| line.split_whitespace().next())
    };
    let last = |name: &str, count: usize| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        line.split_whitespace().take(count).last()
    };
    let number = |name| field(name).and_then(|text| text.parse::<i32>().ok());
    let status = || {
        let process = Pid(number("Tgid")?);
        Some(Status {
            process,
            parent: Pid(number("PPid")?),
            user: field("Uid")?.parse().ok()?,
            effective_user: last("Uid", 2)?.parse().ok()?,
            creator: last("Uid", 4)?.parse().ok()?,
            effective_group: last("Gid", 2)?.parse().ok()?,
            // Kernels without pid namespaces lack this line.
            own_number: last("NSpid", usize::MAX).and_then(|text| text.parse().ok()).map_or(process, Pid),
            state: field("State")?.bytes().next()?,
            caught_signals: field("SigCgt").and_then(|mask| u64::from_str_radix(mask, 16).ok()).unwrap_or(0),
            effective_capabilities: u64::from_str_radix(field("CapEff")?, 16).ok()?,
            seccomp: field("Seccomp").and_then(|text| text.parse().ok()).unwrap_or(0),
        })
    };
    status().ok_or_else(|| io::ErrorKind::InvalidData.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_by_their_names() {
        let text = "Name:\tUid: 5\nState:\tS (sleeping)\nTgid:\t42\nPid:\t43\nPPid:\t1\nUid:\t1000\t0\t0\t33\nGid:\t5\t6\t7\t8\n\
                    NSpid:\t42\t7\nSigCgt:\t0000000000000004\nCapEff:\t0000004000000000\nSeccomp:\t2\n";
        let status = parse(text).unwrap();
        assert_eq!((status.process, status.parent, status.user), (Pid(42), Pid(1), 1000));
        assert_eq!((status.state, status.seccomp), (b'S', 2));
        assert_eq!((status.creator, status.own_number), (33, Pid(7)));
        assert!(status.has(Capability::Perfmon) && !status.has(Capability::SysAdmin));
        assert_eq!((status.effective_user, status.effective_group), (0, 6));
        assert!(status.catches(3) && !status.catches(2) && !status.catches(0) && !status.catches(99));
        assert!(parse("Tgid:\t42\n").is_err());
    }

    #[test]
    fn we_may_run_somewhere() {
        assert!(!allowed_cpus().unwrap().is_empty());
    }

    #[test]
    fn our_own_can_be_read() {
        let own = own_status().unwrap();
        assert_eq!(own.process, crate::sys::perf_event::own_pid());
    }
}
