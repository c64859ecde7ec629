//! Records that wait for their turn in time: chunks stay where they came, the order moves small handles.

use std::collections::VecDeque;

use model::EventIndex;

/// The handle of a waiting record.
#[derive(Clone, Copy, Debug)]
pub(super) struct Handle {
    chunk: u64,
    offset: u32,
    /// The work to be done with it when its turn comes.
    pub(super) task: Task,
}

/// The work to be done with a record when its turn comes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Task {
    /// A sample of this event, to be unwound.
    Unwind(EventIndex),
    /// A sample of this event, unwound early.
    PassEarly(EventIndex),
    /// A record of this event, if any, that is handed on as it is.
    Pass(Option<EventIndex>),
}

/// Chunks with records that wait.
#[derive(Debug, Default)]
pub(super) struct WaitingRecords {
    first: u64,
    chunks: VecDeque<(Vec<u8>, u32)>,
    bytes: usize,
    spare: Vec<Vec<u8>>,
}

/// Emptied chunks that are kept for the next ones.
const MOST_SPARE: usize = 8;

/// A copy takes memory of no more than so many times its size.
const ROOMY: usize = 4;

impl WaitingRecords {
    /// Begins a chunk. Its records are added by [`WaitingRecords::add`] before the next one begins. The chunk stays until what this
    /// returns is released, even if none of its records waits any more.
    pub(super) fn begin(&mut self, bytes: Vec<u8>) -> Handle {
        self.bytes += bytes.len();
        self.chunks.push_back((bytes, 0));
        self.add(0, Task::Pass(None))
    }

    /// A record of the newest chunk, at `offset`.
    pub(super) fn add(&mut self, offset: usize, task: Task) -> Handle {
        if let Some((_, waiting)) = self.chunks.back_mut() {
            *waiting += 1;
        }
        let chunk = self.first + self.chunks.len() as u64 - 1;
        // Chunks are no larger than a ring.
        Handle { chunk, offset: u32::try_from(offset).unwrap_or(u32::MAX), task }
    }

    /// The newest record was added before it was known what is to be done with it.
    pub(super) fn with_task(handle: Handle, task: Task) -> Handle {
        Handle { task, ..handle }
    }

    /// The bytes from a record on.
    pub(super) fn at(&self, handle: Handle) -> &[u8] {
        let index = usize::try_from(handle.chunk.wrapping_sub(self.first)).unwrap_or(usize::MAX);
        self.chunks.get(index).and_then(|(bytes, _)| bytes.get(handle.offset as usize..)).unwrap_or_default()
    }

    /// A record has had its turn.
    pub(super) fn release(&mut self, handle: Handle) {
        let index = usize::try_from(handle.chunk.wrapping_sub(self.first)).unwrap_or(usize::MAX);
        if let Some((bytes, waiting)) = self.chunks.get_mut(index) {
            *waiting = waiting.saturating_sub(1);
            if *waiting == 0 {
                self.bytes = self.bytes.saturating_sub(bytes.len());
                let mut bytes = std::mem::take(bytes);
                bytes.clear();
                // Those of the sideband are small: the largest are worth keeping. The one used last is the first to be used
                // again.
                let place = self.spare.partition_point(|spare| spare.capacity() <= bytes.capacity());
                self.spare.insert(place, bytes);
                if self.spare.len() > MOST_SPARE {
                    self.spare.remove(0);
                }
            }
        }
        while self.chunks.front().is_some_and(|(bytes, waiting)| *waiting == 0 && bytes.is_empty()) {
            self.chunks.pop_front();
            self.first += 1;
        }
    }

    /// Memory for a chunk.
    pub(super) fn spare(&mut self) -> Option<Vec<u8>> {
        self.spare.pop()
    }

    /// Copies a chunk into memory that fits: large blocks that are made anew each time cost more than what is in them.
    pub(super) fn copy(&mut self, bytes: &[u8]) -> Vec<u8> {
        let place = self.spare.partition_point(|spare| spare.capacity() < bytes.len());
        let fits = self.spare.get(place).is_some_and(|spare| spare.capacity() / ROOMY <= bytes.len());
        let mut copy = if fits { self.spare.remove(place) } else { Vec::new() };
        copy.extend_from_slice(bytes);
        copy
    }

    /// Drops the memory that is kept for chunks.
    pub(super) fn drop_spare(&mut self) {
        self.spare = Vec::new();
    }

    /// Returns the number of waiting bytes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_goes_with_its_last_record() {
        let mut held = WaitingRecords::default();
        let first = held.begin(b"abc".to_vec());
        let (a, b) = (held.add(0, Task::Pass(None)), held.add(1, Task::Pass(None)));
        held.release(first);
        let second = held.begin(b"xyz".to_vec());
        let x = held.add(2, Task::Pass(None));
        held.release(second);
        assert_eq!((held.at(b), held.at(x), held.bytes()), (&b"bc"[..], &b"z"[..], 6));
        held.release(x);
        held.release(a);
        assert_eq!(held.at(b), b"bc");
        let newest = held.at(b).as_ptr().wrapping_sub(1);
        held.release(b);
        assert_eq!((held.bytes(), held.chunks.len()), (0, 0));
        let spare = held.spare().unwrap();
        assert_eq!(spare.as_ptr(), newest);
    }

    #[test]
    fn copies_are_made_where_earlier_chunks_were() {
        let mut held = WaitingRecords::default();
        for size in [1000, 200] {
            let chunk = held.begin(Vec::with_capacity(size));
            held.release(chunk);
        }
        let copy = held.copy(&[7; 150]);
        assert_eq!((copy.as_slice(), copy.capacity()), (&[7; 150][..], 200));
        assert_eq!(held.copy(&[7; 150]).capacity(), 150, "the other one is much too large");
        assert_eq!(held.copy(&[7; 500]).capacity(), 1000);
        assert!(held.copy(&[7; 2000]).len() == 2000 && held.spare.is_empty());
    }

    #[test]
    fn a_chunk_whose_first_record_is_released_at_once_can_be_read_on() {
        let mut held = WaitingRecords::default();
        let chunk = held.begin(b"abc".to_vec());
        let a = held.add(0, Task::Pass(None));
        held.release(a);
        let b = held.add(1, Task::Pass(None));
        assert_eq!(held.at(b), b"bc");
        held.release(b);
        held.release(chunk);
        assert_eq!((held.bytes(), held.chunks.len()), (0, 0));
    }
}
