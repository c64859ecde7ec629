//! Finds processes whose events the kernel has ended although they live: at the exec of a program with more rights than its caller has
//! (set-user-ID, set-group-ID, file capabilities), or one that the caller may not read, the kernel removes all events from the task
//! (`perf_event_exit_task()` in `begin_new_exec()`, fs/exec.c), whoever opened them. Events of whole CPUs go on.
//!
//! Of such an exec there are a COMM record and an EXIT record, and no mapping of the new program.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use decoder::{RawRecord, Record, RecordLayout, kind};
use host::procfs;
use host::sys::clock;
use model::{Name, Pid, Timestamp};
use rustc_hash::FxBuildHasher;
use tracker::Orderer;

use crate::mapped_files::MappedFiles;
use crate::open::{Opened, reopen};
use crate::options::Options;
use crate::processes::Synthesis;
use crate::records::raw_records;
use crate::summary::PrivilegedExec;

/// Maximum number of processes that are listed. A message names the first ones.
const MAX_LISTED: usize = 1000;

/// Follows processes from FORK to exec to EXIT.
pub(super) struct PrivilegedExecs {
    layout: RecordLayout,
    files: MappedFiles,
    /// The records of a round come in any order.
    steps: Orderer<(Pid, Step)>,
    /// The programs that have mapped nothing since their exec.
    executing: HashMap<Pid, Name, FxBuildHasher>,
    /// Processes with a FORK record, which have inherited the events.
    inherited: HashSet<Pid, FxBuildHasher>,
    /// The processes that have lost their events and were not looked at yet.
    due: Vec<PrivilegedExec>,
    /// All others that have lost their events.
    found: Vec<PrivilegedExec>,
}

/// Events that were opened again on a process and those that it has started.
pub(super) struct ReopenedEvents {
    /// The ids of the new events, each with the one that stands for it in the recording.
    pub(super) ids: Vec<(u64, u64)>,
    /// Records of what exists in the processes.
    pub(super) records: Vec<u8>,
}

enum Step {
    Fork,
    Exec(Name),
    Map,
    Exit,
}

impl PrivilegedExecs {
    /// Starts with no process. `layout` is that of the sideband event's records, `files` are those of the recording.
    pub(super) fn new(layout: RecordLayout, files: MappedFiles) -> Self {
        let (executing, inherited) = (HashMap::default(), HashSet::default());
        let (due, found) = (Vec::new(), Vec::new());
        Self { layout, files, steps: Orderer::default(), executing, inherited, due, found }
    }

    /// Adds the records of a sideband ring.
    pub(super) fn apply(&mut self, records: &[u8]) {
        for raw in raw_records(records) {
            if let Some((time, pid, step)) = self.step(&raw) {
                self.steps.push(time, (pid, step));
            }
        }
    }

    fn step(&self, raw: &RawRecord<'_>) -> Option<(Timestamp, Pid, Step)> {
        if !matches!(raw.kind, kind::COMM | kind::MMAP | kind::MMAP2 | kind::FORK | kind::EXIT) {
            return None;
        }
        let (time, pid, step) = match self.layout.decode(raw).ok()? {
            Record::Comm(comm) if comm.exec => {
                (comm.sample_id.time?, comm.pid, Step::Exec(Name::new(comm.comm)))
            }
            Record::Mmap(map) => (map.sample_id.time?, map.pid, Step::Map),
            Record::Fork(task) if task.pid != task.parent_pid => (task.time, task.pid, Step::Fork),
            Record::Exit(task) if task.pid.0 == task.tid.0 => (task.time, task.pid, Step::Exit),
            _ => return None,
        };
        // What existed before has no time.
        (time.0 > 0).then_some((time, pid, step))
    }

    /// Ends a round: the order of older records is known now.
    pub(super) fn finish_round(&mut self) {
        self.steps.finish_round();
        self.apply_ready();
    }

    /// Returns all processes that have lost their events, when no more records come.
    pub(super) fn finish(mut self) -> Vec<PrivilegedExec> {
        self.steps.finish();
        self.apply_ready();
        let Self { mut found, due, .. } = self;
        found.extend(due);
        found
    }

    fn apply_ready(&mut self) {
        while let Some((time, (pid, step))) = self.steps.pop() {
            match step {
                Step::Fork => drop(self.inherited.insert(pid)),
                Step::Exec(name) => drop(self.executing.insert(pid, name)),
                Step::Map => drop(self.executing.remove(&pid)),
                Step::Exit => {
                    self.inherited.remove(&pid);
                    let name = self.executing.remove(&pid);
                    self.due.extend(name.map(|name| PrivilegedExec { pid, name, time, gap: None }));
                }
            }
        }
    }

    /// Returns true if there are processes that have lost their events and that nobody has taken yet.
    pub(super) fn are_due(&self) -> bool {
        !self.due.is_empty()
    }

    /// Takes the processes that have lost their events since the last call.
    pub(super) fn take_due(&mut self) -> Vec<PrivilegedExec> {
        std::mem::take(&mut self.due)
    }

    /// Opens the events again on a process that has lost them, as far as that is permitted, and lists it.
    pub(super) fn reopen(
        &mut self,
        mut exec: PrivilegedExec,
        opened: &mut Opened,
        options: &Options,
    ) -> Option<ReopenedEvents> {
        let pids = self.without_events(exec.pid);
        let ids = reopen(opened, &pids, options);
        let reopened = (!ids.is_empty()).then(|| {
            let now = options.clock.id().and_then(|clock| clock::now(clock).ok());
            let now = now.map_or(exec.time, Timestamp);
            exec.gap = Some(Duration::from_nanos(now.0.saturating_sub(exec.time.0)));
            let mut synthesis = Synthesis::at(&self.layout, now, &self.files);
            pids.iter().for_each(|&pid| synthesis.process(pid));
            ReopenedEvents { ids, records: synthesis.finish() }
        });
        if self.found.len() < MAX_LISTED {
            self.found.push(exec);
        }
        reopened
    }

    /// Returns a process that has lost its events, and those that it has started since and that have inherited none. Empty where it
    /// has ended.
    fn without_events(&self, pid: Pid) -> Vec<Pid> {
        if procfs::threads(pid).is_err() {
            return Vec::new();
        }
        let parents: Vec<(Pid, Pid)> = procfs::processes()
            .unwrap_or_default()
            .into_iter()
            .filter_map(|pid| Some((pid, procfs::lineage(pid).ok()?.parent)))
            .collect();
        let mut found = vec![pid];
        let mut next = 0;
        while let Some(&ancestor) = found.get(next) {
            next += 1;
            for &(child, parent) in &parents {
                let has_events = self.inherited.contains(&child);
                if parent == ancestor && !has_events && !found.contains(&child) {
                    found.push(child);
                }
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use decoder::record::{Comm, Mmap, Task};
    use decoder::{Attr, AttrFlags, CpuMode, Endian, SampleFormat, SampleId};
    use model::Tid;

    fn sample_id(time: u64) -> SampleId {
        SampleId { time: Some(Timestamp(time)), ..SampleId::default() }
    }

    fn exec(pid: i32, time: u64) -> Record<'static> {
        let (pid, tid) = (Pid(pid), Tid(pid));
        Record::Comm(Comm { pid, tid, comm: b"sudo", exec: true, sample_id: sample_id(time) })
    }

    fn map(pid: i32, time: u64) -> Record<'static> {
        Record::Mmap(Mmap {
            pid: Pid(pid),
            tid: Tid(pid),
            start: 0x1000,
            len: 0x1000,
            page_offset: 0,
            path: b"/usr/bin/sudo",
            extended: None,
            data: false,
            mode: CpuMode::User,
            scan_cut_short: false,
            sample_id: sample_id(time),
        })
    }

    fn exit(pid: i32, tid: i32, time: u64) -> Record<'static> {
        let (pid, parent_pid, tid, parent_tid) = (Pid(pid), Pid(1), Tid(tid), Tid(1));
        let (time, sample_id) = (Timestamp(time), sample_id(time));
        Record::Exit(Task { pid, parent_pid, tid, parent_tid, time, sample_id })
    }

    fn found(records: &[Record<'_>]) -> Vec<(Pid, u64)> {
        let sample_format = SampleFormat::TIME | SampleFormat::IDENTIFIER;
        let attr = Attr { sample_format, flags: AttrFlags::SAMPLE_ID_ALL, ..Attr::default() };
        let mut execs =
            PrivilegedExecs::new(RecordLayout::new(&attr, Endian::NATIVE), MappedFiles::default());
        for record in records {
            let mut bytes = Vec::new();
            execs.layout.encode(record, &mut bytes).unwrap();
            execs.apply(&bytes);
        }
        (0..2).for_each(|_| execs.finish_round());
        execs.finish().into_iter().map(|exec| (exec.pid, exec.time.0)).collect()
    }

    #[test]
    fn an_exit_record_without_a_mapping_since_the_exec_ends_the_events_of_a_living_process() {
        assert_eq!(found(&[exec(7, 10), exit(7, 7, 11)]), [(Pid(7), 11)]);
        // The records of two CPUs come in any order.
        assert_eq!(found(&[exit(7, 7, 11), exec(7, 10)]), [(Pid(7), 11)]);
        assert_eq!(found(&[map(7, 11), exit(7, 7, 99), exec(7, 10)]), []);
        assert_eq!(found(&[exec(7, 10), map(7, 12), exit(7, 7, 99)]), [], "a program that ends");
        assert_eq!(found(&[exit(7, 8, 9), exec(7, 10), map(7, 12)]), [], "its other threads end at an exec");
        assert_eq!(found(&[exit(7, 7, 11)]), []);
        // Once for each exec, also where the events were opened again.
        let twice = [exec(7, 10), exit(7, 7, 11), map(7, 20), exec(7, 30), exit(7, 7, 31), map(7, 32)];
        assert_eq!(found(&twice), [(Pid(7), 11), (Pid(7), 31)]);
    }
}
