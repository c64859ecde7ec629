//! The C library's memory.

use std::alloc::{GlobalAlloc, Layout, System};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use super::{fatal_signals, terminal};

/// Blocks of so many bytes are large.
const MMAP_THRESHOLD_BYTES: i32 = 256 << 10;

/// Lets every large block be a mapping of its own, which is gone when the block is freed. The C library would
/// otherwise put blocks as large as the largest that was ever freed between small ones, where they leave holes: a program
/// that runs for days grows by them (`record --overwrite --window 16M -a` beside compilers to 144 MB in five minutes, and to
/// 101 MB with this).
pub fn map_large_blocks_separately() {
    // SAFETY: it changes how blocks are found from now on, none that there are (mallopt(3)).
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, MMAP_THRESHOLD_BYTES);
        // As much may lie free at the end of what small blocks are made of, before it is given back and taken anew.
        libc::mallopt(libc::M_TRIM_THRESHOLD, MMAP_THRESHOLD_BYTES.saturating_mul(8));
        libc::mallopt(libc::M_TOP_PAD, MMAP_THRESHOLD_BYTES);
    }
}

/// Gives memory that was freed back to the kernel, as far as the C library can. Threads keep what they free for
/// themselves otherwise, each its own.
pub fn release_freed() {
    // SAFETY: it moves nothing that is in use, and may be called at any time by any thread (malloc_trim(3)).
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::malloc_trim(0);
    }
}

/// The C library's allocator, but for what happens when there is nothing more to give: this process then ends with a sentence
/// and the exit code 1, instead of SIGABRT ([`exit_when_exhausted`]).
///
/// Large blocks are refused instead, as those who ask for them may be able to do without: a file that says that it is huge
/// must not end us. Where nobody can, the standard library says so and aborts, which ends in the same code.
#[derive(Debug)]
pub struct Allocator;

/// No table that grows with what is recorded is as large in one piece.
const REFUSED_FROM_BYTES: usize = 256 << 20;

/// Bytes; as much as a thread or a table asks for: where there is less, the next one fails.
const PROBE_BYTES: usize = 1 << 20;

/// The sentence.
static LAST_WORDS: AtomicPtr<&'static str> = AtomicPtr::new(ptr::null_mut());
/// True if a large block was refused.
static REFUSED_LARGE_BLOCK: AtomicBool = AtomicBool::new(false);

/// Sets the line that is written to standard error when no memory is left; the process ends with the exit code 1 then.
/// May be called again with another one.
pub fn exit_when_exhausted(last_words: &'static &'static str) {
    LAST_WORDS.store(ptr::from_ref(last_words).cast_mut(), Ordering::Release);
    fatal_signals::exit_before_abort();
}

/// Ends this process as [`exit_when_exhausted`] says if no memory is left: for a panic, whose cause that may be (a thread that
/// cannot get its second stack, a table that cannot grow). Async-signal-safe.
pub fn exit_if_exhausted() {
    // SAFETY: a new mapping that nobody uses, removed at once.
    unsafe {
        let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        let probe = libc::mmap(ptr::null_mut(), PROBE_BYTES, access, kind, -1, 0);
        if probe == libc::MAP_FAILED {
            print_last_words_and_exit();
        }
        libc::munmap(probe, PROBE_BYTES);
    }
}

/// As [`exit_if_exhausted`], for an abort: also one that a refused block has led to, which the standard library has said.
/// Async-signal-safe.
pub(super) fn exit_if_abort_is_of_memory() {
    exit_if_exhausted();
    if REFUSED_LARGE_BLOCK.load(Ordering::Relaxed) {
        terminal::restore();
        // SAFETY: no memory is involved.
        unsafe { libc::_exit(1) }
    }
}

/// Says the last words, and ends. Returns where there are none.
fn print_last_words_and_exit() {
    // SAFETY: what is stored is null or lives for ever.
    let Some(words) = (unsafe { LAST_WORDS.load(Ordering::Acquire).as_ref() }) else { return };
    terminal::restore();
    // SAFETY: the bytes live for ever. Nothing can be done where they cannot be written.
    unsafe {
        libc::write(libc::STDERR_FILENO, words.as_ptr().cast(), words.len());
        libc::_exit(1)
    }
}

fn or_exit(block: *mut u8, size: usize) -> *mut u8 {
    if block.is_null() {
        if size < REFUSED_FROM_BYTES {
            print_last_words_and_exit();
        }
        REFUSED_LARGE_BLOCK.store(true, Ordering::Relaxed);
    }
    block
}

// SAFETY: all is passed on to the system's allocator, and its blocks are passed back as they are.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps the contract, which is the same.
        or_exit(unsafe { System.alloc(layout) }, layout.size())
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        or_exit(unsafe { System.alloc_zeroed(layout) }, layout.size())
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as above.
        or_exit(unsafe { System.realloc(block, layout, size) }, size)
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(block, layout) }
    }
}
