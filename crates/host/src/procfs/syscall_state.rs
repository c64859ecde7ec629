//! System call and registers of a blocked thread: `/proc/PID/task/TID/syscall`.

use std::fs;
use std::io;

use model::{Pid, Tid};

/// The state of a thread that is blocked in the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SyscallState {
    /// The number of the system call; `None` if it entered the kernel otherwise, for example by a page fault.
    pub number: Option<u64>,
    /// The arguments of the call.
    pub arguments: [u64; 6],
    /// The stack pointer in user space (Avma).
    pub stack_pointer: u64,
    /// The instruction pointer in user space (Avma).
    pub program_counter: u64,
}

impl SyscallState {
    /// Parses the text of the file; `None` if the thread runs, or the text is malformed.
    pub fn parse(text: &str) -> Option<Self> {
        let mut words = text.split_ascii_whitespace();
        let number = match words.next()?.parse::<i64>().ok()? {
            -1 => None,
            number => Some(u64::try_from(number).ok()?),
        };
        let mut hexadecimal = || u64::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok();
        let mut arguments = [0; 6];
        if number.is_some() {
            for argument in &mut arguments {
                *argument = hexadecimal()?;
            }
        }
        let (stack_pointer, program_counter) = (hexadecimal()?, hexadecimal()?);
        Some(Self { number, arguments, stack_pointer, program_counter })
    }
}

/// Reads the state of a blocked thread; `None` while it runs.
///
/// # Errors
/// `EPERM` and `EACCES` if we may not trace it ([`crate::sysctl::ptrace_scope`]), `ENOENT` and `ESRCH` if it has ended.
pub fn syscall_state(pid: Pid, tid: Tid) -> io::Result<Option<SyscallState>> {
    fs::read_to_string(super::path(pid, &format!("task/{tid}/syscall"))?)
        .map(|text| SyscallState::parse(&text))
}

/// Returns what a descriptor of a process refers to, in the kernel's form: a path, `pipe:[7]`, `socket:[8]`.
///
/// # Errors
/// As [`syscall_state`].
pub fn descriptor_target(pid: Pid, descriptor: u64) -> io::Result<Vec<u8>> {
    use std::os::unix::ffi::OsStringExt;
    super::read_shared(pid, &format!("fd/{descriptor}"), |path| fs::read_link(path))
        .map(|path| path.into_os_string().into_vec())
}

/// The maximum number of descriptors that [`has_open`] looks at: a server may have a million connections.
const MAX_DESCRIPTORS: usize = 256;

/// Returns true if one of the first descriptors of a process refers to a path that `is_it` accepts. Touches no file.
pub fn has_open(pid: Pid, is_it: &dyn Fn(&[u8]) -> bool) -> bool {
    use std::os::unix::ffi::OsStrExt;
    let found = super::read_shared(pid, "fd", |path| {
        let descriptors = fs::read_dir(path)?.flatten().take(MAX_DESCRIPTORS);
        let mut targets = descriptors.filter_map(|descriptor| fs::read_link(descriptor.path()).ok());
        Ok(targets.any(|target| is_it(target.as_os_str().as_bytes())))
    });
    found.unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_faults_and_running_threads_are_told_apart() {
        let call = SyscallState::parse("0 0x5 0x7ff0 0x1 0x0 0x0 0x0 0x7ffe10 0x7f0a\n").unwrap();
        assert_eq!((call.number, call.arguments[..3].to_vec()), (Some(0), vec![5, 0x7ff0, 1]));
        assert_eq!((call.stack_pointer, call.program_counter), (0x7ffe10, 0x7f0a));
        let fault = SyscallState::parse("-1 0x7ffe10 0x7f0a\n").unwrap();
        assert_eq!((fault.number, fault.program_counter), (None, 0x7f0a));
        for text in ["running\n", "", "7", "0 0x5 0x6 0x7ffe10 0x7f0a", "-2 0x1 0x2", "0 5 6 7 8 9 10 11 12"]
        {
            assert_eq!(SyscallState::parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_thread_that_sleeps_stands_in_its_call() {
        let mut child = std::process::Command::new("sleep").arg("5").spawn().unwrap();
        let pid = Pid(child.id() as i32);
        let end = std::time::Instant::now() + std::time::Duration::from_secs(4);
        let mut found = None;
        while found.is_none() && std::time::Instant::now() < end {
            // Until it is sleep and sleeps, it runs, or is another program.
            found = syscall_state(pid, Tid(pid.0)).ok().flatten().filter(|call| call.stack_pointer > 0);
        }
        child.kill().unwrap();
        child.wait().unwrap();
        match found {
            Some(call) => assert!(call.program_counter > 0),
            None => eprintln!("skipped: /proc/PID/task/TID/syscall is not readable here"),
        }
    }
}
