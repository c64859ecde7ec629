//! What a thread waits for by its system call and the call's arguments, in words.

use host::procfs::{self, SyscallState};
use model::Pid;

/// The form in which a call that may block is worded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    /// By this alone.
    Words(&'static str),
    /// An address that is waited for.
    Address(&'static str),
    /// The file that its first argument is open on.
    File(&'static str),
}

use Kind::{Address, File, Words};

/// Numbers of x86-64 and of aarch64, which has those of `asm-generic/unistd.h`.
const CALLS: &[(Option<u16>, Option<u16>, Kind)] = &[
    (Some(0), Some(63), File("read")),
    (Some(1), Some(64), File("write")),
    (Some(7), None, Words("poll")),
    (Some(16), Some(29), File("ioctl")),
    (Some(17), Some(67), File("read")),
    (Some(18), Some(68), File("write")),
    (Some(19), Some(65), File("read")),
    (Some(20), Some(66), File("write")),
    (Some(23), None, Words("select")),
    (Some(26), Some(227), Words("msync")),
    (Some(34), None, Words("pause")),
    (Some(35), Some(101), Words("sleep")),
    (Some(42), Some(203), File("connect")),
    (Some(43), Some(202), File("accept")),
    (Some(44), Some(206), File("send")),
    (Some(45), Some(207), File("receive")),
    (Some(46), Some(211), File("send")),
    (Some(47), Some(212), File("receive")),
    (Some(58), None, Words("vfork child")),
    (Some(61), Some(260), Words("child")),
    (Some(65), Some(193), Words("semaphore")),
    (Some(69), Some(189), Words("message queue")),
    (Some(70), Some(188), Words("message queue")),
    (Some(72), Some(25), File("file lock")),
    (Some(73), Some(32), File("file lock")),
    (Some(74), Some(82), File("fsync")),
    (Some(75), Some(83), File("fdatasync")),
    (Some(128), Some(137), Words("rt_sigtimedwait")),
    (Some(130), Some(133), Words("rt_sigsuspend")),
    (Some(162), Some(81), Words("sync")),
    (Some(202), Some(98), Address("futex")),
    (Some(208), Some(4), Words("io_getevents")),
    (Some(219), Some(128), Words("sleep")),
    (Some(220), Some(192), Words("semaphore")),
    (Some(230), Some(115), Words("sleep")),
    (Some(232), None, Words("epoll_wait")),
    (Some(242), Some(182), Words("message queue")),
    (Some(243), Some(183), Words("message queue")),
    (Some(247), Some(95), Words("child")),
    (Some(257), Some(56), Words("open")),
    (Some(270), Some(72), Words("select")),
    (Some(271), Some(73), Words("poll")),
    (Some(281), Some(22), Words("epoll_wait")),
    (Some(288), Some(242), File("accept")),
    (Some(295), Some(69), File("read")),
    (Some(299), Some(243), File("receive")),
    (Some(307), Some(269), File("send")),
    (Some(426), Some(426), Words("io_uring_enter")),
    (Some(441), Some(441), Words("epoll_wait")),
    (Some(449), Some(449), Address("futex")),
    (Some(455), Some(455), Address("futex")),
];

/// Longer names of files are cut.
const LONGEST: usize = 256;

/// Describes the object that a thread of `pid` waits for.
pub(super) fn describe(pid: Pid, call: &SyscallState) -> Vec<u8> {
    words(call, |descriptor| procfs::descriptor_target(pid, descriptor).ok())
}

fn words(call: &SyscallState, file: impl Fn(u64) -> Option<Vec<u8>>) -> Vec<u8> {
    let Some(number) = call.number else { return b"page fault".to_vec() };
    let native = |(x86_64, aarch64, _): &&(Option<u16>, Option<u16>, Kind)| {
        let wanted = if cfg!(target_arch = "x86_64") { x86_64 } else { aarch64 };
        wanted.is_some_and(|wanted| u64::from(wanted) == number)
    };
    let first = call.arguments[0];
    match CALLS.iter().find(native).map(|(_, _, kind)| *kind) {
        Some(Words(words)) => words.as_bytes().to_vec(),
        Some(Address(words)) => format!("{words} {first:#x}").into_bytes(),
        Some(File(words)) => {
            let mut path = file(first).unwrap_or_default();
            path.truncate(LONGEST);
            let of = |begin: &[u8]| path.starts_with(begin);
            // Numbers of pipes and sockets tell nothing apart that the stack does not.
            match () {
                () if of(b"pipe:") => format!("pipe {words}").into_bytes(),
                () if of(b"socket:") => format!("socket {words}").into_bytes(),
                () if of(b"anon_inode:") => {
                    let name = path.get(b"anon_inode:".len()..).unwrap_or_default();
                    [words.as_bytes(), b" ", name].concat()
                }
                () if path.is_empty() => format!("{words} fd {first}").into_bytes(),
                () => [format!("{words} fd {first} → ").as_bytes(), &path].concat(),
            }
        }
        None => format!("system call {number}").into_bytes(),
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_worded_by_what_it_waits_for() {
        let said = |number: Option<u64>, first: u64, path: &str| {
            let arguments = [first, 0, 0, 0, 0, 0];
            let call = SyscallState { number, arguments, stack_pointer: 1, program_counter: 1 };
            String::from_utf8(words(&call, |_| Some(path.as_bytes().to_vec()))).unwrap()
        };
        assert_eq!(said(Some(0), 5, "/var/x"), "read fd 5 → /var/x");
        assert_eq!(said(Some(0), 5, "pipe:[77]"), "pipe read");
        assert_eq!(said(Some(45), 5, "socket:[77]"), "socket receive");
        assert_eq!(said(Some(0), 5, "anon_inode:[eventfd]"), "read [eventfd]");
        assert_eq!(said(Some(0), 5, ""), "read fd 5");
        assert_eq!(said(Some(202), 0x7f00, ""), "futex 0x7f00");
        assert_eq!(said(Some(232), 4, ""), "epoll_wait");
        assert_eq!(said(Some(9999), 4, ""), "system call 9999");
        assert_eq!(said(None, 0, ""), "page fault");
    }
}
