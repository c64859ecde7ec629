//! Bytes of records that wait for their turn.

/// A record that waits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    /// The chunk that it lies in.
    pub(crate) chunk: usize,
    /// Where it begins.
    pub(crate) offset: usize,
    /// Its bytes.
    pub(crate) length: usize,
    /// The event, by its place.
    pub(crate) event: u32,
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

/// How many buffers, and how large ones, are kept for later.
const SPARE: usize = 64;
const LARGEST_SPARE: usize = 1 << 20;

impl Chunks {
    /// Keeps a chunk of so many records; returns its number.
    pub(crate) fn hold(&mut self, bytes: Vec<u8>, records: usize) -> usize {
        if records == 0 {
            self.keep(bytes);
            return usize::MAX;
        }
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
    pub(crate) fn bytes(&self, held: Held) -> Option<&[u8]> {
        self.slots.get(held.chunk)?.bytes.get(held.offset..)?.get(..held.length)
    }

    /// A record was taken.
    pub(crate) fn release(&mut self, held: Held) {
        let Some(slot) = self.slots.get_mut(held.chunk) else { return };
        slot.records = slot.records.saturating_sub(1);
        if slot.records == 0 {
            let bytes = std::mem::take(&mut slot.bytes);
            self.free.push(held.chunk);
            self.keep(bytes);
        }
    }

    /// A buffer that is not needed any more.
    pub(crate) fn spare(&mut self) -> Option<Vec<u8>> {
        self.spare.pop()
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
        let chunk = chunks.hold(b"abcdef".to_vec(), 2);
        let held = |offset| Held { chunk, offset, length: 3, event: 0 };
        assert_eq!(chunks.bytes(held(3)), Some(&b"def"[..]));
        chunks.release(held(0));
        assert_eq!((chunks.spare(), chunks.bytes(held(3))), (None, Some(&b"def"[..])));
        chunks.release(held(3));
        assert_eq!(chunks.spare(), Some(b"abcdef".to_vec()));
        assert_eq!(chunks.hold(Vec::new(), 1), chunk, "numbers are used again");
    }
}
