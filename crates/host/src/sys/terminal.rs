//! Raw mode of the terminal, which is left at every end of this process except SIGKILL.

use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, IntoRawFd, RawFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use super::check;
use super::fatal_signals;

/// The terminal and its settings before raw mode.
struct SavedTerminal {
    terminal: RawFd,
    settings: libc::termios,
    /// Bytes that are written to standard output before the settings are restored.
    farewell: &'static [u8],
}

static SAVED: OnceLock<SavedTerminal> = OnceLock::new();
/// True while the terminal is in raw mode.
static IS_RAW: AtomicBool = AtomicBool::new(false);

/// Puts the terminal into raw mode (`cfmakeraw(3)`), again if a shell that stopped and continued us has changed it. From now on
/// [`restore`], and every signal that ends this process, writes `farewell` to standard output and restores the settings from before
/// the first call.
///
/// # Errors
/// There is no terminal.
pub fn enter_raw_mode(farewell: &'static [u8]) -> io::Result<()> {
    let before = match SAVED.get() {
        Some(before) => before,
        None => {
            let before = find_terminal(farewell)?;
            fatal_signals::call_before_end(restore);
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
        // Stays open until the process ends, because a signal may come at any time.
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

/// Leaves raw mode, if the terminal is in it. Failures are ignored: the terminal is gone then. Async-signal-safe.
pub fn restore() {
    if !IS_RAW.swap(false, Ordering::AcqRel) {
        return;
    }
    let Some(before) = SAVED.get() else { return };
    // SAFETY: async-signal-safe calls (signal-safety(7)) on memory that lives as long as the process.
    unsafe {
        // In the background, tcsetattr(3) would stop this process with SIGTTOU.
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
        // In the background, the settings are those of the shell.
        if libc::tcgetpgrp(before.terminal) == libc::getpgrp() {
            libc::tcsetattr(before.terminal, libc::TCSANOW, &raw const before.settings);
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, mask.as_ptr(), std::ptr::null_mut());
    }
}
