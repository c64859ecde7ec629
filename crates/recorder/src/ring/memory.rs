//! Memory for chunks, on its way between the readers and who takes the chunks. What was used last is used next, while caches
//! and page tables still know it; the rest is for when much waits.

use crossbeam_channel::{Receiver, Sender};

/// Where emptied memory is given back.
pub(crate) struct Recycled {
    warm: Sender<Vec<u8>>,
    cold: Sender<Vec<u8>>,
    /// Bytes of each: what the largest ring holds.
    size: usize,
}

/// Where it is taken from.
#[derive(Clone)]
pub(crate) struct Spare {
    warm: Receiver<Vec<u8>>,
    cold: Receiver<Vec<u8>>,
}

/// All memory that `readers` will use: `count` pieces of `size` bytes.
pub(crate) fn pieces(count: usize, size: usize, readers: usize) -> (Recycled, Spare) {
    let (warm, from_warm) = crossbeam_channel::bounded(readers);
    let (cold, from_cold) = crossbeam_channel::bounded(count);
    let recycled = Recycled { warm, cold, size };
    for _ in 0..count {
        recycled.give(None);
    }
    (recycled, Spare { warm: from_warm, cold: from_cold })
}

impl Recycled {
    /// Gives memory back for the next chunk, in the place of a chunk's that was taken; `None` where that was kept.
    pub(crate) fn give(&self, bytes: Option<Vec<u8>>) {
        let mut bytes = bytes.filter(|bytes| bytes.capacity() >= self.size).unwrap_or_default();
        bytes.clear();
        bytes.reserve_exact(self.size);
        if let Err(bytes) = self.warm.try_send(bytes) {
            // Where there are spare ones enough, this one is freed.
            let _ = self.cold.try_send(bytes.into_inner());
        }
    }
}

impl Spare {
    /// A piece, if one is there.
    pub(crate) fn take(&self) -> Option<Vec<u8>> {
        self.warm.try_recv().or_else(|_| self.cold.try_recv()).ok()
    }

    /// A piece; waits until one is given back. `None` when nobody will.
    pub(crate) fn wait(&self) -> Option<Vec<u8>> {
        crossbeam_channel::select! {
            recv(self.warm) -> bytes => bytes.ok(),
            recv(self.cold) -> bytes => bytes.ok(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_used_last_is_used_next() {
        let (recycled, spare) = pieces(8, 64, 2);
        let mut taken: Vec<Vec<u8>> = std::iter::from_fn(|| spare.take()).collect();
        assert_eq!(taken.len(), 8);
        assert!(taken.iter().all(|bytes| bytes.is_empty() && bytes.capacity() >= 64));
        let used: Vec<*const u8> = taken[..2].iter().map(|bytes| bytes.as_ptr()).collect();
        for bytes in taken.drain(..) {
            recycled.give(Some(bytes));
        }
        for _ in 0..5 {
            let mut bytes = spare.take().unwrap();
            assert!(used.contains(&bytes.as_ptr()));
            bytes.push(1);
            recycled.give(Some(bytes));
        }
        assert_eq!(std::iter::from_fn(|| spare.take()).count(), 8);
        recycled.give(Some(Vec::new()));
        assert!(spare.wait().unwrap().capacity() >= 64, "too small a piece is replaced");
        drop(recycled);
        assert!(spare.wait().is_none());
    }
}
