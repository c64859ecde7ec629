//! A child process that can read but not change anything, for parsing untrusted files: `fork(2)`, `capset(2)`, `seccomp(2)`.

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

/// System calls that are allowed with any arguments: reading files, memory, threads, clocks, and writing to open descriptors.
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

/// Older forms of system calls, which newer architectures lack.
#[cfg(target_arch = "x86_64")]
const ALLOWED_OLD: &[libc::c_long] =
    &[libc::SYS_access, libc::SYS_lstat, libc::SYS_poll, libc::SYS_readlink, libc::SYS_stat, libc::SYS_time];
#[cfg(not(target_arch = "x86_64"))]
const ALLOWED_OLD: &[libc::c_long] = &[];

/// `ioctl(2)` requests for terminal settings and window size (`asm-generic/ioctls.h`). The constants of the C libraries differ in
/// type.
const TCGETS: u64 = 0x5401;
const TIOCGWINSZ: u64 = 0x5413;

/// Flags of `open(2)` that write, create or truncate a file.
const WRITING: u64 = (libc::O_WRONLY | libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC) as u64;

/// Runs `work` in a sandboxed child process and waits for its end. The child can read what we can read and write to open
/// descriptors. It cannot open files for writing, start programs, send signals, use the network, or map new code.
///
/// The child has a copy of our memory: we see none of its changes except to open files and their positions. `work` gets an error if
/// the sandbox could not be set up, because the kernel lacks or forbids seccomp. Its result becomes the exit code. The child is
/// killed when this process ends. Must be called while there is one thread.
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

/// Sandboxes this process, which the process `parent` started for such work. It is killed when `parent` ends. Must be called while
/// there is one thread.
///
/// # Errors
/// The sandbox cannot be set up.
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

/// Drops every privilege that reading does not need, irrevocably.
fn confine(parent: u32) -> io::Result<()> {
    // SAFETY: numbers only.
    check(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) })?;
    // SAFETY: no arguments.
    if unsafe { libc::getppid() }.cast_unsigned() != parent {
        process::exit(1); // It ended before PR_SET_PDEATHSIG took effect.
    }
    drop_capabilities()?;
    let program = filter()?;
    seccompiler::apply_filter(&program).map_err(io::Error::other)
}

/// Drops all capabilities except [`KEPT_CAPABILITIES`] (`capset(2)`, version 3: two words of 32 capabilities).
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

/// Compiles the filter. System calls that are not listed fail with ENOSYS, so that the C library falls back to older ones: `clone`
/// instead of `clone3`, whose arguments a filter cannot see.
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
