//! A child process that can read but not change anything, for parsing untrusted files: `fork(2)`, `capset(2)`, `seccomp(2)`.

mod calls;
#[cfg(test)]
mod ways_out;

use std::io;
use std::process;

use super::check;
use super::spawn::ExitStatus;

/// The capabilities that reading needs, as `capabilities(7)` numbers them: other people's files
/// (`CAP_DAC_READ_SEARCH`), the files of other people's processes (`CAP_SYS_PTRACE`, `CAP_CHECKPOINT_RESTORE`) and the
/// kernel's addresses (`CAP_SYSLOG`).
const KEPT_CAPABILITIES: [u32; 4] = [2, 19, 34, 40];

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
    drop_capabilities(&KEPT_CAPABILITIES)?;
    let program = calls::filter()?;
    seccompiler::apply_filter(&program).map_err(io::Error::other)
}

/// Runs `work` on a thread that has no other capability than `kept`; `None` if there cannot be one.
pub fn with_capability<T: Send>(kept: u32, work: impl FnOnce() -> T + Send) -> Option<T> {
    let alone = move || drop_capabilities(&[kept]).is_ok().then(work);
    std::thread::scope(|scope| scope.spawn(alone).join()).ok().flatten()
}

/// Drops all capabilities of the calling thread except `kept` (`capset(2)`, version 3: two words of 32 capabilities).
pub(super) fn drop_capabilities(kept: &[u32]) -> io::Result<()> {
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
        let kept = kept.iter().filter(|&&number| (first..first + 32).contains(&number));
        let kept = kept.fold(0, |mask, number| mask | 1_u32 << (number - first));
        *word = Words { effective: word.effective & kept, permitted: word.permitted & kept, inheritable: 0 };
    }
    // SAFETY: the kernel reads the header and two structures.
    match unsafe { libc::syscall(libc::SYS_capset, &raw mut header, sets.as_ptr()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
