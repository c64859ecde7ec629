//! The ring protocol (`perf_event_open(2)`, "MMAP layout"), over any memory.
//!
//! The kernel writes records at `data_head` and moves it forward; we read from `data_tail` and move that forward as soon as
//! a record is out, so that the kernel has room again.

use std::ops::Range;

use decoder::kind;
use host::sys::ring::RingMapping;

use super::stack_place::{FoundCopy, StackPlace};
use crate::consumer::Drained;
use crate::records::{UNWOUND_SAMPLE, u64_at};

/// The memory of a ring.
pub trait RingMemory {
    /// The number of bytes of records that it holds: a power of two.
    fn data_size(&self) -> usize;
    /// The positions of what waits to be read now; they only grow.
    fn look(&mut self) -> Range<u64>;
    /// The bytes from `position` on, `length` of them at most: as many as were waiting at the last look and lie before the
    /// ring's end.
    fn bytes(&self, position: u64, length: usize) -> &[u8];
    /// Moves our position.
    fn set_tail(&mut self, tail: u64);
}

impl RingMemory for RingMapping {
    fn data_size(&self) -> usize {
        self.data_size()
    }

    fn look(&mut self) -> Range<u64> {
        self.refresh_unread()
    }

    fn bytes(&self, position: u64, length: usize) -> &[u8] {
        self.bytes(position, length)
    }

    fn set_tail(&mut self, tail: u64) {
        self.set_tail(tail);
    }
}

/// Says a sample that is still in its ring in fewer bytes, which it appends, if it can.
pub(crate) type Shrink<'a> = &'a mut dyn FnMut(&[u8], &mut Vec<u8>) -> bool;

/// A [`Shrink`] that never can.
pub(crate) fn as_it_is(_sample: &[u8], _into: &mut Vec<u8>) -> bool {
    false
}

/// Moves everything that the ring holds to the end of `into`: whole records only.
pub fn drain_whole(ring: &mut impl RingMemory, into: &mut Vec<u8>) -> Drained {
    drain(ring, None, &mut as_it_is, into)
}

/// Moves everything that the ring holds to the end of `into`: whole records only. Where `stacks` says where samples have
/// their stack copies, what these have not filled is left out, and samples that `shrink` can say shorter are not copied.
pub(crate) fn drain(
    ring: &mut impl RingMemory,
    stacks: Option<&StackPlace>,
    shrink: Shrink<'_>,
    into: &mut Vec<u8>,
) -> Drained {
    let Range { start: tail, end: head } = ring.look();
    let fill = head.wrapping_sub(tail);
    if fill == 0 {
        return Drained::default();
    }
    if fill > ring.data_size() as u64 {
        // The kernel never overtakes a reader; a jump means that nothing behind our position is whole.
        ring.set_tail(head);
        return Drained { bad_bytes: fill, fill, ..Drained::default() };
    }
    let start = into.len();
    let mut unread = Unread { ring, tail, length: fill as usize };
    match stacks {
        Some(place) => unread.append_shorter(place, shrink, into),
        None => unread.append(0, unread.length, into),
    }
    ring.set_tail(head);
    let drained = Drained { fill, ..count(into.get(start..).unwrap_or(&[])) };
    into.truncate(into.len() - drained.bad_bytes as usize);
    drained
}

/// The records that the kernel has written and we have not read.
struct Unread<'a, R> {
    ring: &'a mut R,
    tail: u64,
    length: usize,
}

impl<R: RingMemory> Unread<'_, R> {
    /// The bytes from `at` on, as far as they lie before the ring's end.
    fn bytes(&self, at: usize, length: usize) -> &[u8] {
        self.ring.bytes(self.tail.wrapping_add(at as u64), length)
    }

    /// The word at `at`. Records lie at multiples of 8, so that no word of theirs lies across the ring's end.
    fn word(&self, at: usize) -> u64 {
        self.bytes(at, 8).first_chunk().map_or(0, |bytes| u64::from_ne_bytes(*bytes))
    }

    fn append(&self, from: usize, to: usize, into: &mut Vec<u8>) {
        let first = self.bytes(from, to - from);
        into.extend_from_slice(first);
        into.extend_from_slice(self.bytes(from + first.len(), to - from - first.len()));
    }

    /// Appends all, but samples as `shrink` says them, and the others without the bytes of stack copies that were not filled;
    /// the records say their new sizes. To look at samples takes its time: the kernel has the room of each again at once.
    fn append_shorter(&mut self, place: &StackPlace, shrink: Shrink<'_>, into: &mut Vec<u8>) {
        let (mut at, mut copied) = (0, 0);
        while at < self.length {
            let [k0, k1, k2, k3, _, _, s0, s1] = self.word(at).to_ne_bytes();
            let size = usize::from(u16::from_ne_bytes([s0, s1]));
            if size < 8 || size % 8 != 0 || size > self.length - at {
                break;
            }
            let next = at + size;
            if u32::from_ne_bytes([k0, k1, k2, k3]) == kind::SAMPLE {
                self.append(copied, at, into);
                copied = at;
                let record = self.bytes(at, size);
                if record.len() == size && shrink(record, into) {
                    copied = next;
                } else if let Some(found) = place.find(size, |offset| self.word(at + offset))
                    && found.filled < found.size
                {
                    self.append_filled(at, size, &found, into);
                    copied = next;
                }
                self.ring.set_tail(self.tail.wrapping_add(copied as u64));
            }
            at = next;
        }
        self.append(copied, self.length, into);
    }

    /// Appends the sample of `size` bytes at `at` without what its stack copy has not filled.
    fn append_filled(&self, at: usize, size: usize, found: &FoundCopy, into: &mut Vec<u8>) {
        let record = into.len();
        self.append(at, at + found.start + found.filled, into);
        let (mut new_size, mut behind) = (size - (found.size - found.filled), at + found.start + found.size);
        if found.filled == 0 {
            // Nothing follows the size of an empty copy.
            (new_size, behind) = (new_size - 8, behind + 8);
        }
        self.append(behind, at + size, into);
        let mut set = |offset: usize, bytes: &[u8]| {
            if let Some(place) = into.get_mut(record + offset..record + offset + bytes.len()) {
                place.copy_from_slice(bytes);
            }
        };
        set(6, &(new_size as u16).to_ne_bytes());
        set(found.start - 8, &(found.filled as u64).to_ne_bytes());
    }
}

/// Offset of the count in LOST: behind the header and an id.
const LOST_COUNT: usize = 16;

/// Walks over records; [`Drained::bad_bytes`] is what follows the last whole one.
fn count(mut bytes: &[u8]) -> Drained {
    let mut drained = Drained::default();
    while let Some((header, _)) = bytes.split_first_chunk::<8>() {
        let [k0, k1, k2, k3, _, _, s0, s1] = *header;
        let size = usize::from(u16::from_ne_bytes([s0, s1]));
        let Some(rest) = bytes.get(size..).filter(|_| size >= 8) else { break };
        match u32::from_ne_bytes([k0, k1, k2, k3]) {
            kind::SAMPLE | UNWOUND_SAMPLE => drained.samples += 1,
            kind::THROTTLE => drained.throttles += 1,
            kind::LOST => drained.lost = drained.lost.saturating_add(u64_at(bytes, LOST_COUNT).unwrap_or(0)),
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
        fn look(&mut self) -> Range<u64> {
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

    /// Drains with samples as they are.
    fn drain(ring: &mut TestRing, stacks: Option<&StackPlace>, into: &mut Vec<u8>) -> Drained {
        super::drain(ring, stacks, &mut as_it_is, into)
    }

    fn record(kind: u32, size: u16) -> Vec<u8> {
        let mut bytes = kind.to_ne_bytes().to_vec();
        bytes.extend(0_u16.to_ne_bytes());
        bytes.extend(size.to_ne_bytes());
        bytes.extend((8..size).map(|at| at as u8));
        bytes
    }

    /// Samples with copies of stacks.
    fn place() -> Option<StackPlace> {
        let format = decoder::SampleFormat::IP | decoder::SampleFormat::STACK_USER;
        StackPlace::of([&decoder::Attr { sample_format: format, ..decoder::Attr::default() }])
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
                Drained { samples: 1, throttles: 1, fill: 56, ..Drained::default() },
                "{start}"
            );
            assert_eq!(out[3..], [record(kind::SAMPLE, 24), record(kind::THROTTLE, 32)].concat());
            assert_eq!(ring.tail, ring.head);
            assert_eq!(drain(&mut ring, None, &mut out), Drained::default());
        }
    }

    #[test]
    fn what_the_ring_had_no_room_for_is_counted() {
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
        let place = place();
        for (bad_size, place) in
            [0, 7, 33, 65_535].iter().flat_map(|&size| [(size, None), (size, place.as_ref())])
        {
            let mut ring = TestRing::new(128, 96);
            ring.write(&record(kind::EXIT, 8));
            ring.write(&record(kind::SAMPLE, 16));
            let mut bad = record(kind::SAMPLE, 32);
            bad[6..8].copy_from_slice(&u16::to_ne_bytes(bad_size));
            ring.write(&bad);
            let mut out = Vec::new();
            let drained = drain(&mut ring, place, &mut out);
            assert_eq!(
                drained,
                Drained { samples: 1, bad_bytes: 32, fill: 56, ..Drained::default() },
                "{bad_size}"
            );
            assert_eq!(out, [record(kind::EXIT, 8), record(kind::SAMPLE, 16)].concat());
            assert_eq!(ring.tail, ring.head, "the ring goes on");
        }
    }

    #[test]
    fn a_head_that_jumps_gives_the_contents_up() {
        let mut ring = TestRing::new(64, 0);
        ring.head = 65;
        let mut out = Vec::new();
        assert_eq!(
            drain(&mut ring, None, &mut out),
            Drained { bad_bytes: 65, fill: 65, ..Drained::default() }
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
    fn what_a_stack_copy_has_not_filled_stays_behind() {
        let place = place();
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
            let drained = drain(&mut ring, place.as_ref(), &mut out);
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
