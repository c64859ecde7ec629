//! A terminal that is taken over, and given back at every end of this process but SIGKILL.

use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, IntoRawFd, RawFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use super::check;
use super::fatal_signals;

/// The terminal as it was.
struct SavedTerminal {
    terminal: RawFd,
    settings: libc::termios,
    /// The bytes that are written to standard output before the terminal is given back.
    farewell: &'static [u8],
}

static SAVED: OnceLock<SavedTerminal> = OnceLock::new();
/// True if the terminal is ours now, and has to be given back.
static IS_RAW: AtomicBool = AtomicBool::new(false);

/// Lets the terminal hand on every key as it is (`cfmakeraw(3)`), also where it was taken before and somebody else, such as a
/// shell that continued us, has changed it since. From now on [`restore`], and every signal that ends this process, writes
/// `farewell` to standard output and makes the settings those that were found the first time.
///
/// # Errors
/// Where there is no terminal.
pub fn enter_raw_mode(farewell: &'static [u8]) -> io::Result<()> {
    let before = match SAVED.get() {
        Some(before) => before,
        None => {
            let before = find_terminal(farewell)?;
            fatal_signals::restore_terminal_before_exit();
            SAVED.get_or_init(|| before)
        }
    };
    let mut raw = before.settings;
    // SAFETY: the structure is initialised; in the background this stops the process until it is in the foreground.
    unsafe { libc::cfmakeraw(&raw mut raw) };
    // SAFETY: as above.
    check(unsafe { libc::tcsetattr(before.terminal, libc::TCSANOW, &raw const raw) })?;
    IS_RAW.store(true, Ordering::Release);
    Ok(())
}

fn find_terminal(farewell: &'static [u8]) -> io::Result<SavedTerminal> {
    let stdin = io::stdin();
    let terminal = if stdin.is_terminal() {
        stdin.as_raw_fd()
    } else {
        // Kept open as long as the process lives: a signal may come at any time.
        let terminal: File = OpenOptions::new().read(true).write(true).open("/dev/tty")?;
        terminal.into_raw_fd()
    };
    let mut settings = MaybeUninit::<libc::termios>::uninit();
    // SAFETY: the structure is written where the call succeeds, and read only then.
    let settings = unsafe {
        check(libc::tcgetattr(terminal, settings.as_mut_ptr()))?;
        settings.assume_init()
    };
    Ok(SavedTerminal { terminal, settings, farewell })
}

/// Gives the terminal back, if it is ours. Nothing can be done, and nobody told, where this fails: the terminal is gone then.
/// Async-signal-safe.
pub fn restore() {
    if !IS_RAW.swap(false, Ordering::AcqRel) {
        return;
    }
    let Some(before) = SAVED.get() else { return };
    // SAFETY: async-signal-safe calls (signal-safety(7)) on memory that lives as long as the process.
    unsafe {
        // Where we were stopped, and are ended in the background, this must not stop us anew.
        let mut background = MaybeUninit::<libc::sigset_t>::uninit();
        libc::sigemptyset(background.as_mut_ptr());
        libc::sigaddset(background.as_mut_ptr(), libc::SIGTTOU);
        let mut mask = MaybeUninit::<libc::sigset_t>::uninit();
        libc::pthread_sigmask(libc::SIG_BLOCK, background.as_ptr(), mask.as_mut_ptr());
        let mut rest = before.farewell;
        while let Ok(written @ 1..) =
            usize::try_from(libc::write(libc::STDOUT_FILENO, rest.as_ptr().cast(), rest.len()))
        {
            rest = rest.get(written..).unwrap_or(&[]);
        }
        // The settings are the shell's own while it is in the foreground.
        if libc::tcgetpgrp(before.terminal) == libc::getpgrp() {
            libc::tcsetattr(before.terminal, libc::TCSANOW, &raw const before.settings);
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, mask.as_ptr(), std::ptr::null_mut());
    }
}
