//! Reads signals from a descriptor instead of handling them: `signalfd(2)`.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use model::Pid;

use super::{check, inherited};

/// Signal numbers of this architecture.
pub use libc::{
    SIGALRM, SIGCONT, SIGHUP, SIGINT, SIGIO, SIGKILL, SIGPIPE, SIGPROF, SIGPWR, SIGQUIT, SIGSTKFLT, SIGTERM,
    SIGTRAP, SIGTSTP, SIGUSR1, SIGUSR2, SIGVTALRM, SIGXCPU,
};

/// Returns the real-time signals that the C library leaves to programs (signal(7)).
pub fn real_time() -> std::ops::RangeInclusive<i32> {
    libc::SIGRTMIN()..=libc::SIGRTMAX()
}

/// A set of signals that are blocked in the calling thread and in threads that it starts later, and are read here instead. When
/// dropped, discards unread signals and restores the mask.
#[derive(Debug)]
pub struct SignalFd {
    fd: OwnedFd,
    before: SignalMask,
}

/// The set of signals that a thread blocks.
#[derive(Clone, Copy)]
pub struct SignalMask(libc::sigset_t);

/// A signal that arrived.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Received {
    /// The signal number.
    pub signal: i32,
    /// The process that sent it; `None` if the kernel did, for example for Ctrl-C in a terminal.
    pub sender: Option<Pid>,
}

impl SignalFd {
    /// Blocks `signals` and reads them from now on. Must be called before any thread is started.
    ///
    /// # Errors
    /// Those of `signalfd(2)`.
    pub fn new(signals: &[i32]) -> io::Result<Self> {
        let set = set_of(signals);
        // SAFETY: the set is initialised; the descriptor that comes back is ours alone.
        let fd =
            check(unsafe { libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) })?;
        // SAFETY: as above.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        let before = SignalMask(set).apply(libc::SIG_BLOCK);
        Ok(Self { fd, before })
    }

    /// Returns the next signal that has arrived, if any.
    ///
    /// Skips signals that this process was started to ignore (`nohup`). Returns SIGINT if a process sent it even then: shells make
    /// background jobs ignore SIGINT of the terminal, but `kill -INT` must end them.
    pub fn next(&self) -> Option<Received> {
        loop {
            let received = self.read()?;
            let is_sent = received.signal == SIGINT && received.sender.is_some();
            if is_sent || !inherited::is_ignored(received.signal) {
                return Some(received);
            }
        }
    }

    fn read(&self) -> Option<Received> {
        let mut info = MaybeUninit::<libc::signalfd_siginfo>::uninit();
        let length = size_of::<libc::signalfd_siginfo>();
        // SAFETY: the kernel writes at most `length` bytes into a buffer of that size.
        let read = unsafe { libc::read(self.fd.as_raw_fd(), info.as_mut_ptr().cast(), length) };
        if usize::try_from(read) != Ok(length) {
            return None;
        }
        // SAFETY: all of its bytes were just written, and any bytes make one.
        let info = unsafe { info.assume_init() };
        // sigaction(2): codes above 0 are the kernel's own.
        let sender = (info.ssi_code <= 0).then_some(Pid(info.ssi_pid.cast_signed()));
        Some(Received { signal: info.ssi_signo.cast_signed(), sender })
    }

    /// Returns the mask of the calling thread before [`SignalFd::new`].
    pub fn mask_before(&self) -> SignalMask {
        self.before
    }
}

impl AsFd for SignalFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Drop for SignalFd {
    fn drop(&mut self) {
        while self.read().is_some() {}
        self.before.apply(libc::SIG_SETMASK);
    }
}

/// While this lives, SIGINT, SIGTERM and SIGHUP end this process, because the calling thread is in a call that may block forever.
#[derive(Debug)]
pub struct InterruptibleGuard {
    before: SignalMask,
}

impl InterruptibleGuard {
    /// Discards pending signals and unblocks further ones in the calling thread.
    pub fn acquire() -> Self {
        let set = set_of(&[SIGINT, SIGTERM, SIGHUP]);
        let no_wait = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the set and the time are initialised and live until the call returns; nobody wants to know more.
        while unsafe { libc::sigtimedwait(&raw const set, std::ptr::null_mut(), &raw const no_wait) } > 0 {}
        Self { before: SignalMask(set).apply(libc::SIG_UNBLOCK) }
    }
}

impl Drop for InterruptibleGuard {
    fn drop(&mut self) {
        self.before.apply(libc::SIG_SETMASK);
    }
}

fn set_of(signals: &[i32]) -> libc::sigset_t {
    let mut set = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: sigemptyset initialises the whole set; sigaddset fails on a bad number and changes nothing.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for &signal in signals {
            libc::sigaddset(set.as_mut_ptr(), signal);
        }
        set.assume_init()
    }
}

impl SignalMask {
    /// Returns the current mask of the calling thread.
    pub fn current() -> Self {
        let mut set = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: with a null new set the old one is written whole, and nothing changes.
        unsafe {
            libc::pthread_sigmask(libc::SIG_SETMASK, std::ptr::null(), set.as_mut_ptr());
            Self(set.assume_init())
        }
    }

    /// Applies it to the calling thread (`how` as in sigprocmask(2)) and returns the previous mask. Async-signal-safe.
    pub(super) fn apply(self, how: libc::c_int) -> Self {
        let mut before = self.0;
        // SAFETY: both pointers are to initialised sets that live until the call returns.
        unsafe { libc::pthread_sigmask(how, &raw const self.0, &raw mut before) };
        Self(before)
    }
}

/// Makes writes beyond the file size limit (`ulimit -f`) fail with `EFBIG` instead of ending this process. Started commands do not
/// inherit this.
pub fn ignore_file_size_limit() {
    // SAFETY: no memory is involved, and no code of ours is called.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}

/// Stops this process, as Ctrl-Z in a terminal does, until it gets `SIGCONT`.
pub fn stop_own_process() {
    // SAFETY: no memory is involved; SIGSTOP can neither be blocked nor handled.
    unsafe { libc::kill(libc::getpid(), libc::SIGSTOP) };
}

impl std::fmt::Debug for SignalMask {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // SAFETY: sigismember only reads the set.
        let held = (1..=64).filter(|&signal| unsafe { libc::sigismember(&raw const self.0, signal) } == 1);
        f.debug_list().entries(held).finish()
    }
}
