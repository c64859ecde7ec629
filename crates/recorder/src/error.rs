//! The errors of recording and counting.

use std::fmt;
use std::io;

use thiserror::Error;

use crate::event::EventError;

/// The command to type where `/proc` is that of another pid namespace.
pub(crate) const MOUNT_PROC: &str = "try: unshare --pid --fork --mount-proc, or mount -t proc proc /proc";

/// The reason why a recording or count could not be made. Each message says what failed, why, and what to type next.
#[derive(Error, Debug)]
pub enum Error {
    /// The list of events is wrong.
    #[error(transparent)]
    Event(#[from] EventError),
    /// The command does not exist.
    #[error("{}", no_command(name))]
    CommandNotFound {
        /// As typed.
        name: String,
    },
    /// The command exists and cannot be executed.
    #[error("cannot execute {name}: {}", Errno(errno))]
    NotExecutable {
        /// As typed.
        name: String,
        /// The error of `execve(2)`.
        errno: io::Error,
    },
    /// The command exists, but its interpreter or dynamic linker does not.
    #[error(
        "cannot execute {name}: the interpreter in its first line (of a program, its dynamic linker) is missing"
    )]
    NoInterpreter {
        /// As typed.
        name: String,
    },
    /// The process for the command could not be created.
    #[error("cannot start the command: {}{}", Errno(.0), next_step(more_descriptors(.0)))]
    Spawn(io::Error),
    /// The process does not exist.
    #[error("process {pid} does not exist; try: pgrep -a NAME")]
    NoSuchProcess {
        /// As typed.
        pid: i32,
    },
    /// The number of a process cannot be looked up, because `/proc` is that of another pid namespace.
    #[error(
        "/proc shows the processes of another pid namespace, and cannot tell which one {pid} is; {MOUNT_PROC}"
    )]
    ForeignProc {
        /// As typed.
        pid: i32,
    },
    /// The kernel refused the filter of a tracepoint.
    #[error(
        "the kernel rejects the filter {filter:?}; see the fields in /sys/kernel/tracing/events/SYSTEM/NAME/format"
    )]
    Filter {
        /// As typed.
        filter: String,
    },
    /// This user is not permitted to sample switches between threads.
    #[error("{}", no_switches(*paranoid))]
    SwitchesForbidden {
        /// `kernel.perf_event_paranoid`.
        paranoid: Option<i32>,
    },
    /// Switches cannot be sampled with one privilege level only: they occur in the kernel, and have stacks of both levels.
    #[error(
        "--off-cpu samples context switches with kernel and user stacks; try without --all-user and --all-kernel"
    )]
    SwitchesOfOneSide,
    /// The user has no processes.
    #[error("user {user} has no processes")]
    NoProcessOf {
        /// The user's number.
        user: u32,
    },
    /// A requested CPU is not online.
    #[error("CPU {cpu} is not online; see /sys/devices/system/cpu/online")]
    CpuOffline {
        /// Its number.
        cpu: u32,
    },
    /// The event's PMU counts for whole CPUs only, not for threads.
    #[error("{event} counts on whole CPUs, not for processes; try: -a -e {event}")]
    WholeCpusOnly {
        /// The event's name.
        event: String,
    },
    /// None of the requested CPUs has the event's PMU.
    #[error("{event} counts on CPUs {cpus} only; try: -C {cpus}")]
    NotOnTheseCpus {
        /// The event's name.
        event: String,
        /// The CPUs that it counts on.
        cpus: String,
    },
    /// A requested cgroup could not be opened.
    #[error(
        "cannot open the cgroup {path}: {}; paths are relative to the root of the hierarchy, as in /proc/PID/cgroup",
        Errno(errno)
    )]
    Cgroup {
        /// As typed.
        path: String,
        /// The error of the operating system.
        errno: io::Error,
    },
    /// The kernel has no perf events, or something forbids the call itself.
    #[error("{0}")]
    NoPerfEvents(&'static str),
    /// An event could not be opened.
    #[error("cannot open the event {event}: {}{}", Errno(errno), next_step(advice))]
    Open {
        /// Its name.
        event: String,
        /// The error of `perf_event_open(2)`.
        errno: io::Error,
        /// The remedy to type.
        advice: String,
    },
    /// More file descriptors are needed than the limit allows.
    #[error(
        "{needed} file descriptors are needed ({detail}) and {limit} are allowed; try: sudo prlimit --pid $$ --nofile={needed}, or fewer events"
    )]
    Descriptors {
        /// The number of file descriptors that are needed.
        needed: u64,
        /// The events and CPUs that they are for.
        detail: String,
        /// `RLIMIT_NOFILE`.
        limit: u64,
    },
    /// Not even the smallest ring could be mapped.
    #[error(
        "cannot map a ring of {size} bytes: {}{}",
        Errno(errno),
        no_ring(errno, *mlock_kb)
    )]
    Ring {
        /// Size in bytes of the smallest ring that was tried.
        size: u64,
        /// A value of `kernel.perf_event_mlock_kb` that suffices.
        mlock_kb: u64,
        /// The error of `mmap(2)`.
        errno: io::Error,
    },
    /// A system call failed without which nothing can be recorded.
    #[error("{what}: {}{}", Errno(errno), next_step(more_descriptors(errno)))]
    System {
        /// The operation that failed.
        what: &'static str,
        /// The error of the operating system.
        errno: io::Error,
    },
    /// The consumer of the records failed: usually its file could not be created or written.
    #[error("{}", unwritten(errno, *kept))]
    Consumer {
        /// The error of the consumer.
        errno: io::Error,
        /// True if a readable recording of what was written before exists.
        kept: bool,
    },
}

/// The advice where no file descriptor is left. We have raised our limit as far as we may, so `ulimit -n` cannot; this is as far as the
/// kernel lets anybody (`fs.nr_open`, by default).
pub(crate) const MORE_DESCRIPTORS: &str = "try: sudo prlimit --pid $$ --nofile=1048576";

/// Returns what to type where no file descriptor is left; else nothing.
fn more_descriptors(errno: &io::Error) -> &'static str {
    if errno.raw_os_error() == Some(EMFILE) { MORE_DESCRIPTORS } else { "" }
}

/// Says that a command does not exist. A name with a slash is not searched for in PATH (`execvp(3)`).
fn no_command(name: &str) -> String {
    let what = if name.contains('/') { "file" } else { "command" };
    let place = if name.contains('/') { "" } else { " in PATH" };
    let meant = match name {
        "dwarf" | "fp" | "lbr" => format!("; try: prof record --call-graph {name} -- COMMAND"),
        recording if recording.ends_with(".data") => format!("; of a recording, try: prof view {recording}"),
        _ => String::new(),
    };
    format!("there is no {what} {name:?}{place}{meant}")
}

fn next_step(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!("; {text}") }
}

fn unwritten(errno: &io::Error, kept: bool) -> String {
    if errno.kind() == io::ErrorKind::BrokenPipe {
        return "nobody reads the recording any more".to_owned();
    }
    let rest = if kept { "; what was written before can be read" } else { "" };
    format!("cannot write the recording: {}{rest}", Errno(errno))
}

/// Displays an I/O error in words, with the name of its errno.
pub struct Errno<'a>(pub &'a io::Error);

impl fmt::Display for Errno<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.0.to_string();
        let text = text.split(" (os error").next().unwrap_or_default();
        match self.0.raw_os_error().and_then(errno_name) {
            Some(name) => write!(f, "{text} ({name})"),
            None => f.write_str(text),
        }
    }
}

/// Returns why no ring could be mapped and what to try next, as the end of a message; empty if no more than the errno is known.
fn no_ring(errno: &io::Error, mlock_kb: u64) -> String {
    match errno.raw_os_error() {
        Some(EPERM | EAGAIN) => format!(
            "; the limit of locked memory is reached; try: sudo sysctl kernel.perf_event_mlock_kb={mlock_kb}, or ulimit -l \
             unlimited"
        ),
        Some(ENOMEM) => "; the machine, or the cgroup of this process, has no more memory".to_owned(),
        Some(EMFILE) => {
            format!("; all file descriptors are in use; {MORE_DESCRIPTORS}, or fewer events")
        }
        Some(ENFILE) => {
            "; the machine has reached its limit of open files; try a larger sysctl fs.file-max".to_owned()
        }
        Some(EINVAL) => "; the kernel refuses a ring of this size; try a smaller one (-m)".to_owned(),
        _ => String::new(),
    }
}

/// Returns the kernel's name of an errno (asm-generic/errno-base.h, errno.h); `None` for those that this crate does not get.
fn errno_name(code: i32) -> Option<&'static str> {
    Some(match code {
        EPERM => "EPERM",
        ENOENT => "ENOENT",
        ESRCH => "ESRCH",
        4 => "EINTR",
        5 => "EIO",
        E2BIG => "E2BIG",
        ENOEXEC => "ENOEXEC",
        EBADF => "EBADF",
        EAGAIN => "EAGAIN",
        ENOMEM => "ENOMEM",
        EACCES => "EACCES",
        EBUSY => "EBUSY",
        ENODEV => "ENODEV",
        20 => "ENOTDIR",
        21 => "EISDIR",
        EINVAL => "EINVAL",
        ENFILE => "ENFILE",
        EMFILE => "EMFILE",
        26 => "ETXTBSY",
        27 => "EFBIG",
        ENOSPC => "ENOSPC",
        30 => "EROFS",
        32 => "EPIPE",
        36 => "ENAMETOOLONG",
        ENOSYS => "ENOSYS",
        40 => "ELOOP",
        EOVERFLOW => "EOVERFLOW",
        EOPNOTSUPP => "EOPNOTSUPP",
        122 => "EDQUOT",
        _ => return None,
    })
}

/// Returns why switches between threads cannot be sampled, and what would permit it.
fn no_switches(paranoid: Option<i32>) -> String {
    let level = paranoid.map_or_else(String::new, |level| format!(" (it is {level})"));
    format!(
        "recording waits of the whole system needs CAP_PERFMON, or kernel.perf_event_paranoid at 1 or less{level}; try: sudo prof record \
         --off-cpu, or sudo sysctl kernel.perf_event_paranoid=1"
    )
}

pub(crate) const EPERM: i32 = 1;
pub(crate) const ENOENT: i32 = 2;
pub(crate) const ESRCH: i32 = 3;
pub(crate) const EINTR: i32 = 4;
pub(crate) const EIO: i32 = 5;
pub(crate) const E2BIG: i32 = 7;
pub(crate) const ENOEXEC: i32 = 8;
pub(crate) const EBADF: i32 = 9;
pub(crate) const EAGAIN: i32 = 11;
pub(crate) const ENOMEM: i32 = 12;
pub(crate) const EACCES: i32 = 13;
pub(crate) const EBUSY: i32 = 16;
pub(crate) const ENODEV: i32 = 19;
pub(crate) const EINVAL: i32 = 22;
pub(crate) const ENFILE: i32 = 23;
pub(crate) const EMFILE: i32 = 24;
pub(crate) const ENOSPC: i32 = 28;
pub(crate) const ENOSYS: i32 = 38;
pub(crate) const EOVERFLOW: i32 = 75;
pub(crate) const EOPNOTSUPP: i32 = 95;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_without_a_slash_are_looked_for_in_path() {
        let text = |name: &str| Error::CommandNotFound { name: name.to_owned() }.to_string();
        assert_eq!(text("nonesuch"), "there is no command \"nonesuch\" in PATH");
        assert!(text("a.data").ends_with("; of a recording, try: prof view a.data"));
        assert!(text("dwarf").contains("--call-graph dwarf"));
        assert!(text("./x").contains("no file") && !text("/nonexistent").contains("PATH"));
    }

    #[test]
    fn errors_are_words_and_a_name() {
        let error = io::Error::from_raw_os_error(EACCES);
        assert_eq!(Errno(&error).to_string(), "Permission denied (EACCES)");
        assert_eq!(Errno(&io::Error::other("no such luck")).to_string(), "no such luck");
    }
}
