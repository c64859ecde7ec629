//! The memory of a perf ring: `struct perf_event_mmap_page` and the records behind it. `recorder` implements the protocol.

use std::io;
use std::ops::Range;
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
    /// Positions of the records that are written up to the last seen head, and not read yet.
    unread: Range<u64>,
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
        let mut mapping = Self { base, length, data_offset: page, data_size, unread: 0..0 };
        // Kernels before 4.1 leave both words 0. Data then starts after the first page.
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

    /// Returns the capacity of the ring in bytes: a power of two.
    pub fn data_size(&self) -> usize {
        self.data_size
    }

    /// Returns the position at which the kernel writes next, counted from 0. Records before it are visible after this call.
    pub fn head(&self) -> u64 {
        self.word(DATA_HEAD).load(Ordering::Acquire)
    }

    /// Returns the number of unread bytes.
    pub fn fill(&self) -> u64 {
        self.head().wrapping_sub(self.unread.start)
    }

    /// Reads the head and returns the positions of the unread bytes. Positions only grow. The range is longer than
    /// [`Self::data_size`] only if the head has jumped.
    pub fn refresh_unread(&mut self) -> Range<u64> {
        self.unread.end = self.head();
        self.unread.clone()
    }

    /// Returns at most `length` bytes from `position`: fewer if the unread range (as of the last [`Self::refresh_unread`]) or the
    /// memory of the ring ends before.
    pub fn bytes(&self, position: u64, length: usize) -> &[u8] {
        let Range { start, end } = self.unread;
        let waiting = end.wrapping_sub(start);
        let behind_start = position.wrapping_sub(start);
        if waiting > self.data_size as u64 || behind_start >= waiting {
            return &[];
        }
        let offset = (position & (self.data_size as u64 - 1)) as usize;
        let length = length.min((waiting - behind_start) as usize).min(self.data_size - offset);
        // SAFETY: offset and length lie in the mapping's data. They are of what the kernel has written before the head that we
        // have seen, and it does not write there again before the tail has passed it: that takes `&mut self`.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr().add(self.data_offset + offset), length) }
    }

    /// Releases everything before `tail` to the kernel, which may overwrite it.
    pub fn set_tail(&mut self, tail: u64) {
        self.unread.start = tail;
        self.word(DATA_TAIL).store(tail, Ordering::Release);
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
