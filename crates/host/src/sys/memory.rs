//! The C library's memory.

/// Gives memory that was freed back to the kernel, as far as the C library can. Threads keep what they free for
/// themselves otherwise, each its own.
pub fn give_back() {
    // SAFETY: it moves nothing that is in use, and may be called at any time by any thread (malloc_trim(3)).
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::malloc_trim(0);
    }
}
