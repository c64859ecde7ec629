//! A ring's memory, and what waits in it: a start, a length, then the bytes.

use std::ops::Range;

use decoder::{Endian, RawRecord, SampleFormat};
use recorder::{RingMemory, drain_whole};

use crate::seeds;

/// A power of two, as rings are.
const SIZE: usize = 4096;

struct Ring {
    bytes: Vec<u8>,
    waiting: Range<u64>,
}

impl RingMemory for Ring {
    fn data_size(&self) -> usize {
        self.bytes.len()
    }

    fn refresh_unread(&mut self) -> Range<u64> {
        self.waiting.clone()
    }

    fn bytes(&self, position: u64, length: usize) -> &[u8] {
        let length = length.min(self.waiting.end.wrapping_sub(position) as usize);
        let behind = self.bytes.get((position % SIZE as u64) as usize..).unwrap_or(&[]);
        behind.get(..length).unwrap_or(behind)
    }

    fn set_tail(&mut self, tail: u64) {
        self.waiting.start = tail;
    }
}

pub(super) fn run(bytes: &[u8]) {
    let Some((head, rest)) = bytes.split_first_chunk::<10>() else { return };
    let (start, fill) = head.split_at(8);
    let start = start.iter().fold(0_u64, |sum, &byte| sum << 8 | u64::from(byte)) & !7;
    let fill = fill.iter().fold(0_u64, |sum, &byte| sum << 8 | u64::from(byte)) % (SIZE as u64 + 64);
    let mut ring = Ring { bytes: vec![0; SIZE], waiting: start..start.wrapping_add(fill) };
    for (at, &byte) in rest.iter().take(SIZE).enumerate() {
        let place = (start.wrapping_add(at as u64) % SIZE as u64) as usize;
        if let Some(slot) = ring.bytes.get_mut(place) {
            *slot = byte;
        }
    }
    let mut into = b"before".to_vec();
    let drained = drain_whole(&mut ring, &mut into);
    let out = into.strip_prefix(b"before").unwrap_or(&[]);
    assert_eq!(out.len() as u64 + drained.bad_bytes, fill, "each byte is a record's or is counted");
    assert!(ring.waiting.is_empty(), "the kernel has its room again");
    let (mut rest, mut records) = (out, 0);
    while let Ok((_, size)) = RawRecord::parse(rest, Endian::NATIVE) {
        rest = rest.get(size..).unwrap_or(&[]);
        records += 1;
    }
    assert!(rest.is_empty() && drained.samples + drained.throttles <= records, "whole records only");
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let attr =
        seeds::attr(SampleFormat::IP | SampleFormat::TID | SampleFormat::TIME | SampleFormat::CALLCHAIN);
    let records = seeds::records(&attr, Endian::NATIVE, 12);
    let seed = |start: u64| {
        let fill = records.len().min(SIZE) as u16;
        [start.to_be_bytes().as_slice(), &fill.to_be_bytes(), &records].concat()
    };
    // From the beginning, across the end, and where positions start anew.
    vec![seed(0), seed(SIZE as u64 - 64), seed(u64::MAX - 63)]
}
