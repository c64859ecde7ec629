//! The open descriptors and ignored signals that this process was started with.
//!
//! Before `main`, the standard library ignores SIGPIPE and opens `/dev/null` for closed standard descriptors. So an initialization
//! function records the state earlier, when the program is loaded.

use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use super::check;

/// Bit N − 1 is set if signal N was ignored.
static IGNORED: AtomicU64 = AtomicU64::new(0);
/// Bit N is set if descriptor N (0 to 2) was closed.
static CLOSED: AtomicU8 = AtomicU8::new(0);

// SAFETY: the C library calls the functions in this section once, before `main` (System V ABI, "Initialization and
// Termination Functions"). This one needs nothing that is not there yet, and never unwinds.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_START: extern "C" fn() = record_at_start;

extern "C" fn record_at_start() {
    for signal in 1..=64 {
        let mut action = MaybeUninit::<libc::sigaction>::uninit();
        // SAFETY: the structure is written where the call succeeds, and read only then.
        let is_ignored = unsafe {
            libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr()) == 0
                && action.assume_init().sa_sigaction == libc::SIG_IGN
        };
        if is_ignored {
            IGNORED.fetch_or(1 << (signal - 1), Ordering::Relaxed);
        }
    }
    for number in 0..3 {
        // SAFETY: no memory is involved; a number that is no descriptor is an error.
        if unsafe { libc::fcntl(number, libc::F_GETFD) } < 0 {
            CLOSED.fetch_or(1 << number, Ordering::Relaxed);
        }
    }
}

/// Returns true if the signal was ignored when this process started, as after `nohup` and in background jobs of shells.
pub fn is_ignored(signal: i32) -> bool {
    (1..=64).contains(&signal) && IGNORED.load(Ordering::Relaxed) & 1 << (signal - 1) != 0
}

/// Duplicates an inherited descriptor that is open for writing. Both share their position.
///
/// # Errors
/// `EBADF` if there is none. Descriptors that this process opened itself (close-on-exec) do not count.
pub fn descriptor(number: i32) -> io::Result<File> {
    duplicate(number, |mode| mode != libc::O_RDONLY)
}

/// Duplicates an inherited descriptor that is open for reading. Both share their position.
///
/// # Errors
/// As [`descriptor`].
pub fn descriptor_to_read(number: i32) -> io::Result<File> {
    duplicate(number, |mode| mode != libc::O_WRONLY)
}

/// Duplicates the descriptor of a file without close-on-exec, so that programs started while it is open inherit it.
///
/// # Errors
/// Those of `fcntl(2)`.
pub fn duplicate_for_child(file: &File) -> io::Result<OwnedFd> {
    // SAFETY: no memory is involved; the descriptor that comes back is ours alone.
    let fd = check(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_DUPFD, 3) })?;
    // SAFETY: as above.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn duplicate(number: i32, is_meant: impl Fn(libc::c_int) -> bool) -> io::Result<File> {
    let was_closed = (0..3).contains(&number) && CLOSED.load(Ordering::Relaxed) & 1 << number != 0;
    // SAFETY: no memory is involved; a number that is no descriptor is an error.
    let flags = check(unsafe { libc::fcntl(number, libc::F_GETFD) })?;
    // SAFETY: as above.
    let mode = check(unsafe { libc::fcntl(number, libc::F_GETFL) })? & libc::O_ACCMODE;
    if was_closed || flags & libc::FD_CLOEXEC != 0 || !is_meant(mode) {
        return Err(io::Error::from_raw_os_error(libc::EBADF));
    }
    // SAFETY: no memory is involved; the descriptor that comes back is ours alone.
    let fd = check(unsafe { libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 3) })?;
    // SAFETY: as above.
    Ok(File::from(unsafe { OwnedFd::from_raw_fd(fd) }))
}
