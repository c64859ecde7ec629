//! The ring protocol (`perf_event_open(2)`, "MMAP layout"), over any memory.
//!
//! The kernel writes records at `data_head` and moves it forward. The recorder reads from `data_tail`, and moves that forward as
//! soon as a record is copied out, so that the kernel has its room again.

use std::ops::Range;

use decoder::{Endian, HEADER_SIZE, RecordHeader, StackCopy, StackCopyLocator, kind, offsets};
use host::sys::ring::RingMapping;

use crate::consumer::{Chunk, DrainStats, RingKind};
use crate::records::u64_at;

/// The memory of a ring.
pub trait RingMemory {
    /// Returns the number of bytes of records that the ring holds: a power of two.
    fn data_size(&self) -> usize;
    /// Reads `data_head`, and returns the positions of the unread bytes. Positions count all bytes that were ever written.
    fn refresh_unread(&mut self) -> Range<u64>;
    /// Returns at most `length` bytes from `position` on: fewer where the unread bytes of the last [`RingMemory::refresh_unread`], or the
    /// memory of the ring, end before.
    fn bytes(&self, position: u64, length: usize) -> &[u8];
    /// Writes `data_tail`: the kernel may overwrite all bytes before it.
    fn set_tail(&mut self, tail: u64);
}

impl RingMemory for RingMapping {
    fn data_size(&self) -> usize {
        self.data_size()
    }

    fn refresh_unread(&mut self) -> Range<u64> {
        self.refresh_unread()
    }

    fn bytes(&self, position: u64, length: usize) -> &[u8] {
        self.bytes(position, length)
    }

    fn set_tail(&mut self, tail: u64) {
        self.set_tail(tail);
    }
}

/// Replaces a sample while it is still in the ring. Appends a shorter record, or none, in its place and returns true, or leaves
/// the chunk unchanged and returns false. Must return soon: the kernel drops samples while the ring is full.
pub(crate) type Shrink<'a> = &'a mut dyn FnMut(&[u8], &mut Chunk) -> bool;

/// A [`Shrink`] that replaces no sample.
pub(crate) fn keep_sample(_sample: &[u8], _into: &mut Chunk) -> bool {
    false
}

/// Empties a ring: appends its whole records to `into`.
pub fn drain_whole(ring: &mut impl RingMemory, into: &mut Vec<u8>) -> DrainStats {
    let mut chunk = Chunk::new(RingKind::Sideband, std::mem::take(into));
    drain(ring, None, &mut keep_sample, &mut chunk);
    *into = chunk.bytes;
    chunk.drained
}

/// Empties a ring: appends its whole records to `into`, and sets its counts. With `stack_copies`, leaves out the unfilled bytes of stack copies, and
/// lets `shrink` replace samples.
pub(crate) fn drain(
    ring: &mut impl RingMemory,
    stack_copies: Option<&StackCopyLocator>,
    shrink: Shrink<'_>,
    into: &mut Chunk,
) {
    into.drained = DrainStats::default();
    let Range { start: tail, end: head } = ring.refresh_unread();
    let fill = head.wrapping_sub(tail);
    if fill == 0 {
        return;
    }
    if fill > ring.data_size() as u64 {
        // The kernel never overtakes a reader. Where `data_head` jumps, no record can be found any more.
        ring.set_tail(head);
        into.drained = DrainStats { bad_bytes: fill, fill, ..DrainStats::default() };
        return;
    }
    let start = into.bytes.len();
    let mut unread = Unread { ring, tail, length: fill as usize };
    match stack_copies {
        Some(locator) => unread.append_shrunk(locator, shrink, into),
        None => unread.append(0, unread.length, &mut into.bytes),
    }
    ring.set_tail(head);
    into.drained = DrainStats { fill, ..count_records(into.bytes.get(start..).unwrap_or(&[])) };
    into.bytes.truncate(into.bytes.len() - into.drained.bad_bytes as usize);
}

/// The unread bytes of a ring. Offsets are from `tail`.
struct Unread<'a, R> {
    ring: &'a mut R,
    tail: u64,
    length: usize,
}

impl<R: RingMemory> Unread<'_, R> {
    /// Returns at most `length` bytes from `at` on: fewer where the memory of the ring ends before.
    fn bytes(&self, at: usize, length: usize) -> &[u8] {
        self.ring.bytes(self.tail.wrapping_add(at as u64), length)
    }

    /// Returns the 8 bytes at `at`. Records lie at multiples of 8, so that none of their words is cut by the ring's end.
    fn word(&self, at: usize) -> [u8; 8] {
        self.bytes(at, 8).first_chunk().copied().unwrap_or_default()
    }

    /// Appends the bytes from `from` to `to`.
    fn append(&self, from: usize, to: usize, into: &mut Vec<u8>) {
        let first = self.bytes(from, to - from);
        into.extend_from_slice(first);
        into.extend_from_slice(self.bytes(from + first.len(), to - from - first.len()));
    }

    /// Appends all records: samples as `shrink` replaces them, or else without the unfilled bytes of their stack copies. Moves the
    /// tail after each sample, since walking its stack takes time, and the kernel may need the room.
    fn append_shrunk(&mut self, locator: &StackCopyLocator, shrink: Shrink<'_>, into: &mut Chunk) {
        let (mut at, mut copied) = (0, 0);
        while at < self.length {
            let RecordHeader { kind, size, .. } = RecordHeader::from_bytes(self.word(at), Endian::NATIVE);
            if size < HEADER_SIZE || size % 8 != 0 || size > self.length - at {
                break;
            }
            let next = at + size;
            if kind == kind::SAMPLE {
                self.append(copied, at, &mut into.bytes);
                copied = at;
                let record = self.bytes(at, size);
                let word = |offset| u64::from_ne_bytes(self.word(at + offset));
                // A record across the ring's end is not in one piece, and is not replaced.
                if record.len() == size && shrink(record, into) {
                    copied = next;
                } else if let Some(copy) = locator.locate(size, word)
                    && copy.filled < copy.size
                {
                    self.append_filled(at, size, &copy, &mut into.bytes);
                    copied = next;
                }
                self.ring.set_tail(self.tail.wrapping_add(copied as u64));
            }
            at = next;
        }
        self.append(copied, self.length, &mut into.bytes);
    }

    /// Appends the sample of `size` bytes at `at` without the unfilled bytes of its stack copy.
    fn append_filled(&self, at: usize, size: usize, copy: &StackCopy, into: &mut Vec<u8>) {
        let record = into.len();
        self.append(at, at + copy.start + copy.filled, into);
        let (mut new_size, mut behind) = (size - (copy.size - copy.filled), at + copy.start + copy.size);
        if copy.filled == 0 {
            // Behind a copy of size 0 there is no word with the filled bytes.
            (new_size, behind) = (new_size - 8, behind + 8);
        }
        self.append(behind, at + size, into);
        let mut set = |offset: usize, bytes: &[u8]| {
            if let Some(field) = into.get_mut(record + offset..record + offset + bytes.len()) {
                field.copy_from_slice(bytes);
            }
        };
        set(offsets::SIZE, &(new_size as u16).to_ne_bytes());
        set(copy.size_offset(), &(copy.filled as u64).to_ne_bytes());
    }
}

/// Counts records up to the first that is not whole.
fn count_records(mut bytes: &[u8]) -> DrainStats {
    let mut drained = DrainStats::default();
    while let Some((header, _)) = bytes.split_first_chunk::<HEADER_SIZE>() {
        let RecordHeader { kind, size, .. } = RecordHeader::from_bytes(*header, Endian::NATIVE);
        let Some(rest) = bytes.get(size..).filter(|_| size >= HEADER_SIZE) else { break };
        match kind {
            kind::SAMPLE => drained.samples += 1,
            kind::THROTTLE => drained.throttles += 1,
            kind::LOST => {
                let lost = u64_at(bytes, offsets::LOST_COUNT).unwrap_or(0);
                drained.lost = drained.lost.saturating_add(lost);
            }
            _ => {}
        }
        bytes = rest;
    }
    drained.bad_bytes = bytes.len() as u64;
    drained
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A ring in ordinary memory, with a kernel that writes when told to.
    struct TestRing {
        bytes: Vec<u8>,
        head: u64,
        tail: u64,
        /// The number of times that the tail was moved.
        moves: u32,
    }

    impl TestRing {
        fn new(size: usize, start: u64) -> Self {
            Self { bytes: vec![0xee; size], head: start, tail: start, moves: 0 }
        }

        fn write(&mut self, record: &[u8]) {
            let size = self.bytes.len() as u64;
            for &byte in record {
                self.bytes[(self.head % size) as usize] = byte;
                self.head = self.head.wrapping_add(1);
            }
        }
    }

    impl RingMemory for TestRing {
        fn data_size(&self) -> usize {
            self.bytes.len()
        }
        fn refresh_unread(&mut self) -> Range<u64> {
            self.tail..self.head
        }
        fn bytes(&self, position: u64, length: usize) -> &[u8] {
            let length = length.min(self.head.wrapping_sub(position) as usize);
            let behind = &self.bytes[(position % self.bytes.len() as u64) as usize..];
            &behind[..length.min(behind.len())]
        }
        fn set_tail(&mut self, tail: u64) {
            assert!(tail.wrapping_sub(self.tail) <= self.head.wrapping_sub(self.tail), "it goes forward");
            self.moves += u32::from(tail != self.tail);
            self.tail = tail;
        }
    }

    /// Drains without replacing samples.
    fn drain(ring: &mut TestRing, stack_copies: Option<&StackCopyLocator>, into: &mut Vec<u8>) -> DrainStats {
        let mut chunk = Chunk::new(RingKind::Samples, std::mem::take(into));
        super::drain(ring, stack_copies, &mut keep_sample, &mut chunk);
        *into = chunk.bytes;
        chunk.drained
    }

    fn record(kind: u32, size: u16) -> Vec<u8> {
        let mut bytes = kind.to_ne_bytes().to_vec();
        bytes.extend(0_u16.to_ne_bytes());
        bytes.extend(size.to_ne_bytes());
        bytes.extend((8..size).map(|at| at as u8));
        bytes
    }

    /// Of samples with an IP and a stack copy.
    fn locator() -> Option<StackCopyLocator> {
        let format = decoder::SampleFormat::IP | decoder::SampleFormat::STACK_USER;
        StackCopyLocator::new([&decoder::Attr { sample_format: format, ..decoder::Attr::default() }])
    }

    #[test]
    fn records_that_wrap_come_out_whole() {
        for start in [0, 40, 56, u64::MAX - 23] {
            let mut ring = TestRing::new(64, start);
            ring.write(&record(kind::SAMPLE, 24));
            ring.write(&record(kind::THROTTLE, 32));
            let mut out = vec![1, 2, 3];
            let drained = drain(&mut ring, None, &mut out);
            assert_eq!(
                drained,
                DrainStats { samples: 1, throttles: 1, fill: 56, ..DrainStats::default() },
                "{start}"
            );
            assert_eq!(out[3..], [record(kind::SAMPLE, 24), record(kind::THROTTLE, 32)].concat());
            assert_eq!(ring.tail, ring.head);
            assert_eq!(drain(&mut ring, None, &mut out), DrainStats::default());
        }
    }

    #[test]
    fn records_without_room_in_the_ring_are_counted() {
        let mut ring = TestRing::new(128, 0);
        for lost in [40_u64, 2] {
            let mut record = record(kind::LOST, 24);
            record[16..24].copy_from_slice(&lost.to_ne_bytes());
            ring.write(&record);
        }
        assert_eq!(drain(&mut ring, None, &mut Vec::new()).lost, 42);
    }

    #[test]
    fn a_bad_size_ends_the_good_part() {
        let locator = locator();
        for (bad_size, stack_copies) in
            [0, 7, 33, 65_535].iter().flat_map(|&size| [(size, None), (size, locator.as_ref())])
        {
            let mut ring = TestRing::new(128, 96);
            ring.write(&record(kind::EXIT, 8));
            ring.write(&record(kind::SAMPLE, 16));
            let mut bad = record(kind::SAMPLE, 32);
            bad[6..8].copy_from_slice(&u16::to_ne_bytes(bad_size));
            ring.write(&bad);
            let mut out = Vec::new();
            let drained = drain(&mut ring, stack_copies, &mut out);
            assert_eq!(
                drained,
                DrainStats { samples: 1, bad_bytes: 32, fill: 56, ..DrainStats::default() },
                "{bad_size}"
            );
            assert_eq!(out, [record(kind::EXIT, 8), record(kind::SAMPLE, 16)].concat());
            assert_eq!(ring.tail, ring.head, "the ring goes on");
        }
    }

    #[test]
    fn the_contents_are_dropped_where_the_head_jumps() {
        let mut ring = TestRing::new(64, 0);
        ring.head = 65;
        let mut out = Vec::new();
        assert_eq!(
            drain(&mut ring, None, &mut out),
            DrainStats { bad_bytes: 65, fill: 65, ..DrainStats::default() }
        );
        assert!(out.is_empty());
        assert_eq!(ring.tail, 65);
        // A head that went backwards is a jump, too.
        ring.head = 10;
        assert!(drain(&mut ring, None, &mut out).bad_bytes > 64);
    }

    #[test]
    fn a_full_ring_is_read_whole() {
        let mut ring = TestRing::new(64, 32);
        ring.write(&record(kind::SAMPLE, 64));
        let mut out = Vec::new();
        assert_eq!(drain(&mut ring, None, &mut out).samples, 1);
        assert_eq!(out, record(kind::SAMPLE, 64));
    }

    #[test]
    fn unfilled_bytes_of_stack_copies_are_left_out() {
        let locator = locator();
        let sample = |stack: &[u64], filled: Option<u64>| {
            let mut words = vec![0, 0x1234, 8 * stack.len() as u64];
            words.extend(stack.iter().copied().chain(filled));
            let mut bytes: Vec<u8> = words.iter().flat_map(|word: &u64| word.to_ne_bytes()).collect();
            let size = u16::try_from(bytes.len()).unwrap();
            bytes[..8]
                .copy_from_slice(&record(kind::SAMPLE, size)[..8].try_into().map(|h: [u8; 8]| h).unwrap());
            bytes
        };
        let others = record(kind::THROTTLE, 24);
        for start in [0, 8, 120, 184, 248] {
            let mut ring = TestRing::new(256, start);
            for part in [
                sample(&[1, 2, 3, 4], Some(12)),
                others.clone(),
                sample(&[5, 6], Some(16)),
                sample(&[7, 8], Some(0)),
            ] {
                ring.write(&part);
            }
            let mut out = vec![9];
            let drained = drain(&mut ring, locator.as_ref(), &mut out);
            let wanted = [
                vec![9],
                sample(&[1, 2], Some(12)),
                others.clone(),
                sample(&[5, 6], Some(16)),
                sample(&[], None),
            ];
            assert_eq!(out, wanted.concat(), "{start}");
            assert!(ring.moves > 2, "there is room before all are out");
            assert_eq!((drained.samples, drained.throttles, drained.bad_bytes), (3, 1, 0));
        }
    }
}
