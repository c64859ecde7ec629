//! Reads the mappings of a live process again where a stack leads to an address without a known mapping: `mremap(2)` writes no
//! record, and records get lost.

use std::collections::HashMap;
use std::time::Duration;

use decoder::RecordLayout;
use model::{Avma, Pid, Timestamp};
use rustc_hash::FxBuildHasher;
use tracker::Tracker;

use stacks::MAX_PROCESSES;

use crate::mapped_files::MappedFiles;
use crate::processes::{Synthesis, mappings};

/// Minimum time between two readings of the mappings of any processes, on the clock of the recording.
const MIN_INTERVAL: Duration = Duration::from_millis(50);

/// Minimum time between two readings of the mappings of one process; doubled, up to the maximum, each time that the reading does
/// not explain the address.
const INITIAL_BACKOFF: Duration = Duration::from_secs(1);
const MAX_BACKOFF: Duration = Duration::from_secs(64);

/// Decides when to read the mappings of processes again. Times are nanoseconds on the clock of the recording.
#[derive(Default, Debug)]
pub(super) struct FreshMaps {
    /// No mappings are read before this time.
    not_before: u64,
    processes: HashMap<Pid, NextReading, FxBuildHasher>,
}

/// The earliest time at which a process's mappings are read next.
#[derive(Clone, Copy, Debug)]
struct NextReading {
    not_before: u64,
    backoff: Duration,
}

impl FreshMaps {
    /// Reads the mappings of a process, in which code ran at `missing` without a known mapping, if it is time to. Returns MMAP2
    /// records, with the time `now`, for all its mappings that `tracker` does not know; `None` where no mapping was read that
    /// contains `missing`.
    pub(super) fn reread(
        &mut self,
        (pid, missing): (Pid, Avma),
        now: Timestamp,
        layout: &RecordLayout,
        tracker: &Tracker,
        files: &MappedFiles,
    ) -> Option<Vec<u8>> {
        if !self.is_due(pid, now.0) {
            return None;
        }
        let (maps, _) = mappings(pid, false);
        // The process may run another program by now, and `missing` may be a word that is no address at all.
        let found = maps.iter().any(|map| (map.start..map.end).contains(&missing.0));
        self.record_reading(pid, now.0, found);
        if !found {
            return None;
        }
        let mut synthesis = Synthesis::at(layout, now, files);
        for map in &maps {
            let known = tracker.recorded_mapping(pid, Avma(map.start)).is_some_and(|known| {
                let whole = known.start.0 == map.start && known.last.0 == map.end.wrapping_sub(1);
                whole && (map.inode == 0 || known.offset == map.page_offset)
            });
            if !known {
                synthesis.mapping(pid, map, false);
            }
        }
        Some(synthesis.finish())
    }

    fn is_due(&self, pid: Pid, now: u64) -> bool {
        let next = self.processes.get(&pid).map_or(0, |next| next.not_before);
        now >= self.not_before.max(next)
    }

    fn record_reading(&mut self, pid: Pid, now: u64, found: bool) {
        if self.processes.len() >= MAX_PROCESSES && !self.processes.contains_key(&pid) {
            self.processes.clear();
        }
        let next =
            self.processes.entry(pid).or_insert(NextReading { not_before: 0, backoff: INITIAL_BACKOFF });
        next.not_before = now.saturating_add(nanoseconds(next.backoff));
        next.backoff = if found { INITIAL_BACKOFF } else { (next.backoff * 2).min(MAX_BACKOFF) };
        self.not_before = now.saturating_add(nanoseconds(MIN_INTERVAL));
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: u64 = 50_000_000;
    const BACKOFF: u64 = 1_000_000_000;

    #[test]
    fn mappings_are_read_now_and_then() {
        let mut maps = FreshMaps::default();
        let (one, other) = (Pid(1), Pid(2));
        assert!(maps.is_due(one, 7));
        maps.record_reading(one, 7, false);
        assert!(!maps.is_due(other, INTERVAL) && maps.is_due(other, 7 + INTERVAL));
        assert!(!maps.is_due(one, BACKOFF) && maps.is_due(one, 7 + BACKOFF));
        let mut now = 7 + BACKOFF;
        for times in [2, 4, 8, 16, 32, 64, 64] {
            maps.record_reading(one, now, false);
            assert!(!maps.is_due(one, now + times * BACKOFF - 1));
            now += times * BACKOFF;
            assert!(maps.is_due(one, now));
        }
        maps.record_reading(one, now, true);
        maps.record_reading(one, now + 64 * BACKOFF, true);
        assert!(maps.is_due(one, now + 65 * BACKOFF));
    }

    #[test]
    fn a_mapping_without_a_record_is_found_in_the_live_process() {
        use decoder::{Attr, AttrFlags, Endian, RawRecord, SampleFormat};
        let attr = Attr {
            sample_format: SampleFormat::IDENTIFIER | SampleFormat::TID | SampleFormat::TIME,
            flags: AttrFlags::SAMPLE_ID_ALL,
            ..Attr::default()
        };
        let layout = RecordLayout::new(&attr, Endian::NATIVE);
        let files = MappedFiles::default();
        let (mut maps, mut tracker) = (FreshMaps::default(), Tracker::new());
        let here = Pid(std::process::id() as i32);
        let function = Avma(a_mapping_without_a_record_is_found_in_the_live_process as fn() as usize as u64);
        let nowhere = (here, Avma(8));
        assert_eq!(maps.reread(nowhere, Timestamp(1), &layout, &tracker, &files), None);
        let there = (here, function);
        assert_eq!(maps.reread(there, Timestamp(2), &layout, &tracker, &files), None, "too soon");
        let later = Timestamp(1 + BACKOFF);
        let records = maps.reread(there, later, &layout, &tracker, &files).unwrap();
        let mut rest = &records[..];
        while let Ok((raw, size)) = RawRecord::parse(rest, Endian::NATIVE) {
            assert_eq!(layout.time_of(&raw), Some(later));
            tracker.apply(&layout.decode(&raw).unwrap());
            rest = &rest[size..];
        }
        assert!(tracker.mapping(here, function).is_some_and(|mapping| mapping.executable));
        // The tracker knows all mappings now.
        let again = Timestamp(later.0 + 3 * BACKOFF);
        assert_eq!(maps.reread(there, again, &layout, &tracker, &files), Some(Vec::new()));
    }
}
