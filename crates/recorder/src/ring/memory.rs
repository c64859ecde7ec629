//! Memory for chunks, on its way between the readers and who takes the chunks. What was used last is used next, while caches
//! and page tables still know it; the rest is for when much waits.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// The memory that both sides share.
struct Pieces {
    /// The one used last is the last.
    free: Mutex<Free>,
    /// There is a piece again, or there will never be one.
    changed: Condvar,
    /// Bytes of each: what the largest ring holds.
    size: usize,
}

struct Free {
    /// With room for all there are: who holds the lock does not wait for memory.
    pieces: Vec<Piece>,
    /// The smallest number of pieces that were free at once since [`Recycled::release_unused`]: so many were not needed.
    fewest: usize,
    /// True if none will be given back any more.
    closed: bool,
}

/// Memory of one chunk.
struct Piece {
    bytes: Vec<u8>,
    /// True if a chunk has been in it: then the kernel has given it pages.
    is_touched: bool,
}

impl Free {
    /// Returns true if there are spare pieces enough.
    fn is_full(&self) -> bool {
        self.pieces.len() >= self.pieces.capacity()
    }

    fn take(&mut self) -> Option<Vec<u8>> {
        let piece = self.pieces.pop();
        self.fewest = self.fewest.min(self.pieces.len());
        piece.map(|piece| piece.bytes)
    }
}

/// The side of the pool by which emptied memory is given back.
pub(crate) struct Recycled(Arc<Pieces>);

/// The side of the pool from which emptied memory is taken.
#[derive(Clone)]
pub(crate) struct Spare(Arc<Pieces>);

/// All memory that readers will use: `count` pieces of `size` bytes.
pub(crate) fn pieces(count: usize, size: usize) -> (Recycled, Spare) {
    let free = Free { pieces: Vec::with_capacity(count), fewest: 0, closed: false };
    let pieces = Arc::new(Pieces { free: Mutex::new(free), changed: Condvar::new(), size });
    let recycled = Recycled(Arc::clone(&pieces));
    for _ in 0..count {
        recycled.give(None);
    }
    (recycled, Spare(pieces))
}

impl Pieces {
    fn free(&self) -> MutexGuard<'_, Free> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Recycled {
    /// Gives memory back for the next chunk, in the place of a chunk's that was taken; `None` where that was kept.
    pub(crate) fn give(&self, bytes: Option<Vec<u8>>) {
        if self.0.free().is_full() {
            return;
        }
        let bytes = bytes.filter(|bytes| bytes.capacity() >= self.0.size);
        let is_touched = bytes.is_some();
        let mut bytes = bytes.unwrap_or_default();
        bytes.clear();
        bytes.reserve_exact(self.0.size);
        let mut free = self.0.free();
        if !free.is_full() {
            free.pieces.push(Piece { bytes, is_touched });
            drop(free);
            self.0.changed.notify_one();
        }
    }

    /// Gives the pages of pieces that were not needed since the last call back to the kernel: those of a moment in which much
    /// waited would stay ours for good.
    pub(crate) fn release_unused(&self) {
        let (count, unused) = {
            let mut free = self.0.free();
            let unused = free.fewest.min(free.pieces.len());
            free.fewest = free.pieces.len();
            (free.pieces.iter().take(unused).filter(|piece| piece.is_touched).count(), unused)
        };
        // Address space only, until somebody writes there. Made and removed while nobody waits for us.
        let mut pieces: Vec<Vec<u8>> = (0..count).map(|_| Vec::with_capacity(self.0.size)).collect();
        let mut free = self.0.free();
        let touched = free.pieces.iter_mut().take(unused).filter(|piece| piece.is_touched);
        for (piece, fresh) in touched.zip(&mut pieces) {
            std::mem::swap(&mut piece.bytes, fresh);
            piece.is_touched = false;
        }
        drop(free);
    }
}

impl Drop for Recycled {
    fn drop(&mut self) {
        self.0.free().closed = true;
        self.0.changed.notify_all();
    }
}

impl Spare {
    /// A piece, if one is there.
    pub(crate) fn take(&self) -> Option<Vec<u8>> {
        self.0.free().take()
    }

    /// A piece; waits until one is given back. `None` when nobody will.
    pub(crate) fn wait(&self) -> Option<Vec<u8>> {
        let is_wanting = |free: &mut Free| free.pieces.is_empty() && !free.closed;
        let free = self.0.changed.wait_while(self.0.free(), is_wanting);
        free.unwrap_or_else(PoisonError::into_inner).take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_of_a_busy_moment_are_given_back() {
        let (recycled, spare) = pieces(8, 64);
        let touched =
            |recycled: &Recycled| recycled.0.free().pieces.iter().filter(|piece| piece.is_touched).count();
        let use_at_once = |count: usize| {
            let taken: Vec<Vec<u8>> = (0..count).filter_map(|_| spare.take()).collect();
            taken.into_iter().for_each(|bytes| recycled.give(Some(bytes)));
        };
        recycled.release_unused();
        use_at_once(6);
        recycled.release_unused();
        assert_eq!(touched(&recycled), 6, "they were in use a moment ago");
        use_at_once(2);
        recycled.release_unused();
        assert_eq!(touched(&recycled), 2);
        recycled.release_unused();
        assert_eq!(touched(&recycled), 0);
        assert_eq!(std::iter::from_fn(|| spare.take()).filter(|bytes| bytes.capacity() >= 64).count(), 8);
    }

    #[test]
    fn what_was_used_last_is_used_next() {
        let (recycled, spare) = pieces(8, 64);
        let mut taken: Vec<Vec<u8>> = std::iter::from_fn(|| spare.take()).collect();
        assert_eq!(taken.len(), 8);
        assert!(taken.iter().all(|bytes| bytes.is_empty() && bytes.capacity() >= 64));
        let used: Vec<*const u8> = taken[6..].iter().map(|bytes| bytes.as_ptr()).collect();
        for bytes in taken.drain(..) {
            recycled.give(Some(bytes));
        }
        for _ in 0..5 {
            let both = [spare.take().unwrap(), spare.take().unwrap()];
            assert!(both.iter().all(|bytes| used.contains(&bytes.as_ptr())));
            both.into_iter().for_each(|bytes| recycled.give(Some(bytes)));
        }
        recycled.give(Some(Vec::with_capacity(64)));
        assert_eq!(std::iter::from_fn(|| spare.take()).count(), 8);
        recycled.give(Some(Vec::new()));
        assert!(spare.wait().unwrap().capacity() >= 64, "too small a piece is replaced");
        let its = spare.clone();
        let waiting = std::thread::spawn(move || (its.wait().is_some(), its.wait().is_some()));
        recycled.give(None);
        while !spare.0.free().pieces.is_empty() {
            std::thread::yield_now();
        }
        drop(recycled);
        assert_eq!(waiting.join().unwrap(), (true, false));
    }
}
