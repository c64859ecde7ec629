//! Why there is no recording.

use std::fmt;
use std::io;

use thiserror::Error;

use crate::event::EventError;

/// The reason why a recording could not be made. Each message says what, why, and what to type next.
#[derive(Error, Debug)]
pub enum Error {
    /// The event list was not understood.
    #[error(transparent)]
    Event(#[from] EventError),
    /// There is no such command.
    #[error("{}", no_command(name))]
    CommandNotFound {
        /// As typed.
        name: String,
    },
    /// The command is there and cannot be executed.
    #[error("cannot execute {name}: {}", Errno(errno))]
    NotExecutable {
        /// As typed.
        name: String,
        /// The error of `execve(2)`.
        errno: io::Error,
    },
    /// The command is there, and what would run it is not.
    #[error(
        "cannot execute {name}: the interpreter in its first line (of a program, its dynamic linker) is missing"
    )]
    NoInterpreter {
        /// As typed.
        name: String,
    },
    /// The command could not be started for a reason of our own.
    #[error("cannot start the command: {}", Errno(.0))]
    Spawn(io::Error),
    /// There is nobody to observe.
    #[error("process {pid} does not exist")]
    NoSuchProcess {
        /// As typed.
        pid: i32,
    },
    /// A filter that the tracepoint does not take.
    #[error(
        "the kernel rejects the filter {filter:?}; see the fields in /sys/kernel/tracing/events/SYSTEM/NAME/format"
    )]
    Filter {
        /// As typed.
        filter: String,
    },
    /// Switches between threads may not be sampled.
    #[error("{}", no_switches(*paranoid))]
    SwitchesForbidden {
        /// `kernel.perf_event_paranoid`.
        paranoid: Option<i32>,
    },
    /// Switches between threads happen in the kernel, with stacks of both sides.
    #[error(
        "--off-cpu samples context switches with kernel and user stacks; try without --all-user and --all-kernel"
    )]
    SwitchesOfOneSide,
    /// A user without processes.
    #[error("user {user} has no processes")]
    NoProcessOf {
        /// The user's number.
        user: u32,
    },
    /// A CPU that was asked for.
    #[error("CPU {cpu} is not online; see /sys/devices/system/cpu/online")]
    CpuOffline {
        /// Its number.
        cpu: u32,
    },
    /// A PMU that belongs to no thread.
    #[error("{event} counts on whole CPUs, not for processes; try: -a -e {event}")]
    WholeCpusOnly {
        /// The event's name.
        event: String,
    },
    /// A PMU that none of the CPUs has.
    #[error("{event} counts on CPUs {cpus} only; try: -C {cpus}")]
    NotOnTheseCpus {
        /// The event's name.
        event: String,
        /// The CPUs that it counts on.
        cpus: String,
    },
    /// A cgroup that was asked for.
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
    /// Too many file descriptors would be needed, or none are left.
    #[error(
        "{needed} file descriptors are needed ({detail}) and {limit} are allowed; try: ulimit -n {needed}, or fewer events"
    )]
    Descriptors {
        /// The number of file descriptors that are needed.
        needed: u64,
        /// The events and CPUs that they are for.
        detail: String,
        /// `RLIMIT_NOFILE`.
        limit: u64,
    },
    /// No ring fits, not even the smallest.
    #[error(
        "cannot map a ring of {size} bytes: {}{}",
        Errno(errno),
        no_ring(errno, *mlock_kb)
    )]
    Ring {
        /// Bytes of the smallest that was tried.
        size: u64,
        /// A setting that would do.
        mlock_kb: u64,
        /// The error of `mmap(2)`.
        errno: io::Error,
    },
    /// Something of the system that we cannot do without.
    #[error("{what}: {}", Errno(errno))]
    System {
        /// The operation that failed.
        what: &'static str,
        /// The error of the operating system.
        errno: io::Error,
    },
    /// The consumer of the records failed: for a file, it could not be made or written.
    #[error("{}", unwritten(errno, *kept))]
    Consumer {
        /// The error of the consumer.
        errno: io::Error,
        /// True if what was written before can be read.
        kept: bool,
    },
}

/// A name with a slash is not looked for in PATH (`execvp(3)`).
fn no_command(name: &str) -> String {
    if name.contains('/') {
        format!("there is no file {name:?}")
    } else {
        format!("there is no command {name:?} in PATH")
    }
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

/// An I/O error in words, with the name of its errno.
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

/// The reason why no ring could be mapped, with the next thing to try, as the end of a message; empty where the errno tells
/// all that is known.
fn no_ring(errno: &io::Error, mlock_kb: u64) -> String {
    match errno.raw_os_error() {
        Some(EPERM | EAGAIN) => format!(
            "; the limit of locked memory is reached; try: sudo sysctl kernel.perf_event_mlock_kb={mlock_kb}, or ulimit -l \
             unlimited"
        ),
        Some(ENOMEM) => "; the machine, or the cgroup of this process, has no more memory".to_owned(),
        Some(EMFILE) => {
            "; all file descriptors are in use; try: ulimit -n unlimited, or fewer events".to_owned()
        }
        Some(ENFILE) => {
            "; the machine has reached its limit of open files; try a larger sysctl fs.file-max".to_owned()
        }
        Some(EINVAL) => "; the kernel refuses a ring of this size; try a smaller one (-m)".to_owned(),
        _ => String::new(),
    }
}

/// The kernel's name of an errno that this crate can meet (asm-generic/errno-base.h, errno.h).
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

/// The reason why waits of threads cannot be seen, and what would allow it.
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
        assert!(text("./x").contains("no file") && !text("/nonexistent").contains("PATH"));
    }

    #[test]
    fn errors_are_words_and_a_name() {
        let error = io::Error::from_raw_os_error(EACCES);
        assert_eq!(Errno(&error).to_string(), "Permission denied (EACCES)");
        assert_eq!(Errno(&io::Error::other("no such luck")).to_string(), "no such luck");
    }
}
