//! The memory of a ring: `struct perf_event_mmap_page` and the records behind it. The protocol is `recorder`'s.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use super::system::page_size;

// Offsets in `struct perf_event_mmap_page` (include/uapi/linux/perf_event.h).
const DATA_HEAD: usize = 1024;
const DATA_TAIL: usize = 1032;
const DATA_OFFSET: usize = 1040;
const DATA_SIZE: usize = 1048;

/// A mapped ring. Unmapped when dropped.
#[derive(Debug)]
pub struct RingMapping {
    base: NonNull<u8>,
    length: usize,
    data_offset: usize,
    data_size: usize,
}

// SAFETY: the mapping belongs to the value alone and is not bound to a thread; head and tail are atomic.
unsafe impl Send for RingMapping {}

impl RingMapping {
    pub(super) fn map(event: BorrowedFd<'_>, data_size: usize) -> io::Result<Self> {
        let page = page_size();
        let invalid = || io::Error::from_raw_os_error(libc::EINVAL);
        if !data_size.is_power_of_two() || data_size < page {
            return Err(invalid());
        }
        let length = data_size.checked_add(page).ok_or_else(invalid)?;
        // SAFETY: a new mapping at a place of the kernel's choice; nothing else is touched.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                length,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                event.as_raw_fd(),
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast::<u8>()).ok_or_else(invalid)?;
        let mut mapping = Self { base, length, data_offset: page, data_size };
        // Kernels before 4.1 leave both words 0; the data then begins behind the first page.
        let offset = mapping.word(DATA_OFFSET).load(Ordering::Relaxed) as usize;
        let size = mapping.word(DATA_SIZE).load(Ordering::Relaxed) as usize;
        if size != 0 {
            let fits = offset.checked_add(size).is_some_and(|end| end <= length);
            if !fits || !size.is_power_of_two() {
                return Err(invalid());
            }
            (mapping.data_offset, mapping.data_size) = (offset, size);
        }
        Ok(mapping)
    }

    /// How many bytes of records the ring holds: a power of two.
    pub fn data_size(&self) -> usize {
        self.data_size
    }

    /// Where the kernel will write next: it only grows. What lies before it is visible after this call.
    pub fn head(&self) -> u64 {
        self.word(DATA_HEAD).load(Ordering::Acquire)
    }

    /// How far the reader has come.
    pub fn tail(&self) -> u64 {
        self.word(DATA_TAIL).load(Ordering::Relaxed)
    }

    /// Says that everything before `tail` has been read: the kernel may overwrite it.
    pub fn set_tail(&self, tail: u64) {
        self.word(DATA_TAIL).store(tail, Ordering::Release);
    }

    /// Appends `length` bytes of the ring, from `offset` within it, to `into`. What would lie behind the ring's
    /// end is not copied.
    pub fn append_to(&self, offset: usize, length: usize, into: &mut Vec<u8>) {
        let offset = offset.min(self.data_size);
        let length = length.min(self.data_size - offset);
        into.reserve(length);
        // SAFETY: source and length were held against the mapping, the destination was reserved. The kernel
        // writes only where the reader has not been promised bytes; every byte pattern is a u8.
        unsafe {
            let source = self.base.as_ptr().add(self.data_offset + offset);
            std::ptr::copy_nonoverlapping(source, into.as_mut_ptr().add(into.len()), length);
            into.set_len(into.len() + length);
        }
    }

    /// The word `offset` bytes into the records; 0 where none lies there.
    pub fn record_word(&self, offset: usize) -> u64 {
        if offset.checked_add(8).is_none_or(|end| end > self.data_size) {
            return 0;
        }
        // SAFETY: all eight bytes lie in the mapping, as was just checked. The kernel writes only where the reader has
        // not been promised bytes; every byte pattern is a u64.
        unsafe { self.base.as_ptr().add(self.data_offset + offset).cast::<u64>().read_unaligned() }
    }

    fn word(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: the four offsets used lie in the first page of the mapping and are multiples of eight; the
        // kernel accesses the words atomically.
        unsafe { &*self.base.as_ptr().add(offset).cast::<AtomicU64>() }
    }
}

impl Drop for RingMapping {
    fn drop(&mut self) {
        // SAFETY: the mapping was made in `map` and nothing borrows from it any more.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.length) };
    }
}
