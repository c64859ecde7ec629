//! Mappings that no record told of: of code that `mremap(2)` has moved, or whose record was lost. Where the frames of a live
//! process stop resolving, its mappings are read again, now and then.

use std::collections::HashMap;

use decoder::RecordLayout;
use model::{Avma, Pid, Timestamp};
use rustc_hash::FxBuildHasher;
use tracker::Tracker;

use crate::synthesis::{Synthesis, mappings};

/// Between two readings of the mappings of any processes, ns of the recording's time.
const PAUSE: u64 = 50_000_000;

/// Before those of one process are read a second time, ns; each time that brings nothing doubles it.
const PATIENCE: u64 = 1_000_000_000;
const MOST_PATIENCE: u64 = 64 * PATIENCE;

/// Beyond this many processes all are forgotten: most have ended.
const MOST_PROCESSES: usize = 1024;

/// The times at which the mappings of processes were read again.
#[derive(Default, Debug)]
pub(super) struct FreshMaps {
    /// Nothing is read before.
    not_before: u64,
    processes: HashMap<Pid, Turn, FxBuildHasher>,
}

/// The time of a process's next turn.
#[derive(Clone, Copy, Debug)]
struct Turn {
    not_before: u64,
    patience: u64,
}

impl FreshMaps {
    /// At `now`, code ran at `missing` of a process, where no mapping is known: returns the records of what the process has there,
    /// and elsewhere beyond what the tracker knows, if it lives. `None` where nothing came of it.
    pub(super) fn look(
        &mut self,
        (pid, missing): (Pid, Avma),
        now: Timestamp,
        layout: &RecordLayout,
        tracker: &Tracker,
    ) -> Option<Vec<u8>> {
        if !self.is_due(pid, now.0) {
            return None;
        }
        let (maps, _) = mappings(pid, false);
        // The process may be another program by now; and a word that is no address is in no mapping of any.
        let found = maps.iter().any(|map| (map.start..map.end).contains(&missing.0));
        self.note(pid, now.0, found);
        if !found {
            return None;
        }
        let mut synthesis = Synthesis::at(layout, now);
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
        let turn = self.processes.get(&pid).map_or(0, |turn| turn.not_before);
        now >= self.not_before.max(turn)
    }

    fn note(&mut self, pid: Pid, now: u64, found: bool) {
        if self.processes.len() >= MOST_PROCESSES && !self.processes.contains_key(&pid) {
            self.processes.clear();
        }
        let turn = self.processes.entry(pid).or_insert(Turn { not_before: 0, patience: PATIENCE });
        turn.not_before = now.saturating_add(turn.patience);
        turn.patience = if found { PATIENCE } else { (turn.patience * 2).min(MOST_PATIENCE) };
        self.not_before = now.saturating_add(PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mappings_are_read_now_and_then() {
        let mut maps = FreshMaps::default();
        let (one, other) = (Pid(1), Pid(2));
        assert!(maps.is_due(one, 7));
        maps.note(one, 7, false);
        assert!(!maps.is_due(other, PAUSE) && maps.is_due(other, 7 + PAUSE));
        assert!(!maps.is_due(one, PATIENCE) && maps.is_due(one, 7 + PATIENCE));
        let mut now = 7 + PATIENCE;
        for times in [2, 4, 8, 16, 32, 64, 64] {
            maps.note(one, now, false);
            assert!(!maps.is_due(one, now + times * PATIENCE - 1));
            now += times * PATIENCE;
            assert!(maps.is_due(one, now));
        }
        maps.note(one, now, true);
        maps.note(one, now + 64 * PATIENCE, true);
        assert!(maps.is_due(one, now + 65 * PATIENCE));
    }

    #[test]
    fn a_mapping_that_nobody_told_of_is_found_in_the_live_process() {
        use decoder::{Attr, AttrFlags, Endian, RawRecord, SampleFormat};
        let attr = Attr {
            sample_format: SampleFormat::IDENTIFIER | SampleFormat::TID | SampleFormat::TIME,
            flags: AttrFlags::SAMPLE_ID_ALL,
            ..Attr::default()
        };
        let layout = RecordLayout::new(&attr, Endian::NATIVE);
        let (mut maps, mut tracker) = (FreshMaps::default(), Tracker::new());
        let here = Pid(std::process::id() as i32);
        let function =
            Avma(a_mapping_that_nobody_told_of_is_found_in_the_live_process as fn() as usize as u64);
        let nowhere = (here, Avma(8));
        assert_eq!(maps.look(nowhere, Timestamp(1), &layout, &tracker), None);
        let there = (here, function);
        assert_eq!(maps.look(there, Timestamp(2), &layout, &tracker), None, "too soon");
        let later = Timestamp(1 + PATIENCE);
        let records = maps.look(there, later, &layout, &tracker).unwrap();
        let mut rest = &records[..];
        while let Ok((raw, size)) = RawRecord::parse(rest, Endian::NATIVE) {
            assert_eq!(layout.time_of(&raw), Some(later));
            tracker.apply(&layout.decode(&raw).unwrap());
            rest = &rest[size..];
        }
        assert!(tracker.mapping(here, function).is_some_and(|mapping| mapping.executable));
        // What is known is not told again.
        let again = Timestamp(later.0 + 3 * PATIENCE);
        assert_eq!(maps.look(there, again, &layout, &tracker), Some(Vec::new()));
    }
}
