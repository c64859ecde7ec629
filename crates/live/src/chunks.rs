//! Bytes of records that wait for their turn.

use model::EventIndex;

/// A record that waits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecordSlot {
    /// The chunk that it lies in.
    pub(crate) chunk: usize,
    /// Its offset in the chunk.
    pub(crate) offset: usize,
    /// Its bytes.
    pub(crate) length: usize,
    /// The event.
    pub(crate) event: EventIndex,
}

/// Chunks, each kept until its last record was taken. Their memory is used again.
#[derive(Default, Debug)]
pub(crate) struct Chunks {
    slots: Vec<Slot>,
    free: Vec<usize>,
    spare: Vec<Vec<u8>>,
}

#[derive(Default, Debug)]
struct Slot {
    bytes: Vec<u8>,
    records: usize,
}

/// The number of buffers that are kept for later.
const SPARE: usize = 8;
const LARGEST_SPARE: usize = 1 << 20;

impl Chunks {
    /// Keeps a copy of a chunk of so many records; returns its number.
    pub(crate) fn hold(&mut self, chunk: &[u8], records: usize) -> usize {
        if records == 0 {
            return usize::MAX;
        }
        let mut bytes = self.spare.pop().unwrap_or_default();
        bytes.clear();
        bytes.extend_from_slice(chunk);
        let slot = Slot { bytes, records };
        match self.free.pop() {
            Some(number) => {
                if let Some(free) = self.slots.get_mut(number) {
                    *free = slot;
                }
                number
            }
            None => {
                self.slots.push(slot);
                self.slots.len() - 1
            }
        }
    }

    /// The bytes of a record.
    pub(crate) fn bytes(&self, held: RecordSlot) -> Option<&[u8]> {
        self.slots.get(held.chunk)?.bytes.get(held.offset..)?.get(..held.length)
    }

    /// A record was taken.
    pub(crate) fn release(&mut self, held: RecordSlot) {
        let Some(slot) = self.slots.get_mut(held.chunk) else { return };
        slot.records = slot.records.saturating_sub(1);
        if slot.records == 0 {
            let bytes = std::mem::take(&mut slot.bytes);
            self.free.push(held.chunk);
            self.keep(bytes);
        }
    }

    fn keep(&mut self, bytes: Vec<u8>) {
        if self.spare.len() < SPARE && bytes.capacity() <= LARGEST_SPARE {
            self.spare.push(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_comes_back_after_the_last_record() {
        let mut chunks = Chunks::default();
        let chunk = chunks.hold(b"abcdef", 2);
        let held = |offset| RecordSlot { chunk, offset, length: 3, event: EventIndex(0) };
        assert_eq!(chunks.bytes(held(3)), Some(&b"def"[..]));
        chunks.release(held(0));
        assert_eq!((chunks.spare.len(), chunks.bytes(held(3))), (0, Some(&b"def"[..])));
        chunks.release(held(3));
        assert_eq!((chunks.spare.len(), chunks.bytes(held(3))), (1, None));
        assert_eq!(chunks.hold(b"", 0), usize::MAX, "nothing is kept of nothing");
        assert_eq!(chunks.hold(b"xyz", 1), chunk, "numbers are used again");
        assert_eq!((chunks.spare.len(), chunks.bytes(held(0))), (0, Some(&b"xyz"[..])));
    }

    #[test]
    fn many_chunks_leave_little() {
        let mut chunks = Chunks::default();
        for round in 0..10_000 {
            let numbers: Vec<usize> = (0..round % 50).map(|_| chunks.hold(&[1; 1000], 1)).collect();
            for chunk in numbers {
                chunks.release(RecordSlot { chunk, offset: 0, length: 1, event: EventIndex(0) });
            }
        }
        assert!(chunks.slots.len() <= 50 && chunks.free.len() <= 50 && chunks.spare.len() <= SPARE);
    }
}
