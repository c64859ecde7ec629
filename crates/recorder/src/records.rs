//! Walking over raw records: bytes in the machine's byte order, each record with its `perf_event_header`.

use decoder::{Endian, RawRecord, kind, offsets};

/// Returns true if a record is a sample.
pub(crate) fn is_sample(record: &[u8]) -> bool {
    u32_at(record, offsets::KIND) == Some(kind::SAMPLE)
}

/// Removes the records for which `keep` returns false, and an incomplete record at the end; returns how many whole ones it removed.
pub(crate) fn retain(records: &mut Vec<u8>, mut keep: impl FnMut(&[u8]) -> bool) -> u64 {
    let (mut read, mut write, mut removed) = (0, 0, 0);
    while let Some(size) = size_at(records, read) {
        if keep(records.get(read..read + size).unwrap_or(&[])) {
            if read != write {
                records.copy_within(read..read + size, write);
            }
            write += size;
        } else {
            removed += 1;
        }
        read += size;
    }
    records.truncate(write);
    removed
}

/// Iterates over the whole records.
pub(crate) fn each(records: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let record = records.get(at..at + size_at(records, at)?)?;
        at += record.len();
        Some(record)
    })
}

/// Iterates over the whole records, parsed.
pub(crate) fn raw_records(mut records: &[u8]) -> impl Iterator<Item = RawRecord<'_>> {
    std::iter::from_fn(move || {
        let (raw, size) = RawRecord::parse(records, Endian::NATIVE).ok()?;
        records = records.get(size..).unwrap_or(&[]);
        Some(raw)
    })
}

/// Iterates over the whole records, to change them.
pub(crate) fn each_mut(records: &mut [u8]) -> impl Iterator<Item = &mut [u8]> {
    let mut rest = records;
    std::iter::from_fn(move || {
        let size = size_at(rest, 0)?;
        let (record, behind) = std::mem::take(&mut rest).split_at_mut(size);
        rest = behind;
        Some(record)
    })
}

fn size_at(records: &[u8], at: usize) -> Option<usize> {
    let bytes = records.get(at.checked_add(6)?..)?.first_chunk()?;
    let size = usize::from(u16::from_ne_bytes(*bytes));
    (size >= 8 && at + size <= records.len()).then_some(size)
}

/// Reads 32 bits at an offset of a record; `None` beyond its end.
pub(crate) fn u32_at(record: &[u8], at: usize) -> Option<u32> {
    record.get(at..)?.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes))
}

/// Reads 64 bits at an offset of a record; `None` beyond its end.
pub(crate) fn u64_at(record: &[u8], at: usize) -> Option<u64> {
    record.get(at..)?.first_chunk().map(|bytes| u64::from_ne_bytes(*bytes))
}
