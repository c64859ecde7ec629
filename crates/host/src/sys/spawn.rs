//! Forks a child that waits before it executes its command, so that events can be opened on it first.
//!
//! The standard library's `Command` returns only after `exec`. Here the child waits for a byte from a pipe, and reports through
//! another pipe why `exec` failed. A successful `exec` closes that pipe.

use std::ffi::{CString, OsStr, OsString, c_char};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::ptr;

use model::Pid;

use super::check;
use super::inherited;
use super::signals::SignalMask;

/// A program to start, with its arguments and environment. All strings are prepared before the fork, because nothing may be
/// allocated between fork and exec.
#[derive(Debug)]
pub struct Program {
    /// The paths to try, in order: one path, or one per folder of `PATH`.
    candidates: Vec<CString>,
    arguments: Vec<CString>,
    environment: Vec<CString>,
}

/// A forked child that waits before `exec`. When dropped, the child exits without executing the command.
#[derive(Debug)]
pub struct WaitingChild {
    child: Child,
    go: OwnedFd,
    failure: OwnedFd,
}

/// A child process. Dropping it does not wait for it.
#[derive(Debug)]
pub struct Child {
    pid: Pid,
}

/// Returns the address of `execve` (Avma) in this process and in a [`WaitingChild`]. Samples of the child before its `exec` are
/// there.
pub fn exec_address() -> u64 {
    libc::execve as *const () as u64
}

/// The exit status of a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ExitStatus {
    /// The process exited with this code.
    Code(i32),
    /// This signal ended the process.
    Signal(i32),
}

impl ExitStatus {
    /// Returns the exit code as shells report it: 128 + N if signal N ended the process.
    pub fn shell_code(self) -> u8 {
        let (Self::Code(number) | Self::Signal(number)) = self;
        let number = u8::try_from(number & 0xff).unwrap_or(u8::MAX);
        if matches!(self, Self::Signal(_)) { number.saturating_add(128) } else { number }
    }
}

impl Program {
    /// Prepares `command` with our environment and `variables`. Unless its first word contains a slash, it is searched in `PATH`.
    ///
    /// # Errors
    /// `EINVAL` for an empty command or a NUL in a word.
    pub fn new(command: &[OsString], variables: &[(&OsStr, &OsStr)]) -> io::Result<Self> {
        let invalid = || io::Error::from_raw_os_error(libc::EINVAL);
        let c_string = |word: &OsStr| CString::new(word.as_bytes()).map_err(|_| invalid());
        let name = command.first().filter(|name| !name.is_empty()).ok_or_else(invalid)?;
        let candidates = if name.as_bytes().contains(&b'/') {
            vec![c_string(name)?]
        } else {
            let path = std::env::var_os("PATH").unwrap_or_else(|| "/bin:/usr/bin".into());
            std::env::split_paths(&path)
                .map(|folder| c_string(folder.join(name).as_os_str()))
                .collect::<io::Result<_>>()?
        };
        let arguments = command.iter().map(|word| c_string(word)).collect::<io::Result<_>>()?;
        let kept = std::env::vars_os().filter(|(key, _)| variables.iter().all(|(name, _)| key != name));
        let set = variables.iter().map(|&(name, value)| (name.to_owned(), value.to_owned()));
        let environment = kept
            .chain(set)
            .map(|(key, value)| {
                let mut pair = key.into_vec();
                pair.push(b'=');
                pair.extend_from_slice(value.as_bytes());
                CString::new(pair).map_err(|_| invalid())
            })
            .collect::<io::Result<_>>()?;
        Ok(Self { candidates, arguments, environment })
    }

    /// Forks a child that will execute the program. The child gets the signal mask `mask` and ignores the signals that this process
    /// was started to ignore. `stdout` replaces its standard output, if given. Must be called before any thread is started.
    ///
    /// # Errors
    /// Those of `pipe2(2)` and `fork(2)`.
    pub fn fork(&self, mask: SignalMask, stdout: Option<BorrowedFd<'_>>) -> io::Result<WaitingChild> {
        let (go_reader, go) = pipe()?;
        let (failure, failure_writer) = pipe()?;
        let pointers = |words: &[CString]| -> Vec<*const c_char> {
            words.iter().map(|word| word.as_ptr()).chain([ptr::null()]).collect()
        };
        let arguments = pointers(&self.arguments);
        let environment = pointers(&self.environment);
        let candidates = pointers(&self.candidates);
        // As execvp(3), run a file that the kernel cannot execute with the shell: `sh FILE ARGUMENTS…`.
        let mut shell_arguments = vec![c"/bin/sh".as_ptr(), ptr::null()];
        shell_arguments.extend(arguments.iter().skip(1));
        let child = InChild {
            go_reader: go_reader.as_raw_fd(),
            go_writer: go.as_raw_fd(),
            failure_writer: failure_writer.as_raw_fd(),
            stdout: stdout.map(|fd| fd.as_raw_fd()),
            mask,
            candidates: &candidates,
            arguments: &arguments,
            environment: &environment,
        };
        // SAFETY: the child calls only async-signal-safe functions until it execs or exits.
        let pid = check(unsafe { libc::fork() })?;
        if pid == 0 {
            // SAFETY: this is the child of a fork; the vectors were built before it and end in null.
            unsafe { child.run(&mut shell_arguments) }
        }
        Ok(WaitingChild { child: Child { pid: Pid(pid) }, go, failure })
    }
}

/// The strings and descriptors that the child uses between fork and exec.
struct InChild<'a> {
    go_reader: RawFd,
    go_writer: RawFd,
    failure_writer: RawFd,
    stdout: Option<RawFd>,
    mask: SignalMask,
    candidates: &'a [*const c_char],
    arguments: &'a [*const c_char],
    environment: &'a [*const c_char],
}

impl InChild<'_> {
    /// Waits for the parent, then executes the program.
    ///
    /// # Safety
    /// Must be called in the child of a fork; the three vectors hold C strings and end in null, and `shell_arguments` has
    /// at least two places.
    unsafe fn run(&self, shell_arguments: &mut [*const c_char]) -> ! {
        // SAFETY: async-signal-safe calls with valid pointers (signal-safety(7)); nothing here allocates.
        unsafe {
            libc::prctl(libc::PR_SET_NAME, c"prof-exec".as_ptr());
            libc::close(self.go_writer); // Otherwise the pipe would stay open after the end of the parent.
            // The standard library and we ignore these; the command must not inherit that.
            for signal in [libc::SIGPIPE, libc::SIGXFSZ] {
                if !inherited::is_ignored(signal) {
                    libc::signal(signal, libc::SIG_DFL);
                }
            }
            self.mask.apply(libc::SIG_SETMASK);
            if let Some(stdout) = self.stdout {
                libc::dup2(stdout, libc::STDOUT_FILENO);
            }
            let mut byte = 0_u8;
            loop {
                match libc::read(self.go_reader, (&raw mut byte).cast(), 1) {
                    1 => break,
                    -1 if *libc::__errno_location() == libc::EINTR => {}
                    _ => libc::_exit(0), // The parent cancelled, or has ended.
                }
            }
            let errno = self.exec(shell_arguments);
            libc::write(self.failure_writer, (&raw const errno).cast(), size_of::<i32>());
            libc::_exit(127)
        }
    }

    /// Tries the candidates as `execvp(3)` does; returns only if none could be executed, with its `errno`.
    ///
    /// # Safety
    /// As for [`InChild::run`].
    unsafe fn exec(&self, shell_arguments: &mut [*const c_char]) -> i32 {
        let mut result = libc::ENOENT;
        for &candidate in self.candidates.iter().take_while(|candidate| !candidate.is_null()) {
            // SAFETY: see above: valid, null-ended vectors of C strings.
            unsafe {
                libc::execve(candidate, self.arguments.as_ptr(), self.environment.as_ptr());
                match *libc::__errno_location() {
                    libc::ENOENT | libc::ENOTDIR => {}
                    libc::EACCES => result = libc::EACCES, // Another folder may have one that is allowed.
                    libc::ENOEXEC => {
                        if let Some(file) = shell_arguments.get_mut(1) {
                            *file = candidate;
                        }
                        let shell = c"/bin/sh".as_ptr();
                        libc::execve(shell, shell_arguments.as_ptr(), self.environment.as_ptr());
                        return libc::ENOEXEC;
                    }
                    other => return other,
                }
            }
        }
        result
    }
}

impl WaitingChild {
    /// Returns the pid, which `exec` does not change.
    pub fn pid(&self) -> Pid {
        self.child.pid
    }

    /// Makes the child execute the command, and waits until it has.
    ///
    /// # Errors
    /// That of `execve(2)`; the child has then exited.
    pub fn start(self) -> io::Result<Child> {
        let Self { child, go, failure } = self;
        let one = 1_u8;
        // SAFETY: one byte is read from `one`. If the child has ended already, the next read returns 0.
        unsafe { libc::write(go.as_raw_fd(), (&raw const one).cast(), 1) };
        let mut errno = 0_i32;
        let length = loop {
            // SAFETY: at most four bytes are written to `errno`.
            let read = unsafe { libc::read(failure.as_raw_fd(), (&raw mut errno).cast(), size_of::<i32>()) };
            if read >= 0 || io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
                break read;
            }
        };
        if usize::try_from(length) == Ok(size_of::<i32>()) {
            child.wait()?;
            return Err(io::Error::from_raw_os_error(errno));
        }
        Ok(child)
    }

    /// Ends the child without executing the command, and waits for it.
    pub fn cancel(self) {
        drop(self.go);
        // Waiting fails only if the child has been waited for already.
        let _ = self.child.wait();
    }
}

impl Child {
    /// Returns the pid.
    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// Waits for the end of the process.
    ///
    /// # Errors
    /// `ECHILD` if it has been waited for elsewhere.
    pub fn wait(&self) -> io::Result<ExitStatus> {
        loop {
            match self.wait_for(0) {
                Ok(Some(status)) => return Ok(status),
                Ok(None) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Returns the exit status if the process has ended.
    ///
    /// # Errors
    /// `ECHILD` if it has been waited for elsewhere.
    pub fn try_wait(&self) -> io::Result<Option<ExitStatus>> {
        self.wait_for(libc::WNOHANG)
    }

    /// Sends a signal.
    ///
    /// # Errors
    /// Those of `kill(2)`.
    pub fn send(&self, signal: i32) -> io::Result<()> {
        // SAFETY: no memory is involved. The pid cannot have been reused: nobody has waited for the child.
        check(unsafe { libc::kill(self.pid.0, signal) }).map(drop)
    }

    fn wait_for(&self, flags: i32) -> io::Result<Option<ExitStatus>> {
        let mut status = 0;
        // SAFETY: the kernel writes the status.
        let pid = check(unsafe { libc::waitpid(self.pid.0, &raw mut status, flags) })?;
        Ok(if pid != self.pid.0 {
            None
        } else if libc::WIFSIGNALED(status) {
            Some(ExitStatus::Signal(libc::WTERMSIG(status)))
        } else if libc::WIFEXITED(status) {
            Some(ExitStatus::Code(libc::WEXITSTATUS(status)))
        } else {
            None
        })
    }
}

fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut fds = [0; 2];
    // SAFETY: the kernel writes two numbers.
    check(unsafe { libc::pipe2(fds.as_mut_ptr(), libc::O_CLOEXEC) })?;
    // SAFETY: both are new and ours alone.
    Ok(unsafe { (OwnedFd::from_raw_fd(fds[0]), OwnedFd::from_raw_fd(fds[1])) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn start(command: &[&str]) -> io::Result<ExitStatus> {
        let words: Vec<OsString> = command.iter().map(OsString::from).collect();
        let program = Program::new(&words, &[(OsStr::new("PROF_TEST"), OsStr::new("7"))])?;
        program.fork(SignalMask::current(), None)?.start()?.wait()
    }

    #[test]
    fn the_command_runs_and_its_code_comes_back() {
        assert_eq!(start(&["true"]).unwrap(), ExitStatus::Code(0));
        assert_eq!(start(&["sh", "-c", "exit $PROF_TEST"]).unwrap(), ExitStatus::Code(7));
        let killed = start(&["sh", "-c", "kill -TERM $$"]).unwrap();
        assert_eq!((killed, killed.shell_code()), (ExitStatus::Signal(15), 143));
    }

    #[test]
    fn a_failed_exec_says_why() {
        assert_eq!(start(&["no-such-command"]).unwrap_err().raw_os_error(), Some(libc::ENOENT));
        assert_eq!(start(&["/etc/passwd"]).unwrap_err().raw_os_error(), Some(libc::EACCES));
        assert_eq!(start(&[""]).unwrap_err().raw_os_error(), Some(libc::EINVAL));
    }

    #[test]
    fn a_script_without_an_interpreter_is_the_shells() {
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("script");
        std::fs::write(&script, "exit $1\n").unwrap();
        std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(start(&[script.to_str().unwrap(), "3"]).unwrap(), ExitStatus::Code(3));
    }

    #[test]
    fn a_waiting_child_can_be_told_to_end() {
        let program = Program::new(&["false".into()], &[]).unwrap();
        let waiting = program.fork(SignalMask::current(), None).unwrap();
        let pid = waiting.pid();
        waiting.cancel();
        assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists());
    }
}
