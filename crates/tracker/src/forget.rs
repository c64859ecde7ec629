//! Bounds a tracker's memory over days: forgets processes whose EXIT records were lost, and spaces that nobody uses.
//!
//! Threads and processes go by themselves, some time after their ends ([`crate::thread`], [`crate::process`]). What
//! remains needs the caller: whether a process lives whose end was lost, and which spaces are still spoken of.

use hashbrown::HashSet;
use model::{Pid, SpaceId};
use rustc_hash::FxBuildHasher;

use crate::mapping_tree::TreeId;
use crate::tracker::Tracker;

impl Tracker {
    /// Returns the number of known processes, alive or ended lately.
    pub fn processes(&self) -> usize {
        self.processes.len()
    }

    /// Returns true if a process is known, alive or ended lately.
    pub fn knows(&self, pid: Pid) -> bool {
        self.processes.get(pid).is_some()
    }

    /// Forgets processes whose ends were lost: those that do not live at this call, and did not at the one before. Between
    /// the two lies as long a time as records may be under way. What is not a process (a negative number, the idle
    /// task's 0) is not asked for.
    pub fn forget_dead(&mut self, lives: impl Fn(Pid) -> bool) {
        let mut gone: HashSet<Pid, FxBuildHasher> = HashSet::default();
        for (pid, process) in self.processes.iter_mut() {
            let dead = pid.0 > 0 && !lives(pid);
            if dead && process.doubted {
                gone.insert(pid);
            }
            process.doubted = dead;
        }
        self.threads.forget_processes(|pid| gone.contains(&pid));
        for pid in gone {
            self.processes.forget(pid);
        }
    }

    /// Forgets the spaces that lie in no known mapping, but for those that the caller still speaks of. The others' ids
    /// must not be used any more; such a space that is seen again has another one.
    pub fn forget_spaces(&mut self, is_used: impl Fn(SpaceId) -> bool) {
        let mut mapped: HashSet<SpaceId, FxBuildHasher> = self.kernel.spaces().collect();
        // Thousands of children may share the mappings of one parent.
        let mut trees: HashSet<TreeId, FxBuildHasher> = HashSet::default();
        for (_, process) in self.processes.iter_mut() {
            for mappings in [Some(&process.mappings), process.former.as_ref()].into_iter().flatten() {
                let add = &mut |space| {
                    mapped.insert(space);
                };
                mappings.each_space(&mut |tree| trees.insert(tree), add);
            }
            process.unmapped = process.unmapped.filter(|&space| is_used(space));
        }
        self.spaces.retain(|space| mapped.contains(&space) || is_used(space));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RawStack;
    use alloc::vec::Vec;
    use decoder::record::{Comm, Mmap, Record, Task};
    use decoder::{CpuMode, SampleId};
    use model::{Space, StackEntry, Tid, Timestamp};

    fn task(pid: i32) -> Task {
        let (parent_pid, parent_tid) = (Pid(1), Tid(1));
        let sample_id = SampleId::default();
        Task { pid: Pid(pid), tid: Tid(pid), parent_pid, parent_tid, time: Timestamp(1), sample_id }
    }

    fn comm(pid: i32) -> Record<'static> {
        let sample_id = SampleId::default();
        Record::Comm(Comm { pid: Pid(pid), tid: Tid(pid), comm: b"name", exec: true, sample_id })
    }

    fn map(pid: i32, start: u64, path: &[u8]) -> Record<'_> {
        Record::Mmap(Mmap {
            pid: Pid(pid),
            tid: Tid(pid),
            start,
            len: 0x1000,
            page_offset: 0,
            path,
            extended: None,
            data: false,
            mode: CpuMode::User,
            scan_cut_short: false,
            sample_id: SampleId::default(),
        })
    }

    fn stack(tracker: &mut Tracker, pid: i32, ip: u64) -> StackEntry {
        let mut entries = Vec::new();
        let raw = RawStack {
            pid: Pid(pid),
            mode: CpuMode::User,
            ip: Some(ip),
            chain: None::<core::iter::Empty<u64>>,
        };
        tracker.map_callchain(raw, &mut entries);
        entries[0]
    }

    /// A process begins, runs a program and generated code, is seen outside of both, and ends.
    fn live(tracker: &mut Tracker, pid: i32) -> [StackEntry; 2] {
        tracker.apply(&Record::Fork(task(pid)));
        tracker.apply(&comm(pid));
        tracker.apply(&map(pid, 0x40_0000, b"/bin/true"));
        tracker.apply(&map(pid, 0x1000, b"//anon"));
        tracker.generation(Pid(pid));
        let seen = [0x1010, 0x9000].map(|ip| stack(tracker, pid, ip));
        tracker.comm(Pid(pid), Tid(pid));
        seen
    }

    #[test]
    fn lives_by_the_thousand_leave_little() {
        let mut tracker = Tracker::new();
        tracker.apply(&map(1, 0x40_0000, b"/sbin/init"));
        let kept = stack(&mut tracker, 1, 0x40_0010);
        let mut seen = HashSet::new();
        for pid in 2..50_000 {
            // Few numbers, so that all of them are used again.
            let pid = 2 + pid % 9_000;
            for place in live(&mut tracker, pid) {
                assert!(seen.insert(place), "{place:?} was another process's");
            }
            tracker.apply(&Record::Exit(task(pid)));
            assert!(tracker.processes() <= 1026, "{} processes", tracker.processes());
            assert!(tracker.threads.len() <= 4_100, "{} threads", tracker.threads.len());
            if tracker.spaces().len() > 5000 {
                tracker.forget_spaces(|space| space == kept.space);
                assert!(tracker.spaces().len() <= 3 + 2 * 1025, "{} spaces", tracker.spaces().len());
            }
        }
        assert_eq!(stack(&mut tracker, 1, 0x40_0010), kept);
        assert!(matches!(tracker.spaces().get(kept.space), Space::Object(_)));
    }

    #[test]
    fn a_late_record_still_has_its_name_and_its_mappings() {
        let mut tracker = Tracker::new();
        let before = live(&mut tracker, 7);
        tracker.apply(&Record::Exit(task(7)));
        for pid in 100..600 {
            live(&mut tracker, pid);
            tracker.apply(&Record::Exit(task(pid)));
        }
        assert_eq!(tracker.comm(Pid(7), Tid(7)).as_bytes(), b"name");
        assert_eq!([0x1010, 0x9000].map(|ip| stack(&mut tracker, 7, ip)), before);
    }

    #[test]
    fn records_that_come_too_late_leave_little() {
        let mut tracker = Tracker::new();
        live(&mut tracker, 1);
        for pid in 2..30_000 {
            tracker.generation(Pid(pid));
            stack(&mut tracker, pid, 0x1010);
        }
        assert!(tracker.processes() <= 1026, "{} processes", tracker.processes());
        assert!(tracker.knows(Pid(1)), "it lives");
    }

    #[test]
    fn what_is_spoken_of_keeps_its_number_and_the_rest_is_found_anew() {
        let mut tracker = Tracker::new();
        let [code, nothing] = live(&mut tracker, 7);
        tracker.forget_spaces(|_| false);
        assert_eq!(stack(&mut tracker, 7, 0x1010), code, "it is still mapped");
        assert_eq!(tracker.spaces().find(nothing.space), None);
        let again = stack(&mut tracker, 7, 0x9000);
        assert!(again.space != nothing.space, "the number is not given again");
        tracker.forget_spaces(|space| space == again.space);
        assert_eq!(stack(&mut tracker, 7, 0x9000), again);
    }

    #[test]
    fn processes_whose_end_was_lost_go_when_they_are_found_dead_twice() {
        let mut tracker = Tracker::new();
        for pid in 1..20_000 {
            live(&mut tracker, pid);
        }
        let lives = |pid: Pid| pid.0 <= 10;
        tracker.forget_dead(lives);
        assert_eq!(tracker.processes(), 19_999, "their ends may be under way");
        // The number is used again.
        live(&mut tracker, 500);
        tracker.forget_dead(lives);
        assert_eq!((tracker.processes(), tracker.threads.len()), (11, 11));
        assert_eq!(tracker.comm(Pid(500), Tid(500)).as_bytes(), b"name");
        tracker.forget_dead(lives);
        assert_eq!((tracker.processes(), tracker.threads.len()), (10, 10));
    }
}
