//! A child process without the rights to do harm, for work on files that others made: `fork(2)`, `capset(2)`, `seccomp(2)`.

use std::io;
use std::process;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen as Width, SeccompCmpOp as Op, SeccompCondition,
    SeccompFilter, SeccompRule, TargetArch,
};

use super::check;
use super::spawn::ExitStatus;

/// The capabilities that reading needs, as `capabilities(7)` numbers them: other people's files
/// (`CAP_DAC_READ_SEARCH`), the files of other people's processes (`CAP_SYS_PTRACE`, `CAP_CHECKPOINT_RESTORE`) and the
/// kernel's addresses (`CAP_SYSLOG`).
const KEPT_CAPABILITIES: [u32; 4] = [2, 19, 34, 40];

/// Calls a worker may make with any arguments: reading files, memory, threads, clocks, and writing to descriptors that
/// are open already.
const ALLOWED: &[libc::c_long] = &[
    libc::SYS_brk,
    libc::SYS_clock_getres,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_close,
    libc::SYS_copy_file_range,
    libc::SYS_dup,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_fadvise64,
    libc::SYS_fcntl,
    libc::SYS_fstat,
    libc::SYS_fstatfs,
    libc::SYS_futex,
    libc::SYS_getcpu,
    libc::SYS_getcwd,
    libc::SYS_getdents64,
    libc::SYS_getegid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getpid,
    libc::SYS_getppid,
    libc::SYS_getrandom,
    libc::SYS_getrusage,
    libc::SYS_gettid,
    libc::SYS_gettimeofday,
    libc::SYS_getuid,
    libc::SYS_lseek,
    libc::SYS_madvise,
    libc::SYS_mincore,
    libc::SYS_mremap,
    libc::SYS_munmap,
    libc::SYS_nanosleep,
    libc::SYS_newfstatat,
    libc::SYS_pipe2,
    libc::SYS_ppoll,
    libc::SYS_pread64,
    libc::SYS_preadv,
    libc::SYS_pwrite64,
    libc::SYS_read,
    libc::SYS_readahead,
    libc::SYS_readlinkat,
    libc::SYS_readv,
    libc::SYS_restart_syscall,
    libc::SYS_rseq,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_yield,
    libc::SYS_set_robust_list,
    libc::SYS_sigaltstack,
    libc::SYS_splice,
    libc::SYS_statfs,
    libc::SYS_statx,
    libc::SYS_sysinfo,
    libc::SYS_uname,
    libc::SYS_write,
    libc::SYS_writev,
];

/// Older forms of calls, which newer architectures don't have.
#[cfg(target_arch = "x86_64")]
const ALLOWED_OLD: &[libc::c_long] =
    &[libc::SYS_access, libc::SYS_lstat, libc::SYS_poll, libc::SYS_readlink, libc::SYS_stat, libc::SYS_time];
#[cfg(not(target_arch = "x86_64"))]
const ALLOWED_OLD: &[libc::c_long] = &[];

/// `ioctl(2)` requests that tell if a descriptor is a terminal, and how wide: `asm-generic/ioctls.h`. The C libraries give these numbers other types.
const TCGETS: u64 = 0x5401;
const TIOCGWINSZ: u64 = 0x5413;

/// Flags of `open(2)` with which a file is written, created or cut.
const WRITING: u64 = (libc::O_WRONLY | libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC) as u64;

/// Runs `work` in a child process that may read what we may read, write to what is open, and nothing else: it opens no
/// file for writing, starts no program, sends no signal, knows no network, and runs no code but its own. Waits for its end.
///
/// Memory is shared by copies: what `work` changes is seen by nobody here, but for the positions and contents of open
/// files. `work` gets whether the confinement holds (the kernel may lack seccomp, or forbid it); its result is the exit
/// code. The child ends with us. To be called while there is one thread.
///
/// # Errors
/// Those of `fork(2)` and `waitpid(2)`.
pub fn run(work: impl FnOnce(io::Result<()>) -> u8) -> io::Result<ExitStatus> {
    let parent = process::id();
    // SAFETY: there is one thread, as the contract says; so the child may use all of the library.
    let pid = check(unsafe { libc::fork() })?;
    if pid == 0 {
        let code = work(confine(parent));
        process::exit(code.into());
    }
    wait(pid)
}

/// Confines this process itself, which was started for such work by the process `parent` and ends with that. To be called while
/// there is one thread.
///
/// # Errors
/// Where the confinement does not hold.
pub fn confine_this_process(parent: u32) -> io::Result<()> {
    confine(parent)
}

fn wait(pid: libc::pid_t) -> io::Result<ExitStatus> {
    let mut status = 0;
    loop {
        // SAFETY: the kernel writes the number before the call returns.
        match check(unsafe { libc::waitpid(pid, &raw mut status, 0) }) {
            Ok(_) if libc::WIFSIGNALED(status) => return Ok(ExitStatus::Signal(libc::WTERMSIG(status))),
            Ok(_) => return Ok(ExitStatus::Code(libc::WEXITSTATUS(status))),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Takes every right from this process that reading does not need, for good.
fn confine(parent: u32) -> io::Result<()> {
    // SAFETY: numbers only.
    check(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) })?;
    // SAFETY: no arguments.
    if unsafe { libc::getppid() }.cast_unsigned() != parent {
        process::exit(1); // It ended before it could take us along.
    }
    drop_capabilities()?;
    let program = filter()?;
    seccompiler::apply_filter(&program).map_err(io::Error::other)
}

/// `capset(2)`, version 3: two words of 32 capabilities each.
fn drop_capabilities() -> io::Result<()> {
    #[repr(C)]
    struct Header {
        version: u32,
        pid: libc::c_int,
    }
    #[repr(C)]
    #[derive(Clone, Copy)]
    struct Words {
        effective: u32,
        permitted: u32,
        inheritable: u32,
    }
    let mut header = Header { version: 0x2008_0522, pid: 0 };
    let mut sets = [Words { effective: 0, permitted: 0, inheritable: 0 }; 2];
    // SAFETY: the kernel reads the header and writes two structures, as version 3 says.
    if unsafe { libc::syscall(libc::SYS_capget, &raw mut header, sets.as_mut_ptr()) } < 0 {
        return Err(io::Error::last_os_error());
    }
    for (word, first) in sets.iter_mut().zip([0, 32]) {
        let kept = KEPT_CAPABILITIES.iter().filter(|&&number| (first..first + 32).contains(&number));
        let kept = kept.fold(0, |mask, number| mask | 1_u32 << (number - first));
        *word = Words { effective: word.effective & kept, permitted: word.permitted & kept, inheritable: 0 };
    }
    // SAFETY: the kernel reads the header and two structures.
    match unsafe { libc::syscall(libc::SYS_capset, &raw mut header, sets.as_ptr()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The list as a program for the kernel. What is not on it fails with ENOSYS: the C library then takes an older call
/// (`clone` instead of `clone3`, whose arguments a filter cannot see), as on an older kernel.
fn filter() -> io::Result<BpfProgram> {
    let is = |argument, value| condition(argument, Width::Qword, Op::Eq, value);
    let without = |argument, bits| condition(argument, Width::Qword, Op::MaskedEq(bits), 0);
    let with = |argument, bits| condition(argument, Width::Qword, Op::MaskedEq(bits), bits);
    let rule = |conditions: Vec<SeccompCondition>| SeccompRule::new(conditions).map_err(io::Error::other);
    let own = u64::from(process::id());
    let executable = libc::PROT_EXEC as u64;
    let mut rules: std::collections::BTreeMap<_, _> =
        ALLOWED.iter().chain(ALLOWED_OLD).map(|&call| (call, vec![])).collect();
    rules.insert(libc::SYS_openat, vec![rule(vec![without(2, WRITING)?])?]);
    #[cfg(target_arch = "x86_64")]
    rules.insert(libc::SYS_open, vec![rule(vec![without(1, WRITING)?])?]);
    rules.insert(libc::SYS_mmap, vec![rule(vec![without(2, executable)?])?]);
    rules.insert(libc::SYS_mprotect, vec![rule(vec![without(2, executable)?])?]);
    rules.insert(libc::SYS_clone, vec![rule(vec![with(0, libc::CLONE_THREAD as u64)?])?]);
    rules.insert(libc::SYS_tgkill, vec![rule(vec![is(0, own)?])?]); // abort(3)
    rules.insert(libc::SYS_prlimit64, vec![rule(vec![is(2, 0)?])?]); // to ask, not to set
    let question = |request| rule(vec![is(1, request)?]);
    rules.insert(libc::SYS_ioctl, vec![question(TCGETS)?, question(TIOCGWINSZ)?]);
    let name = |option: libc::c_int| rule(vec![is(0, option as u64)?]);
    rules.insert(libc::SYS_prctl, vec![name(libc::PR_SET_NAME)?, name(libc::PR_SET_VMA)?]);
    let arch = TargetArch::try_from(std::env::consts::ARCH).map_err(io::Error::other)?;
    SeccompFilter::new(rules, SeccompAction::Errno(libc::ENOSYS as u32), SeccompAction::Allow, arch)
        .and_then(BpfProgram::try_from)
        .map_err(io::Error::other)
}

fn condition(argument: u8, width: Width, operator: Op, value: u64) -> io::Result<SeccompCondition> {
    SeccompCondition::new(argument, width, operator, value).map_err(io::Error::other)
}
