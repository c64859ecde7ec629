//! The system calls of a sandboxed process: a table of what each may be called with, and so what it can do; and the filter made of it.

use std::io;
use std::process;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen as Width, SeccompCmpOp as Op, SeccompCondition,
    SeccompFilter, SeccompRule, TargetArch,
};

use super::super::namespace::NS_GET_USERNS;

/// A condition on an argument (by its index) of an allowed call.
enum Check {
    /// It is this number.
    Is(u8, u64),
    /// It is our own pid.
    IsOwnPid(u8),
    /// It has all of these bits.
    With(u8, u64),
    /// It has none of these bits.
    Without(u8, u64),
}
use Check::{Is, IsOwnPid, With, Without};

/// The call is allowed with any arguments.
const ANY: &[&[Check]] = &[];

/// `ioctl(2)` requests for terminal settings and window size (`asm-generic/ioctls.h`). The constants of the C libraries differ in
/// type.
const TCGETS: u64 = 0x5401;
const TIOCGWINSZ: u64 = 0x5413;

/// `PR_SET_VMA_ANON_NAME` (`linux/prctl.h`).
const ANONYMOUS_NAME: u64 = 0;

/// Flags of `open(2)` that write, create or truncate a file, or send signals.
const WRITING: u64 = (libc::O_WRONLY | libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC | libc::O_ASYNC) as u64;
const EXECUTABLE: u64 = libc::PROT_EXEC as u64;

/// The flags of `clone(2)` for a thread, in glibc and musl. Others make processes and namespaces.
const OF_THREADS: u64 = (libc::CLONE_VM
    | libc::CLONE_FS
    | libc::CLONE_FILES
    | libc::CLONE_SIGHAND
    | libc::CLONE_THREAD
    | libc::CLONE_SYSVSEM
    | libc::CLONE_SETTLS
    | libc::CLONE_PARENT_SETTID
    | libc::CLONE_CHILD_CLEARTID
    | libc::CLONE_DETACHED) as u64;

/// Bits of a `futex(2)` operation: without the first one, futexes of other processes are reached through files that both map.
const PRIVATE: u64 = libc::FUTEX_PRIVATE_FLAG as u64;
/// The waits of `pthread_join(3)`, which is woken by the kernel, and not privately.
const WAIT: u64 = libc::FUTEX_WAIT as u64;
const WAIT_BITSET: u64 = libc::FUTEX_WAIT_BITSET as u64;
const WAIT_BITSET_UNTIL: u64 = (libc::FUTEX_WAIT_BITSET | libc::FUTEX_CLOCK_REALTIME) as u64;

/// A call, and the combinations of conditions under one of which it is allowed.
type Allowed = (libc::c_long, &'static [&'static [Check]]);

/// What a sandboxed process may call, and what the call can do then. It reads what we may read, writes to what was open before, and
/// reaches no other process: it sends no signals, and takes no locks or leases that others wait for.
#[rustfmt::skip]
const ALLOWED: &[Allowed] = &[
    // Its own memory. No memory becomes executable.
    (libc::SYS_brk, ANY),                            // grows and shrinks the heap
    (libc::SYS_madvise, ANY),                        // drops pages; of a file only if that is open for writing
    (libc::SYS_mincore, ANY),                        // tells which pages are in memory
    (libc::SYS_mmap, &[&[Without(2, EXECUTABLE)]]),  // maps files that are open, as they are open
    (libc::SYS_mprotect, &[&[Without(2, EXECUTABLE)]]), // as mmap
    (libc::SYS_mremap, ANY),                         // moves mappings
    (libc::SYS_munmap, ANY),                         // removes mappings
    // Its own threads.
    (libc::SYS_clone, &[&[With(0, libc::CLONE_THREAD as u64), Without(0, !OF_THREADS)]]), // starts a thread
    (libc::SYS_exit, ANY),                           // ends this thread
    (libc::SYS_exit_group, ANY),                     // ends this process
    (
        libc::SYS_futex, // waits for and wakes threads of its own; waits for its memory to change
        &[&[With(1, PRIVATE)], &[Is(1, WAIT)], &[Is(1, WAIT_BITSET)], &[Is(1, WAIT_BITSET_UNTIL)]],
    ),
    (
        libc::SYS_prctl, // names this thread, and memory of its own
        &[&[Is(0, libc::PR_SET_NAME as u64)], &[Is(0, libc::PR_SET_VMA as u64), Is(1, ANONYMOUS_NAME)]],
    ),
    (libc::SYS_restart_syscall, ANY),                // goes on with a call after a stop
    (libc::SYS_rseq, ANY),                           // registers memory for restartable sequences
    (libc::SYS_rt_sigaction, ANY),                   // handles signals that it gets
    (libc::SYS_rt_sigprocmask, ANY),                 // blocks signals that it gets
    (libc::SYS_rt_sigreturn, ANY),                   // returns from a handler
    (libc::SYS_sched_yield, ANY),                    // lets others run
    (libc::SYS_set_robust_list, ANY),                // registers locks in its own memory
    (libc::SYS_sigaltstack, ANY),                    // sets the stack of handlers
    (libc::SYS_tgkill, &[&[IsOwnPid(0)]]),           // sends a signal to its own threads: abort(3)
    // Questions about clocks, processes and the machine.
    (libc::SYS_clock_getres, ANY),
    (libc::SYS_clock_gettime, ANY),                  // also the CPU time of other processes
    (libc::SYS_clock_nanosleep, ANY),                // waits
    (libc::SYS_getcpu, ANY),
    (libc::SYS_getegid, ANY),
    (libc::SYS_geteuid, ANY),
    (libc::SYS_getgid, ANY),
    (libc::SYS_getpid, ANY),
    (libc::SYS_getppid, ANY),
    (libc::SYS_getrandom, ANY),
    (libc::SYS_getrusage, ANY),
    (libc::SYS_gettid, ANY),
    (libc::SYS_gettimeofday, ANY),
    (libc::SYS_getuid, ANY),
    (libc::SYS_nanosleep, ANY),                      // waits
    (libc::SYS_prlimit64, &[&[Is(2, 0)]]),           // asks for limits, also of other processes, and sets none
    (libc::SYS_sched_getaffinity, ANY),              // also of other processes
    (libc::SYS_sysinfo, ANY),
    (libc::SYS_uname, ANY),
    // Files by name: whether they exist, what they are, opening them for reading. Opening some device files does something.
    (libc::SYS_faccessat, ANY),
    (libc::SYS_faccessat2, ANY),
    (libc::SYS_getcwd, ANY),
    (libc::SYS_newfstatat, ANY),
    (libc::SYS_openat, &[&[Without(2, WRITING)]]),
    (libc::SYS_readlinkat, ANY),
    (libc::SYS_statfs, ANY),
    (libc::SYS_statx, ANY),
    // Open descriptors: reading and writing, as they were opened.
    (libc::SYS_close, ANY),
    (libc::SYS_copy_file_range, ANY),                // reads one, writes another
    (libc::SYS_dup, ANY),
    (libc::SYS_fadvise64, ANY),                      // tells how it will be read
    (
        libc::SYS_fcntl, // duplicates it, asks for its flags, has it closed by exec; no signals, locks, leases, notifications
        &[
            &[Is(1, libc::F_DUPFD_CLOEXEC as u64)],
            &[Is(1, libc::F_GETFD as u64)],
            &[Is(1, libc::F_SETFD as u64)],
            &[Is(1, libc::F_GETFL as u64)],
        ],
    ),
    (libc::SYS_fstat, ANY),
    (libc::SYS_fstatfs, ANY),
    (libc::SYS_getdents64, ANY),
    // Asks a terminal for its settings and size, and a namespace for its owner, of which it opens a handle that can only be asked, too.
    (libc::SYS_ioctl, &[&[Is(1, TCGETS)], &[Is(1, TIOCGWINSZ)], &[Is(1, NS_GET_USERNS)]]),
    (libc::SYS_lseek, ANY),
    (libc::SYS_pipe2, ANY),                          // makes two that lead to each other
    (libc::SYS_ppoll, ANY),                          // waits for them
    (libc::SYS_pread64, ANY),
    (libc::SYS_preadv, ANY),
    (libc::SYS_pwrite64, ANY),
    (libc::SYS_read, ANY),
    (libc::SYS_readahead, ANY),                      // has it read into memory
    (libc::SYS_readv, ANY),
    (libc::SYS_splice, ANY),                         // reads one, writes another
    (libc::SYS_write, ANY),
    (libc::SYS_writev, ANY),
];

/// Older forms of system calls, which newer architectures lack.
#[cfg(target_arch = "x86_64")]
const ALLOWED_OLD: &[Allowed] = &[
    (libc::SYS_access, ANY),                     // as faccessat
    (libc::SYS_lstat, ANY),                      // as newfstatat
    (libc::SYS_open, &[&[Without(1, WRITING)]]), // as openat
    (libc::SYS_poll, ANY),                       // as ppoll
    (libc::SYS_readlink, ANY),                   // as readlinkat
    (libc::SYS_stat, ANY),                       // as newfstatat
    (libc::SYS_time, ANY),                       // as gettimeofday
];
#[cfg(not(target_arch = "x86_64"))]
const ALLOWED_OLD: &[Allowed] = &[];

/// Compiles the filter. System calls that are not listed fail with ENOSYS, so that the C library falls back to older ones: `clone`
/// instead of `clone3`, whose arguments a filter cannot see.
pub(super) fn filter() -> io::Result<BpfProgram> {
    let mut rules = std::collections::BTreeMap::new();
    for (call, combinations) in ALLOWED.iter().chain(ALLOWED_OLD) {
        let combinations = combinations.iter().map(|checks| rule(checks)).collect::<io::Result<Vec<_>>>()?;
        rules.insert(*call, combinations);
    }
    let arch = TargetArch::try_from(std::env::consts::ARCH).map_err(io::Error::other)?;
    SeccompFilter::new(rules, SeccompAction::Errno(libc::ENOSYS as u32), SeccompAction::Allow, arch)
        .and_then(BpfProgram::try_from)
        .map_err(io::Error::other)
}

/// A rule under which a call is allowed if all checks hold. All 64 bits are compared, also where the kernel looks at 32.
fn rule(checks: &[Check]) -> io::Result<SeccompRule> {
    let condition = |check: &Check| {
        let (argument, operator, value) = match *check {
            Is(argument, value) => (argument, Op::Eq, value),
            IsOwnPid(argument) => (argument, Op::Eq, u64::from(process::id())),
            With(argument, bits) => (argument, Op::MaskedEq(bits), bits),
            Without(argument, bits) => (argument, Op::MaskedEq(bits), 0),
        };
        SeccompCondition::new(argument, Width::Qword, operator, value)
    };
    let conditions = checks.iter().map(condition).collect::<Result<Vec<_>, _>>().map_err(io::Error::other)?;
    SeccompRule::new(conditions).map_err(io::Error::other)
}
