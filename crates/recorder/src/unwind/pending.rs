//! Records that wait until they are in the order of time: chunks stay where they are in memory, and only small handles are sorted.

use std::collections::VecDeque;

use model::EventIndex;

use super::unwound_sample::UnwoundSample;

/// The handle of a pending record.
#[derive(Clone, Copy, Debug)]
pub(super) struct RecordHandle {
    chunk: u64,
    offset: u32,
    pub(super) action: Action,
}

impl RecordHandle {
    /// Returns the handle with another action: a record is added before its event is known.
    pub(super) fn with_action(self, action: Action) -> Self {
        Self { action, ..self }
    }
}

/// The work that the stage does with a record once it is in order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Action {
    /// Unwind the stack copy of a sample of this event.
    Unwind(EventIndex),
    /// Forward a sample of this event that was unwound in its ring; its number among those of its chunk.
    ForwardUnwound(EventIndex, u32),
    /// Forward the record unchanged; its event, where it is known.
    Forward(Option<EventIndex>),
}

/// A chunk of records, and the number of handles that still refer to it.
#[derive(Debug)]
struct PendingChunk {
    bytes: Vec<u8>,
    unwound: Vec<UnwoundSample>,
    references: u32,
}

/// The chunks whose records are not all in order yet.
#[derive(Debug, Default)]
pub(super) struct PendingRecords {
    /// The number of the first of `chunks`, counted from the beginning of the recording.
    first: u64,
    chunks: VecDeque<PendingChunk>,
    /// The bytes of all of `chunks`.
    bytes: usize,
    /// Memory of released chunks, in the order of its capacity.
    spare: Vec<Vec<u8>>,
}

/// Maximum number of released chunks whose memory is kept for the next chunks.
const MAX_SPARE: usize = 8;

/// A copied chunk takes spare memory of at most this many times its size.
const MAX_CAPACITY_PER_BYTE: usize = 4;

impl PendingRecords {
    /// Adds a chunk, whose records must be added by [`PendingRecords::push_record`] before the next chunk. The chunk stays at
    /// least until the returned handle is released, so that its first records can be released before its last ones are added.
    pub(super) fn push_chunk(&mut self, bytes: Vec<u8>, unwound: Vec<UnwoundSample>) -> RecordHandle {
        self.bytes += bytes.len();
        self.chunks.push_back(PendingChunk { bytes, unwound, references: 0 });
        self.push_record(0, Action::Forward(None))
    }

    /// Adds the record that begins at `offset` of the newest chunk.
    pub(super) fn push_record(&mut self, offset: usize, action: Action) -> RecordHandle {
        if let Some(chunk) = self.chunks.back_mut() {
            chunk.references += 1;
        }
        let chunk = self.first + self.chunks.len() as u64 - 1;
        // A chunk is at most as large as a ring, so that its offsets fit into 32 bits.
        RecordHandle { chunk, offset: u32::try_from(offset).unwrap_or(u32::MAX), action }
    }

    /// Returns the bytes of the handle's chunk from its record on.
    pub(super) fn bytes_from(&self, handle: RecordHandle) -> &[u8] {
        let chunk = self.chunks.get(self.index_of(handle));
        chunk.and_then(|chunk| chunk.bytes.get(handle.offset as usize..)).unwrap_or_default()
    }

    /// Returns the sample with this number among those of the handle's chunk that were unwound in their ring.
    pub(super) fn unwound(&self, handle: RecordHandle, number: u32) -> Option<&UnwoundSample> {
        self.chunks.get(self.index_of(handle))?.unwound.get(number as usize)
    }

    /// Drops the record of `handle`, and its chunk with the last of its records.
    pub(super) fn release(&mut self, handle: RecordHandle) {
        let index = self.index_of(handle);
        if let Some(chunk) = self.chunks.get_mut(index) {
            chunk.references = chunk.references.saturating_sub(1);
            if chunk.references == 0 {
                let bytes = std::mem::take(&mut chunk.bytes);
                chunk.unwound = Vec::new();
                self.bytes = self.bytes.saturating_sub(bytes.len());
                self.keep_spare(bytes);
            }
        }
        while self.chunks.front().is_some_and(|chunk| chunk.references == 0) {
            self.chunks.pop_front();
            self.first += 1;
        }
    }

    /// Keeps the memory of a released chunk. Of too many, the smallest goes: chunks of the sideband are small, and large memory
    /// is worth more. Of equal ones the newest is the first to be used again.
    fn keep_spare(&mut self, mut bytes: Vec<u8>) {
        bytes.clear();
        let position = self.spare.partition_point(|spare| spare.capacity() <= bytes.capacity());
        self.spare.insert(position, bytes);
        if self.spare.len() > MAX_SPARE {
            self.spare.remove(0);
        }
    }

    fn index_of(&self, handle: RecordHandle) -> usize {
        usize::try_from(handle.chunk.wrapping_sub(self.first)).unwrap_or(usize::MAX)
    }

    /// Takes the largest memory of released chunks, if there is any.
    pub(super) fn take_spare(&mut self) -> Option<Vec<u8>> {
        self.spare.pop()
    }

    /// Copies a chunk into the smallest spare memory that fits: to allocate large blocks for each chunk costs more than to copy
    /// what is in them.
    pub(super) fn copy(&mut self, bytes: &[u8]) -> Vec<u8> {
        let position = self.spare.partition_point(|spare| spare.capacity() < bytes.len());
        let fits = |spare: &Vec<u8>| spare.capacity() / MAX_CAPACITY_PER_BYTE <= bytes.len();
        let is_fitting = self.spare.get(position).is_some_and(fits);
        let mut copy = if is_fitting { self.spare.remove(position) } else { Vec::new() };
        copy.extend_from_slice(bytes);
        copy
    }

    /// Frees the memory that was kept of released chunks.
    pub(super) fn free_spare(&mut self) {
        self.spare = Vec::new();
    }

    /// Returns the number of bytes in pending chunks.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn push(pending: &mut PendingRecords, bytes: &[u8]) -> RecordHandle {
        pending.push_chunk(bytes.to_vec(), Vec::new())
    }

    #[test]
    fn a_chunk_goes_with_its_last_record() {
        let mut pending = PendingRecords::default();
        let first = push(&mut pending, b"abc");
        let (a, b) =
            (pending.push_record(0, Action::Forward(None)), pending.push_record(1, Action::Forward(None)));
        pending.release(first);
        let second = push(&mut pending, b"xyz");
        let x = pending.push_record(2, Action::Forward(None));
        pending.release(second);
        assert_eq!(
            (pending.bytes_from(b), pending.bytes_from(x), pending.bytes()),
            (&b"bc"[..], &b"z"[..], 6)
        );
        pending.release(x);
        pending.release(a);
        assert_eq!(pending.bytes_from(b), b"bc");
        let newest = pending.bytes_from(b).as_ptr().wrapping_sub(1);
        pending.release(b);
        assert_eq!((pending.bytes(), pending.chunks.len()), (0, 0));
        let spare = pending.take_spare().unwrap();
        assert_eq!(spare.as_ptr(), newest);
    }

    #[test]
    fn copies_are_made_where_earlier_chunks_were() {
        let mut pending = PendingRecords::default();
        for size in [1000, 200] {
            let chunk = pending.push_chunk(Vec::with_capacity(size), Vec::new());
            pending.release(chunk);
        }
        let copy = pending.copy(&[7; 150]);
        assert_eq!((copy.as_slice(), copy.capacity()), (&[7; 150][..], 200));
        assert_eq!(pending.copy(&[7; 150]).capacity(), 150, "the other one is much too large");
        assert_eq!(pending.copy(&[7; 500]).capacity(), 1000);
        assert!(pending.copy(&[7; 2000]).len() == 2000 && pending.spare.is_empty());
    }

    #[test]
    fn a_chunk_whose_first_record_is_released_at_once_can_be_read_on() {
        let mut pending = PendingRecords::default();
        let chunk = push(&mut pending, b"abc");
        let a = pending.push_record(0, Action::Forward(None));
        pending.release(a);
        let b = pending.push_record(1, Action::Forward(None));
        assert_eq!(pending.bytes_from(b), b"bc");
        pending.release(b);
        pending.release(chunk);
        assert_eq!((pending.bytes(), pending.chunks.len()), (0, 0));
    }
}
