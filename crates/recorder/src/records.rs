//! Records as they lie one behind the other in the machine's byte order, with a `perf_event_header` each.

use decoder::kind;

/// The type of a sample whose stack was unwound in its ring: a sample as it is handed on, with a note of the mappings behind it
/// ([`crate::unwind`]). Only the stages of this crate meet it. The kernel's types are below 64, perf's own below 256.
pub(crate) const UNWOUND_SAMPLE: u32 = 1 << 16;

/// Returns true if a record is a sample, unwound or not: both begin alike.
pub(crate) fn is_sample(record: &[u8]) -> bool {
    matches!(u32_at(record, 0), Some(kind::SAMPLE | UNWOUND_SAMPLE))
}

/// Leaves out the records for which `keep` does not hold; returns how many. What is no whole record at the end goes, too.
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

/// The records, one after the other.
pub(crate) fn each(records: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let record = records.get(at..at + size_at(records, at)?)?;
        at += record.len();
        Some(record)
    })
}

/// The records, to be changed.
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

/// The 32 bits at an offset of a record.
pub(crate) fn u32_at(record: &[u8], at: usize) -> Option<u32> {
    record.get(at..)?.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes))
}

/// The 64 bits at an offset of a record.
pub(crate) fn u64_at(record: &[u8], at: usize) -> Option<u64> {
    record.get(at..)?.first_chunk().map(|bytes| u64::from_ne_bytes(*bytes))
}
