//! Which processes are members, by number and time: the kernel gives the number of an ended process to another one.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use decoder::{kind, misc, offsets};
use model::Pid;
use rustc_hash::FxBuildHasher;

use super::TIME_FROM_END;
use crate::records::{u32_at, u64_at};
use crate::ring::ExcludedProcesses;

/// Number of rounds after that of a process's EXIT in which further records of the process may come.
const GRACE_ROUNDS: u64 = 2;

/// The processes that live, and those that ended within [`GRACE_ROUNDS`].
#[derive(Debug, Default)]
pub(super) struct Memberships {
    /// The processes of each number, oldest first; at most two, since no number is given twice within a round.
    processes: HashMap<u32, Vec<Process>, FxBuildHasher>,
    /// The processes that began in this round, with their times: the FORK records of their parents may not have come yet.
    new_processes: Vec<(u32, u64)>,
    ended: VecDeque<EndedProcess>,
    round: u64,
    /// True if sideband records were lost: the counts of threads are wrong then, and no process is forgotten.
    lost_records: bool,
    /// The processes that certainly are no members now.
    pub(super) excluded: Arc<ExcludedProcesses>,
}

/// A process, from its FORK to its end.
#[derive(Clone, Copy, Debug)]
struct Process {
    /// The time of its FORK; 0 if it lived before the recording.
    since: u64,
    parent: u32,
    /// True if it is a member; `None` until its parents are known, and for the child that waits for its exec.
    member: Option<bool>,
    /// The number of live threads; `None` for a process that lived before the recording.
    threads: Option<u32>,
    /// The time of its newest EXIT record.
    exit: u64,
    /// The time of its newest record of a mapping.
    mapping: u64,
}

impl Process {
    fn new(since: u64, parent: u32, member: Option<bool>, threads: Option<u32>) -> Self {
        Self { since, parent, member, threads, exit: 0, mapping: 0 }
    }

    /// Lets a process live that has mapped memory after its last EXIT: the kernel writes that record, too, when a thread executes a
    /// program with more rights (`begin_new_exec()` in fs/exec.c). A thread that ends has no memory left to map into.
    fn revive(&mut self) {
        if self.threads == Some(0) && self.mapping > self.exit {
            self.threads = Some(1);
        }
    }
}

/// A process whose last thread has ended.
#[derive(Clone, Copy, Debug)]
struct EndedProcess {
    pid: u32,
    /// The time of its FORK.
    since: u64,
    /// The round of its end.
    round: u64,
}

impl Memberships {
    /// Makes the state at the start of the recording: `all` are the live processes, `members` those of them that are members, and
    /// `child` a process that becomes a member with its exec. Samples of the events with `kept_ids` are of no process.
    pub(super) fn new(all: &[Pid], members: &[Pid], child: Option<Pid>, kept_ids: Vec<u64>) -> Self {
        let excluded = Arc::new(ExcludedProcesses::except_events(kept_ids));
        let mut memberships = Self { excluded, ..Self::default() };
        let processes = |pids: &[Pid], member| {
            let process = Process::new(0, 0, member, None);
            pids.iter().map(move |pid| (pid.0.cast_unsigned(), vec![process])).collect::<Vec<_>>()
        };
        memberships.processes.extend(processes(all, Some(false)));
        memberships.processes.extend(processes(members, Some(true)));
        memberships.processes.extend(processes(child.as_slice(), None));
        memberships.processes.keys().for_each(|&pid| memberships.update_excluded(pid));
        memberships
    }

    /// Returns the process that has this number now.
    fn newest(&self, pid: u32) -> Option<&Process> {
        self.processes.get(&pid)?.last()
    }

    /// Excludes the process that has this number now if it is certainly no member.
    fn update_excluded(&self, pid: u32) {
        let is_excluded = self.newest(pid).is_some_and(|process| process.member == Some(false));
        self.excluded.set(pid, is_excluded);
    }

    /// Applies a FORK, EXIT, COMM, MMAP or LOST record; within a round the records may come in any order. With `inherit`, children of
    /// members are members.
    pub(super) fn apply(&mut self, record: &[u8], inherit: bool) {
        let kind = u32_at(record, offsets::KIND);
        match kind {
            Some(kind::LOST) => self.lost_records = true,
            Some(kind::COMM) => self.apply_exec(record),
            Some(kind::MMAP | kind::MMAP2) => return self.apply_mapping(record),
            _ => {}
        }
        let (Some(pid), Some(parent), Some(time)) = (
            u32_at(record, offsets::PROCESS),
            u32_at(record, offsets::PARENT_PROCESS),
            u64_at(record, offsets::TASK_TIME),
        ) else {
            return;
        };
        match kind {
            Some(kind::FORK) if pid == parent => self.count_threads(pid, time, 1),
            Some(kind::FORK) => {
                let member = if inherit { None } else { Some(false) };
                let processes = self.processes.entry(pid).or_default();
                let index = processes.partition_point(|process| process.since <= time);
                processes.insert(index, Process::new(time, parent, member, Some(1)));
                if processes.len() > 2 {
                    processes.remove(0);
                }
                self.new_processes.push((pid, time));
                self.update_excluded(pid);
            }
            Some(kind::EXIT) => self.count_threads(pid, time, -1),
            _ => {}
        }
    }

    /// Makes the child that waited for its exec a member from the time of this COMM record on, if the record is of an exec.
    fn apply_exec(&mut self, record: &[u8]) {
        let is_exec =
            u32_at(record, offsets::MISC).is_some_and(|misc| misc & u32::from(misc::COMM_EXEC) != 0);
        let time = record.len().checked_sub(TIME_FROM_END).and_then(|at| u64_at(record, at));
        if let (true, Some(pid), Some(since)) = (is_exec, u32_at(record, offsets::PROCESS), time)
            && let Some(processes) = self.processes.get_mut(&pid)
            && let [Process { since: 0, member: None, .. }] = processes.as_slice()
        {
            processes.push(Process::new(since, 0, Some(true), None));
        }
    }

    /// Notes that a process has mapped memory, and so lives.
    fn apply_mapping(&mut self, record: &[u8]) {
        let time = record.len().checked_sub(TIME_FROM_END).and_then(|at| u64_at(record, at));
        if let (Some(pid), Some(time)) = (u32_at(record, offsets::PROCESS), time)
            && let Some(process) = self.at(pid, time)
        {
            process.mapping = process.mapping.max(time);
            process.revive();
        }
    }

    fn count_threads(&mut self, pid: u32, time: u64, change: i32) {
        let round = self.round;
        let Some(process) = self.at(pid, time) else { return };
        let since = process.since;
        if change < 0 {
            process.exit = process.exit.max(time);
        }
        process.threads = process.threads.map(|threads| threads.saturating_add_signed(change));
        process.revive();
        if process.threads == Some(0) {
            self.ended.push_back(EndedProcess { pid, since, round });
        }
    }

    /// Returns the process that had this number at that time.
    fn at(&mut self, pid: u32, time: u64) -> Option<&mut Process> {
        self.processes.get_mut(&pid)?.iter_mut().rev().find(|process| process.since <= time)
    }

    /// Returns true if the process that had this number at that time is a member. All records up to that time must have been
    /// applied.
    pub(super) fn is_member(&mut self, pid: u32, time: u64) -> bool {
        let (mut pid, mut time) = (pid, time);
        let mut undecided = Vec::new();
        let member = loop {
            // A process without a FORK record was started by no member.
            let Some(process) = self.at(pid, time) else { break false };
            if let Some(member) = process.member {
                break member;
            }
            if process.since == 0 {
                // The child that waits for its exec.
                break false;
            }
            undecided.push((pid, time));
            // A parent is older than its child. Going back in time, the loop ends even where damaged records form a circle.
            (pid, time) = (process.parent, process.since - 1);
        };
        for (pid, time) in undecided {
            if let Some(process) = self.at(pid, time) {
                process.member = Some(member);
            }
            self.update_excluded(pid);
        }
        member
    }

    /// Returns true if the process that has this number now is certainly a member.
    pub(super) fn is_known_member(&self, pid: u32) -> bool {
        self.newest(pid).is_some_and(|process| process.member == Some(true))
    }

    /// Ends a round. Decides which of `previous`, the processes that began in the round before, are members, and forgets the
    /// processes that ended more than [`GRACE_ROUNDS`] ago. Returns the processes that began in this round, for the next call.
    pub(super) fn finish_round(&mut self, previous: Vec<(u32, u64)>) -> Vec<(u32, u64)> {
        for (pid, time) in previous {
            self.is_member(pid, time);
        }
        self.round += 1;
        while let Some(&EndedProcess { pid, since, round }) = self.ended.front()
            && round + GRACE_ROUNDS < self.round
        {
            self.ended.pop_front();
            if self.lost_records {
                continue;
            }
            if let Some(processes) = self.processes.get_mut(&pid) {
                // The FORK of another of its threads may have come after the EXIT of the last one that was known.
                processes.retain(|process| process.since != since || process.threads != Some(0));
                if processes.is_empty() {
                    self.processes.remove(&pid);
                }
                self.update_excluded(pid);
            }
        }
        std::mem::take(&mut self.new_processes)
    }

    /// Returns the number of process numbers that are remembered.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.processes.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kind: u32, pid: u32, parent: u32, tid: u32, time: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        let size: u32 = 32;
        for word in [kind, size << 16, pid, parent, tid, parent] {
            bytes.extend(word.to_ne_bytes());
        }
        bytes.extend(time.to_ne_bytes());
        bytes
    }

    fn fork(pid: u32, parent: u32, time: u64) -> Vec<u8> {
        record(kind::FORK, pid, parent, pid, time)
    }

    fn exit(pid: u32, time: u64) -> Vec<u8> {
        record(kind::EXIT, pid, 1, pid, time)
    }

    fn memberships() -> Memberships {
        Memberships::new(&[Pid(1), Pid(7), Pid(66)], &[Pid(7)], None, Vec::new())
    }

    #[test]
    fn a_number_that_is_given_again_is_another_process() {
        let mut memberships = memberships();
        // Not in the order of time, as from several CPUs.
        for record in [fork(8, 66, 300), exit(8, 200), fork(8, 7, 100)] {
            memberships.apply(&record, true);
        }
        assert!(memberships.is_member(8, 100) && memberships.is_member(8, 250));
        assert!(!memberships.is_member(8, 300) && !memberships.is_member(8, 99));
        assert!(
            memberships.excluded.contains(8)
                && memberships.excluded.contains(66)
                && !memberships.excluded.contains(7)
        );
        assert!(!memberships.excluded.contains(9), "nothing is known of it");
    }

    #[test]
    fn grandchildren_are_members_though_the_records_of_their_parents_come_later() {
        let mut memberships = memberships();
        memberships.apply(&fork(9, 8, 200), true);
        let fresh = memberships.finish_round(Vec::new());
        assert!(!memberships.excluded.contains(9), "not known yet");
        memberships.apply(&fork(8, 7, 100), true);
        let fresh = memberships.finish_round(fresh);
        assert!(memberships.is_known_member(9));
        memberships.finish_round(fresh);
        assert!(memberships.is_member(9, 201));
        memberships.apply(&fork(10, 8, 300), false);
        assert!(!memberships.is_member(10, 301), "children are not followed");
    }

    #[test]
    fn ended_processes_are_forgotten_and_live_ones_are_not() {
        let mut memberships = memberships();
        let mut fresh = Vec::new();
        for round in 0..10_000_u64 {
            let (pid, time) = (1_000 + round as u32, 1_000 * (round + 1));
            memberships.apply(&fork(pid, 7, time), true);
            memberships.apply(&record(kind::FORK, pid, pid, pid + 1, time + 1), true);
            memberships.apply(&exit(pid, time + 2), true);
            fresh = memberships.finish_round(fresh);
            assert!(memberships.is_member(pid, time + 2), "its other thread lives");
            if round % 2 == 0 {
                memberships.apply(&record(kind::EXIT, pid, 7, pid + 1, time + 3), true);
            }
        }
        assert!((5_000..5_020).contains(&memberships.len()), "{}", memberships.len());
        let before = memberships.len();
        memberships.apply(&fork(8, 7, 100), true);
        memberships.apply(&exit(8, 200), true);
        (0..2).for_each(|_| drop(memberships.finish_round(Vec::new())));
        assert!(memberships.is_member(8, 150), "its last records may still come");
        (0..2).for_each(|_| drop(memberships.finish_round(Vec::new())));
        assert!(!memberships.is_member(8, 150) && memberships.len() <= before);
        let mut unsure = self::memberships();
        for record in [record(kind::LOST, 0, 0, 0, 0), fork(8, 7, 100), exit(8, 200)] {
            unsure.apply(&record, true);
        }
        (0..9).for_each(|_| drop(unsure.finish_round(Vec::new())));
        assert!(unsure.is_member(8, 300), "its threads could not be counted");
    }

    #[test]
    fn a_child_is_a_member_from_its_exec_on() {
        let mut memberships = Memberships::new(&[Pid(1), Pid(7)], &[], Some(Pid(7)), Vec::new());
        assert!(!memberships.is_member(7, 50) && !memberships.excluded.contains(7), "its samples wait");
        let comm = |misc: u16, time: u64| {
            let mut bytes = Vec::new();
            bytes.extend(kind::COMM.to_ne_bytes());
            bytes.extend(misc.to_ne_bytes());
            bytes.extend(56_u16.to_ne_bytes());
            // Number twice, eight bytes of a name; then TID, TIME, CPU and IDENTIFIER.
            for word in [7_u64 << 32 | 7, 0, 0, time, 0, 9] {
                bytes.extend(word.to_ne_bytes());
            }
            bytes
        };
        memberships.apply(&comm(0, 60), true);
        assert!(!memberships.is_member(7, 70), "a name alone is no exec");
        memberships.apply(&comm(misc::COMM_EXEC, 100), true);
        assert!(memberships.is_member(7, 100) && !memberships.is_member(7, 99));
        memberships.apply(&fork(8, 7, 200), true);
        assert!(memberships.is_member(8, 200));
    }

    #[test]
    fn an_exit_record_of_a_process_that_maps_memory_later_is_no_end() {
        // As of a program with more rights: exec, EXIT, the mappings of the new program, and the end long after.
        let map = |pid: u64, time: u64| {
            let mut bytes = Vec::new();
            bytes.extend(kind::MMAP2.to_ne_bytes());
            bytes.extend([0_u8, 0]);
            bytes.extend(48_u16.to_ne_bytes());
            for word in [pid << 32 | pid, pid << 32 | pid, time, 0, 9] {
                bytes.extend(word.to_ne_bytes());
            }
            bytes
        };
        let rounds = |memberships: &mut Memberships| {
            (0..9).for_each(|_| drop(memberships.finish_round(Vec::new())));
        };
        // Within a round, the records of two CPUs come in any order.
        for records in [[exit(8, 200), map(8, 210)], [map(8, 210), exit(8, 200)]] {
            let mut memberships = memberships();
            memberships.apply(&fork(8, 7, 100), true);
            records.iter().for_each(|record| memberships.apply(record, true));
            rounds(&mut memberships);
            assert!(memberships.is_member(8, 900) && !memberships.excluded.contains(8));
            memberships.apply(&exit(8, 950), true);
            rounds(&mut memberships);
            assert!(!memberships.is_member(8, 960), "now it has ended");
        }
    }

    #[test]
    fn records_that_lead_in_a_circle_end() {
        let mut memberships = memberships();
        memberships.apply(&fork(8, 9, 100), true);
        memberships.apply(&fork(9, 8, 100), true);
        memberships.apply(&fork(10, 10, 0), true);
        assert!(!memberships.is_member(8, 200) && !memberships.is_member(10, 0));
    }
}
