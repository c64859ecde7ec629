//! Which processes are members, by their numbers and the time: a number that comes back is another process's.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use decoder::{kind, misc, offsets};
use model::Pid;
use rustc_hash::FxBuildHasher;

use super::TIME_FROM_END;
use crate::records::{u32_at, u64_at};
use crate::ring::Strangers;

/// Records of a process come at most so many rounds after that of its end.
const GRACE_ROUNDS: u64 = 2;

/// The processes that live, and those that ended lately.
#[derive(Debug, Default)]
pub(super) struct Lives {
    /// Those of each number, oldest first; at most two, as no number comes back twice within a round.
    lives: HashMap<u32, Vec<Life>, FxBuildHasher>,
    /// Those that began since the round before: their parents may not be known yet.
    fresh: Vec<(u32, u64)>,
    /// Numbers of those that ended, with their beginning and the round of their end.
    ended: VecDeque<(u32, u64, u64)>,
    round: u64,
    /// Records of threads were lost, so that they cannot be counted.
    is_unsure: bool,
    /// Those that certainly are no members now.
    pub(super) strangers: Arc<Strangers>,
}

/// A process.
#[derive(Clone, Copy, Debug)]
struct Life {
    /// Its FORK; 0 where it lived before.
    since: u64,
    parent: u32,
    /// True if it is a member; `None` until its parents are known.
    member: Option<bool>,
    /// Threads that live; `None` for a process that lived before, and had nobody knows how many.
    threads: Option<u32>,
}

impl Lives {
    /// Begins with the processes that live now, of which `members` are some, and a child that is one from its exec on.
    pub(super) fn new(all: &[Pid], members: &[Pid], child: Option<Pid>) -> Self {
        let mut lives = Self::default();
        let of = |pids: &[Pid], member| {
            let life = Life { since: 0, parent: 0, member, threads: None };
            pids.iter().map(move |pid| (pid.0.cast_unsigned(), vec![life])).collect::<Vec<_>>()
        };
        lives.lives.extend(of(all, Some(false)));
        lives.lives.extend(of(members, Some(true)));
        lives.lives.extend(of(child.as_slice(), None));
        lives.lives.keys().for_each(|&pid| lives.tell(pid));
        lives
    }

    /// Says whether the process that has this number now is a stranger.
    fn tell(&self, pid: u32) {
        let now = self.lives.get(&pid).and_then(|lives| lives.last());
        self.strangers.set(pid, now.is_some_and(|life| life.member == Some(false)));
    }

    /// Learns of a process or thread that began or ended, from a FORK, EXIT or LOST record; in no order.
    pub(super) fn learn(&mut self, record: &[u8], inherit: bool) {
        let kind = u32_at(record, 0);
        match kind {
            Some(kind::LOST) => self.is_unsure = true,
            Some(kind::COMM) => self.begin_child(record),
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
                let lives = self.lives.entry(pid).or_default();
                // What came of threads before this FORK began it with 0.
                let threads = Some(1);
                let place = lives.partition_point(|life| life.since <= time);
                lives.insert(place, Life { since: time, parent, member, threads });
                if lives.len() > 2 {
                    lives.remove(0);
                }
                self.fresh.push((pid, time));
                self.tell(pid);
            }
            Some(kind::EXIT) => self.count_threads(pid, time, -1),
            _ => {}
        }
    }

    /// A child that waited for its exec is a member from then on.
    fn begin_child(&mut self, record: &[u8]) {
        let is_exec =
            u32_at(record, offsets::MISC).is_some_and(|misc| misc & u32::from(misc::COMM_EXEC) != 0);
        let time = record.len().checked_sub(TIME_FROM_END).and_then(|at| u64_at(record, at));
        if let (true, Some(pid), Some(since)) = (is_exec, u32_at(record, offsets::PROCESS), time)
            && let Some(lives) = self.lives.get_mut(&pid)
            && let [Life { since: 0, member: None, .. }] = lives.as_slice()
        {
            lives.push(Life { since, parent: 0, member: Some(true), threads: None });
        }
    }

    fn count_threads(&mut self, pid: u32, time: u64, change: i32) {
        let round = self.round;
        let Some(life) = self.at(pid, time) else { return };
        let since = life.since;
        let Some(threads) = &mut life.threads else { return };
        *threads = threads.saturating_add_signed(change);
        if *threads == 0 {
            self.ended.push_back((pid, since, round));
        }
    }

    fn at(&mut self, pid: u32, time: u64) -> Option<&mut Life> {
        self.lives.get_mut(&pid)?.iter_mut().rev().find(|life| life.since <= time)
    }

    /// Returns true if a process of that time is a member. All records until then must have been learned.
    pub(super) fn is_member(&mut self, pid: u32, time: u64) -> bool {
        let (mut pid, mut time) = (pid, time);
        let mut unknown = Vec::new();
        let member = loop {
            // Nobody has started it, so nobody of ours.
            let Some(life) = self.at(pid, time) else { break false };
            if let Some(member) = life.member {
                break member;
            }
            // A child that waits for its exec.
            if life.since == 0 {
                break false;
            }
            unknown.push((pid, time));
            // A process is older than what it starts; records that say otherwise lead nowhere.
            (pid, time) = (life.parent, life.since - 1);
        };
        for (pid, time) in unknown {
            if let Some(life) = self.at(pid, time) {
                life.member = Some(member);
            }
            self.tell(pid);
        }
        member
    }

    /// Returns true if the process that has this number now is certainly a member.
    pub(super) fn is_known_member(&self, pid: u32) -> bool {
        let now = self.lives.get(&pid).and_then(|lives| lives.last());
        now.is_some_and(|life| life.member == Some(true))
    }

    /// A round is over: settles who is a member of those that began before it, and forgets those that ended long ago.
    pub(super) fn finish_round(&mut self, settled: Vec<(u32, u64)>) -> Vec<(u32, u64)> {
        for (pid, time) in settled {
            self.is_member(pid, time);
        }
        self.round += 1;
        while let Some(&(pid, since, round)) = self.ended.front()
            && round + GRACE_ROUNDS < self.round
        {
            self.ended.pop_front();
            if self.is_unsure {
                continue;
            }
            if let Some(lives) = self.lives.get_mut(&pid) {
                // One of which a thread was told of late has gone on.
                lives.retain(|life| life.since != since || life.threads != Some(0));
                if lives.is_empty() {
                    self.lives.remove(&pid);
                }
                self.tell(pid);
            }
        }
        std::mem::take(&mut self.fresh)
    }

    /// Processes that are remembered.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.lives.len()
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

    fn lives() -> Lives {
        Lives::new(&[Pid(1), Pid(7), Pid(66)], &[Pid(7)], None)
    }

    #[test]
    fn a_number_that_comes_back_is_another_process() {
        let mut lives = lives();
        // In no order, as from several CPUs.
        for record in [fork(8, 66, 300), exit(8, 200), fork(8, 7, 100)] {
            lives.learn(&record, true);
        }
        assert!(lives.is_member(8, 100) && lives.is_member(8, 250));
        assert!(!lives.is_member(8, 300) && !lives.is_member(8, 99));
        assert!(lives.strangers.has(8) && lives.strangers.has(66) && !lives.strangers.has(7));
        assert!(!lives.strangers.has(9), "nothing is known of it");
    }

    #[test]
    fn grandchildren_are_members_though_their_parents_are_told_of_later() {
        let mut lives = lives();
        lives.learn(&fork(9, 8, 200), true);
        let fresh = lives.finish_round(Vec::new());
        assert!(!lives.strangers.has(9), "not known yet");
        lives.learn(&fork(8, 7, 100), true);
        let fresh = lives.finish_round(fresh);
        assert!(lives.is_known_member(9));
        lives.finish_round(fresh);
        assert!(lives.is_member(9, 201));
        lives.learn(&fork(10, 8, 300), false);
        assert!(!lives.is_member(10, 301), "children are not followed");
    }

    #[test]
    fn the_dead_are_forgotten_and_the_living_are_not() {
        let mut lives = lives();
        let mut fresh = Vec::new();
        for round in 0..10_000_u64 {
            let (pid, time) = (1_000 + round as u32, 1_000 * (round + 1));
            lives.learn(&fork(pid, 7, time), true);
            lives.learn(&record(kind::FORK, pid, pid, pid + 1, time + 1), true);
            lives.learn(&exit(pid, time + 2), true);
            fresh = lives.finish_round(fresh);
            assert!(lives.is_member(pid, time + 2), "its other thread lives");
            if round % 2 == 0 {
                lives.learn(&record(kind::EXIT, pid, 7, pid + 1, time + 3), true);
            }
        }
        assert!((5_000..5_020).contains(&lives.len()), "{}", lives.len());
        let before = lives.len();
        lives.learn(&fork(8, 7, 100), true);
        lives.learn(&exit(8, 200), true);
        (0..2).for_each(|_| drop(lives.finish_round(Vec::new())));
        assert!(lives.is_member(8, 150), "its last records may still come");
        (0..2).for_each(|_| drop(lives.finish_round(Vec::new())));
        assert!(!lives.is_member(8, 150) && lives.len() <= before);
        let mut unsure = self::lives();
        for record in [record(kind::LOST, 0, 0, 0, 0), fork(8, 7, 100), exit(8, 200)] {
            unsure.learn(&record, true);
        }
        (0..9).for_each(|_| drop(unsure.finish_round(Vec::new())));
        assert!(unsure.is_member(8, 300), "its threads could not be counted");
    }

    #[test]
    fn a_child_is_a_member_from_its_exec_on() {
        let mut lives = Lives::new(&[Pid(1), Pid(7)], &[], Some(Pid(7)));
        assert!(!lives.is_member(7, 50) && !lives.strangers.has(7), "its samples wait");
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
        lives.learn(&comm(0, 60), true);
        assert!(!lives.is_member(7, 70), "a name alone is no exec");
        lives.learn(&comm(misc::COMM_EXEC, 100), true);
        assert!(lives.is_member(7, 100) && !lives.is_member(7, 99));
        lives.learn(&fork(8, 7, 200), true);
        assert!(lives.is_member(8, 200));
    }

    #[test]
    fn records_that_lead_in_a_circle_end() {
        let mut lives = lives();
        lives.learn(&fork(8, 9, 100), true);
        lives.learn(&fork(9, 8, 100), true);
        lives.learn(&fork(10, 10, 0), true);
        assert!(!lives.is_member(8, 200) && !lives.is_member(10, 0));
    }
}
