//! What this process was started with: open descriptors, and signals that are ignored.
//!
//! Before `main`, the standard library ignores SIGPIPE and opens `/dev/null` for standard descriptors that are closed. So what
//! was there is noted earlier, as the program is loaded.

use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use super::check;

/// Bit N − 1 for the ignored signal N.
static IGNORED: AtomicU64 = AtomicU64::new(0);
/// Bit N for the closed descriptor N, of the first three.
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

/// Returns true if this process was started with the signal ignored, as `nohup` and shells' background jobs are.
pub fn is_ignored(signal: i32) -> bool {
    (1..=64).contains(&signal) && IGNORED.load(Ordering::Relaxed) & 1 << (signal - 1) != 0
}

/// Duplicates a descriptor that this process was started with and that is open for writing. Both share their position.
///
/// # Errors
/// `EBADF` where there is none: those that this process opened itself are closed on exec, and do not count.
pub fn descriptor(number: i32) -> io::Result<File> {
    duplicate(number, |mode| mode != libc::O_RDONLY)
}

/// The same for one that is open for reading.
///
/// # Errors
/// As [`descriptor`].
pub fn descriptor_to_read(number: i32) -> io::Result<File> {
    duplicate(number, |mode| mode != libc::O_WRONLY)
}

/// Duplicates a file's descriptor so that the programs have it which this process starts while it is open.
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
