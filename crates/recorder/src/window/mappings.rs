//! The mappings of an address space, each with the record that made it.

use std::collections::BTreeMap;
use std::sync::Arc;

use decoder::record::Mmap;
use decoder::{Endian, RawRecord, Record, RecordLayout, SampleId};
use model::{Pid, Tid, Timestamp};

/// Maximum number of mappings that are kept: as many as a process can have (`vm.max_map_count`). The kernel does not report unmapping,
/// so without a limit they would grow.
const MAX_MAPPINGS: usize = 65_530;

/// Mappings that do not overlap, by their start address.
#[derive(Clone, Default)]
pub(super) struct Mappings {
    by_start: BTreeMap<u64, Mapping>,
}

#[derive(Clone)]
struct Mapping {
    /// The first address after the mapping.
    end: u64,
    /// Offset of this part from the start of the record's mapping, in bytes.
    offset: u64,
    /// Grows with each inserted mapping.
    order: u64,
    record: Arc<[u8]>,
}

impl Mappings {
    /// Returns true if nothing is mapped.
    pub(super) fn is_empty(&self) -> bool {
        self.by_start.is_empty()
    }

    /// Inserts a mapping, cutting away what it overlaps. `order` must grow from call to call.
    pub(super) fn insert(&mut self, start: u64, len: u64, order: u64, record: &Arc<[u8]>) {
        let Some(end) = start.checked_add(len).filter(|_| len > 0) else { return };
        while let Some((&other, mapping)) = self.by_start.range(..end).next_back() {
            if mapping.end <= start {
                break;
            }
            let Some(mapping) = self.by_start.remove(&other) else { break };
            if mapping.end > end {
                let offset = mapping.offset.wrapping_add(end - other);
                self.by_start.insert(end, Mapping { offset, ..mapping.clone() });
            }
            if other < start {
                self.by_start.insert(other, Mapping { end: start, ..mapping });
            }
        }
        self.by_start.insert(start, Mapping { end, offset: 0, order, record: Arc::clone(record) });
        if self.by_start.len() > MAX_MAPPINGS {
            self.forget_oldest_half();
        }
    }

    fn forget_oldest_half(&mut self) {
        let mut orders: Vec<u64> = self.by_start.values().map(|mapping| mapping.order).collect();
        let middle = orders.len() / 2;
        let (_, &mut middle, _) = orders.select_nth_unstable(middle);
        self.by_start.retain(|_, mapping| mapping.order >= middle);
    }

    /// Appends a record for each mapping, as one of the process `pid`.
    pub(super) fn append(&self, pid: Pid, layout: &RecordLayout, out: &mut Vec<u8>) {
        for (&start, mapping) in &self.by_start {
            let bounds = (start, mapping.end - start, mapping.offset);
            append_mapping(pid, bounds, &mapping.record, layout, out);
        }
    }
}

/// Appends the mapping `record` as one of `pid` with other bounds: start, length, and offset from the record's start, in bytes.
fn append_mapping(
    pid: Pid,
    (start, len, offset): (u64, u64, u64),
    record: &[u8],
    layout: &RecordLayout,
    out: &mut Vec<u8>,
) {
    let Ok((raw, _)) = RawRecord::parse(record, Endian::NATIVE) else { return };
    let Ok(Record::Mmap(map)) = layout.decode(&raw) else { return };
    let tid = if pid.0 < 0 { map.tid } else { Tid(pid.0) };
    let page_offset = map.page_offset.wrapping_add(offset);
    let map = Mmap { pid, tid, start, len, page_offset, sample_id: trailer(pid, tid), ..map };
    // It is no longer than the original record, so it fits.
    let _ = layout.encode(&Record::Mmap(map), out);
}

/// Returns the trailer of a record of what existed before a file: with time 0.
pub(super) fn trailer(pid: Pid, tid: Tid) -> SampleId {
    SampleId { thread: Some((pid, tid)), time: Some(Timestamp(0)), ..SampleId::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(mappings: &Mappings) -> Vec<(u64, u64, u64, u64)> {
        mappings.by_start.iter().map(|(&start, map)| (start, map.end, map.offset, map.order)).collect()
    }

    #[test]
    fn newer_mappings_cut_older_ones() {
        let record: Arc<[u8]> = Arc::default();
        let mut mappings = Mappings::default();
        mappings.insert(100, 100, 1, &record);
        mappings.insert(140, 20, 2, &record);
        assert_eq!(all(&mappings), [(100, 140, 0, 1), (140, 160, 0, 2), (160, 200, 60, 1)]);
        mappings.insert(150, 20, 3, &record);
        assert_eq!(all(&mappings), [(100, 140, 0, 1), (140, 150, 0, 2), (150, 170, 0, 3), (170, 200, 70, 1)]);
        mappings.insert(90, 200, 4, &record);
        assert_eq!(all(&mappings), [(90, 290, 0, 4)]);
        mappings.insert(u64::MAX - 1, 5, 5, &record);
        mappings.insert(90, 0, 6, &record);
        assert_eq!(all(&mappings).len(), 1, "no mapping has these bounds");
    }

    #[test]
    fn mappings_that_are_never_told_to_be_gone_do_not_pile_up() {
        let record: Arc<[u8]> = Arc::default();
        let mut mappings = Mappings::default();
        for order in 0..(3 * MAX_MAPPINGS as u64) {
            mappings.insert(order * 4096, 4096, order, &record);
        }
        assert!(mappings.by_start.len() <= MAX_MAPPINGS);
        let newest = 3 * MAX_MAPPINGS as u64 - 1;
        assert!(mappings.by_start.contains_key(&(newest * 4096)));
    }
}
