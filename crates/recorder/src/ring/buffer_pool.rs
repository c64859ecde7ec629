//! Memory for chunks, between the consumer of chunks and the threads that fill them. The buffer that was used last is used next,
//! while it is in the caches and has its pages; the others are for moments in which many chunks wait.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// The pool that both sides share.
struct Pool {
    free: Mutex<FreeBuffers>,
    /// Notified when a buffer is returned, and when no more will be.
    changed: Condvar,
    /// Bytes of each buffer: what the largest ring holds.
    buffer_size: usize,
}

struct FreeBuffers {
    /// The buffer that was used last is the last. Has the capacity for all buffers, so that nobody allocates under the lock.
    buffers: Vec<Buffer>,
    /// The smallest number of free buffers since [`BufferReturn::release_unused`]: these were not needed.
    min_free: usize,
    /// True if no buffer will be returned any more.
    closed: bool,
}

/// Memory of one chunk.
struct Buffer {
    bytes: Vec<u8>,
    /// True if it held a chunk, so that the kernel has given it pages.
    is_touched: bool,
}

impl FreeBuffers {
    /// Returns true if all buffers of the pool are free.
    fn is_full(&self) -> bool {
        self.buffers.len() >= self.buffers.capacity()
    }

    fn pop(&mut self) -> Option<Vec<u8>> {
        let buffer = self.buffers.pop();
        self.min_free = self.min_free.min(self.buffers.len());
        buffer.map(|buffer| buffer.bytes)
    }
}

/// The side of the pool to which emptied buffers are returned. No buffer will be returned any more when it is dropped.
pub(crate) struct BufferReturn(Arc<Pool>);

/// The side of the pool from which empty buffers are taken.
#[derive(Clone)]
pub(crate) struct BufferSource(Arc<Pool>);

/// Makes a pool of `count` buffers of `size` bytes.
pub(crate) fn buffer_pool(count: usize, size: usize) -> (BufferReturn, BufferSource) {
    let free = FreeBuffers { buffers: Vec::with_capacity(count), min_free: 0, closed: false };
    let pool = Arc::new(Pool { free: Mutex::new(free), changed: Condvar::new(), buffer_size: size });
    let side = BufferReturn(Arc::clone(&pool));
    for _ in 0..count {
        side.put_back(None);
    }
    (side, BufferSource(pool))
}

impl Pool {
    fn free(&self) -> MutexGuard<'_, FreeBuffers> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl BufferReturn {
    /// Returns a buffer after its chunk was consumed. With `None`, or a buffer that is too small, returns a new one in its place:
    /// the consumer has kept the memory of the chunk.
    pub(crate) fn put_back(&self, bytes: Option<Vec<u8>>) {
        if self.0.free().is_full() {
            return;
        }
        let bytes = bytes.filter(|bytes| bytes.capacity() >= self.0.buffer_size);
        let is_touched = bytes.is_some();
        let mut bytes = bytes.unwrap_or_default();
        bytes.clear();
        bytes.reserve_exact(self.0.buffer_size);
        let mut free = self.0.free();
        if !free.is_full() {
            free.buffers.push(Buffer { bytes, is_touched });
            drop(free);
            self.0.changed.notify_one();
        }
    }

    /// Returns to the kernel the pages of buffers that were not needed since the last call: the recorder would keep those of its
    /// busiest moment for ever.
    pub(crate) fn release_unused(&self) {
        let (count, unused) = {
            let mut free = self.0.free();
            let unused = free.min_free.min(free.buffers.len());
            free.min_free = free.buffers.len();
            (free.buffers.iter().take(unused).filter(|buffer| buffer.is_touched).count(), unused)
        };
        // New buffers have no pages until somebody writes to them. They are allocated, and the old ones freed, outside of the lock.
        let mut fresh: Vec<Vec<u8>> = (0..count).map(|_| Vec::with_capacity(self.0.buffer_size)).collect();
        let mut free = self.0.free();
        let touched = free.buffers.iter_mut().take(unused).filter(|buffer| buffer.is_touched);
        for (buffer, fresh) in touched.zip(&mut fresh) {
            std::mem::swap(&mut buffer.bytes, fresh);
            buffer.is_touched = false;
        }
        drop(free);
    }
}

impl Drop for BufferReturn {
    fn drop(&mut self) {
        self.0.free().closed = true;
        self.0.changed.notify_all();
    }
}

impl BufferSource {
    /// Takes a free buffer, if there is one.
    pub(crate) fn try_take(&self) -> Option<Vec<u8>> {
        self.0.free().pop()
    }

    /// Takes a free buffer; waits until one is returned. `None` if none will be.
    pub(crate) fn take(&self) -> Option<Vec<u8>> {
        let must_wait = |free: &mut FreeBuffers| free.buffers.is_empty() && !free.closed;
        let free = self.0.changed.wait_while(self.0.free(), must_wait);
        free.unwrap_or_else(PoisonError::into_inner).pop()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_a_busy_moment_are_returned() {
        let (side, source) = buffer_pool(8, 64);
        let touched =
            |side: &BufferReturn| side.0.free().buffers.iter().filter(|buffer| buffer.is_touched).count();
        let use_at_once = |count: usize| {
            let taken: Vec<Vec<u8>> = (0..count).filter_map(|_| source.try_take()).collect();
            taken.into_iter().for_each(|bytes| side.put_back(Some(bytes)));
        };
        side.release_unused();
        use_at_once(6);
        side.release_unused();
        assert_eq!(touched(&side), 6, "they were in use a moment ago");
        use_at_once(2);
        side.release_unused();
        assert_eq!(touched(&side), 2);
        side.release_unused();
        assert_eq!(touched(&side), 0);
        assert_eq!(
            std::iter::from_fn(|| source.try_take()).filter(|bytes| bytes.capacity() >= 64).count(),
            8
        );
    }

    #[test]
    fn the_buffer_that_was_used_last_is_used_next() {
        let (side, source) = buffer_pool(8, 64);
        let mut taken: Vec<Vec<u8>> = std::iter::from_fn(|| source.try_take()).collect();
        assert_eq!(taken.len(), 8);
        assert!(taken.iter().all(|bytes| bytes.is_empty() && bytes.capacity() >= 64));
        let used: Vec<*const u8> = taken[6..].iter().map(|bytes| bytes.as_ptr()).collect();
        for bytes in taken.drain(..) {
            side.put_back(Some(bytes));
        }
        for _ in 0..5 {
            let both = [source.try_take().unwrap(), source.try_take().unwrap()];
            assert!(both.iter().all(|bytes| used.contains(&bytes.as_ptr())));
            both.into_iter().for_each(|bytes| side.put_back(Some(bytes)));
        }
        side.put_back(Some(Vec::with_capacity(64)));
        assert_eq!(std::iter::from_fn(|| source.try_take()).count(), 8);
        side.put_back(Some(Vec::new()));
        assert!(source.take().unwrap().capacity() >= 64, "too small a buffer is replaced");
        let its = source.clone();
        let waiting = std::thread::spawn(move || (its.take().is_some(), its.take().is_some()));
        side.put_back(None);
        while !source.0.free().buffers.is_empty() {
            std::thread::yield_now();
        }
        drop(side);
        assert_eq!(waiting.join().unwrap(), (true, false));
    }
}
