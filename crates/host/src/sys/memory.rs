//! The C library's memory.

/// Lets every block of this size or more be a mapping of its own, which is gone when the block is freed. The C library would
/// otherwise put blocks as large as the largest that was ever freed between small ones, where they leave holes: a program
/// that runs for days grows by them.
pub fn keep_large_blocks_apart(bytes: i32) {
    // SAFETY: it changes how blocks are found from now on, none that there are (mallopt(3)).
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, bytes);
        // As much may lie free at the end of what small blocks are made of, before it is given back and taken anew.
        libc::mallopt(libc::M_TRIM_THRESHOLD, bytes.saturating_mul(8));
        libc::mallopt(libc::M_TOP_PAD, bytes);
    }
    #[cfg(not(target_env = "gnu"))]
    let _ = bytes;
}

/// Gives memory that was freed back to the kernel, as far as the C library can. Threads keep what they free for
/// themselves otherwise, each its own.
pub fn give_back() {
    // SAFETY: it moves nothing that is in use, and may be called at any time by any thread (malloc_trim(3)).
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::malloc_trim(0);
    }
}
