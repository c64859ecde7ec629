//! Settings of the C library's allocator, and the exit when memory is exhausted.

use std::alloc::{GlobalAlloc, Layout, System};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use super::{fatal_signals, terminal};

/// Size from which a block gets a mapping of its own.
const MMAP_THRESHOLD_BYTES: i32 = 256 << 10;

/// Makes the allocator map every large block separately, so that its memory is released when it is freed. By default, the C library
/// raises its threshold to the size of the largest freed block. Large blocks among small ones then leave holes, by which a process
/// that runs for days grows: `record --overwrite --window 16M -a` beside compilers grew to 144 MB in five minutes, and to 101 MB with
/// this.
pub fn map_large_blocks_separately() {
    // SAFETY: it changes how blocks are found from now on, none that there are (mallopt(3)).
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, MMAP_THRESHOLD_BYTES);
        // Free memory at the top of the heap that is kept, and memory that is added at a time.
        libc::mallopt(libc::M_TRIM_THRESHOLD, MMAP_THRESHOLD_BYTES.saturating_mul(8));
        libc::mallopt(libc::M_TOP_PAD, MMAP_THRESHOLD_BYTES);
    }
}

/// Returns freed memory to the kernel (malloc_trim(3)). Otherwise, each thread keeps what it has freed.
pub fn release_freed() {
    // SAFETY: it moves nothing that is in use, and may be called at any time by any thread (malloc_trim(3)).
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::malloc_trim(0);
    }
}

/// The C library's allocator, except that exhausted memory ends this process with a message and exit code 1
/// ([`exit_when_exhausted`]) instead of SIGABRT.
///
/// Failed allocations of large blocks return null instead, because the caller may handle that: a file that claims to be huge must
/// not end this process. If the caller does not, the standard library reports it and aborts, which also ends in exit code 1.
#[derive(Debug)]
pub struct Allocator;

/// Size from which a failed allocation returns null. No table that grows with a recording is as large in one piece.
const REFUSED_FROM_BYTES: usize = 256 << 20;

/// Size of the mapping that tests for free memory: what a thread or a growing table allocates at a time.
const PROBE_BYTES: usize = 1 << 20;

/// The message; null until it is set.
static LAST_WORDS: AtomicPtr<&'static str> = AtomicPtr::new(ptr::null_mut());
/// True if allocating a large block has failed.
static REFUSED_LARGE_BLOCK: AtomicBool = AtomicBool::new(false);

/// Sets the message that is written to standard error before this process exits with code 1 when memory is exhausted. Can be called
/// again to change the message.
pub fn exit_when_exhausted(last_words: &'static &'static str) {
    LAST_WORDS.store(ptr::from_ref(last_words).cast_mut(), Ordering::Release);
    fatal_signals::call_before_abort(exit_if_abort_is_of_memory);
}

/// Exits as [`exit_when_exhausted`] describes if no memory is left. For the panic hook: exhausted memory may be the cause of the
/// panic (a thread without its alternate stack, a table that cannot grow). Async-signal-safe.
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

/// Exits on an abort like [`exit_if_exhausted`], and also if allocating a large block has failed, which the standard library has
/// reported. Async-signal-safe.
fn exit_if_abort_is_of_memory() {
    exit_if_exhausted();
    if REFUSED_LARGE_BLOCK.load(Ordering::Relaxed) {
        terminal::restore();
        // SAFETY: no memory is involved.
        unsafe { libc::_exit(1) }
    }
}

/// Writes the message and exits. Returns if no message is set.
fn print_last_words_and_exit() {
    // SAFETY: what is stored is null or lives for ever.
    let Some(words) = (unsafe { LAST_WORDS.load(Ordering::Acquire).as_ref() }) else { return };
    terminal::restore();
    // SAFETY: the bytes live for ever. A failed write is ignored.
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
