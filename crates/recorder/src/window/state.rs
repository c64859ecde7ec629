//! The state after a sequence of sideband records: the threads, mappings and kernel symbols that exist. Sideband records that leave a
//! window are folded into it, so that memory is bounded by what exists, and every file has the names of all of its samples.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use decoder::record::{Comm, Namespaces};
use decoder::{Endian, RawRecord, Record, RecordLayout};
use model::{MAX_CGROUPS, Pid, Tid, Timestamp};
use rustc_hash::FxBuildHasher;
use tracker::Orderer;

use super::mappings::{Mappings, trailer};
use crate::processes::{MIN_PROCESSES_TO_SWEEP, SWEEP_INTERVAL};

/// Time for which a thread is kept after its EXIT record, in nanoseconds: the kernel removes its events later, so samples may follow.
const KEEP_AFTER_EXIT_NANOSECONDS: u64 = 1_000_000_000;
/// `PERF_BPF_EVENT_PROG_LOAD`.
const PROGRAM_LOADED: u16 = 1;

/// The threads, mappings and kernel symbols after the records that were pushed and the rounds that were finished.
#[derive(Clone)]
pub(crate) struct SidebandState {
    layout: RecordLayout,
    /// Records that older ones of other rings may still precede.
    orderer: Orderer<Arc<[u8]>>,
    /// The time of the newest record that was applied.
    time: Timestamp,
    /// The number of applied records, which tells apart processes and threads with the same id.
    order: u64,
    kernel: Mappings,
    symbols: BTreeMap<u64, Arc<[u8]>>,
    programs: BTreeMap<u32, Arc<[u8]>>,
    cgroups: BTreeMap<u64, Arc<[u8]>>,
    processes: HashMap<Pid, Process, FxBuildHasher>,
    /// Threads that have ended: the time, process, thread, and the thread's order.
    ended: VecDeque<(Timestamp, Pid, Tid, u64)>,
    swept: Instant,
    /// The time of a sweep and the processes that were dead at it. Their EXIT records may still come.
    dead: Option<(Timestamp, Vec<(Pid, u64)>)>,
}

#[derive(Clone, Default)]
struct Process {
    /// [`SidebandState::order`] when the process began.
    order: u64,
    threads: Arc<BTreeMap<i32, Thread>>,
    /// Shared with its children until one of them maps something.
    mappings: Arc<Mappings>,
    namespaces: Option<Arc<[u8]>>,
}

#[derive(Clone)]
struct Thread {
    order: u64,
    /// Empty if it is not known.
    name: Arc<[u8]>,
}

impl SidebandState {
    /// Creates an empty state for records of this layout.
    pub(crate) fn new(layout: RecordLayout) -> Self {
        Self {
            layout,
            orderer: Orderer::default(),
            time: Timestamp(0),
            order: 0,
            kernel: Mappings::default(),
            symbols: BTreeMap::new(),
            programs: BTreeMap::new(),
            cgroups: BTreeMap::new(),
            processes: HashMap::default(),
            ended: VecDeque::new(),
            swept: Instant::now(),
            dead: None,
        }
    }

    /// Adds a record. Only rounds order the records of different rings.
    pub(crate) fn push(&mut self, record: &[u8]) {
        let Ok((raw, _)) = RawRecord::parse(record, Endian::NATIVE) else { return };
        let time = self.layout.time_of(&raw).unwrap_or(Timestamp(0));
        self.orderer.push(time, Arc::from(record));
    }

    /// Marks the end of a round (every ring has been drained since the last call), and applies the records that are in order now.
    pub(crate) fn finish_round(&mut self) {
        self.orderer.finish_round();
        self.apply_ready();
    }

    fn apply_ready(&mut self) {
        while let Some((time, record)) = self.orderer.pop() {
            // A time with all bits set stands for no time.
            if time.0 != u64::MAX {
                self.time = self.time.max(time);
            }
            self.order += 1;
            self.apply(&record);
        }
    }

    /// Forgets threads that ended before `time`: no older record is kept any more.
    pub(crate) fn forget_before(&mut self, time: Timestamp) {
        self.time = self.time.max(time);
        self.forget_ended();
    }

    fn apply(&mut self, record: &Arc<[u8]>) {
        let layout = self.layout.clone();
        let Ok((raw, _)) = RawRecord::parse(record, Endian::NATIVE) else { return };
        let Ok(decoded) = layout.decode(&raw) else { return };
        let order = self.order;
        match decoded {
            Record::Mmap(map) if map.pid.0 < 0 => self.kernel.insert(map.start, map.len, order, record),
            Record::Mmap(map) => {
                let process = self.process(map.pid);
                let is_first = process.mappings.is_empty();
                Arc::make_mut(&mut process.mappings).insert(map.start, map.len, order, record);
                if is_first {
                    // The kernel writes an EXIT record, too, at an exec of a program with more rights, whose thread lives on.
                    self.ended.retain(|(_, pid, tid, _)| (*pid, *tid) != (map.pid, map.tid));
                }
            }
            Record::Comm(comm) => {
                let process = self.process(comm.pid);
                if comm.exec {
                    process.mappings = Arc::default();
                }
                let thread = Thread { order, name: Arc::from(comm.comm) };
                Arc::make_mut(&mut process.threads).insert(comm.tid.0, thread);
            }
            Record::Fork(task) => {
                let parent = self.processes.get(&task.parent_pid).cloned().unwrap_or_default();
                let name = |tid: i32| parent.threads.get(&tid).map(|thread| Arc::clone(&thread.name));
                let name = name(task.parent_tid.0).or_else(|| name(task.parent_pid.0)).unwrap_or_default();
                let thread = Thread { order, name };
                if task.pid == task.parent_pid {
                    Arc::make_mut(&mut self.process(task.pid).threads).insert(task.tid.0, thread);
                } else {
                    let threads = Arc::new(BTreeMap::from([(task.tid.0, thread)]));
                    self.processes.insert(task.pid, Process { order, threads, ..parent });
                }
            }
            Record::Exit(task) => {
                let process = self.processes.get(&task.pid);
                if let Some(thread) = process.and_then(|process| process.threads.get(&task.tid.0)) {
                    self.ended.push_back((self.time, task.pid, task.tid, thread.order));
                }
            }
            Record::Namespaces(namespaces) => {
                self.process(namespaces.pid).namespaces = Some(Arc::clone(record));
            }
            Record::Ksymbol(symbol) if symbol.unregister => drop(self.symbols.remove(&symbol.start)),
            Record::Ksymbol(symbol) => drop(self.symbols.insert(symbol.start, Arc::clone(record))),
            Record::BpfEvent(program) if program.kind == PROGRAM_LOADED => {
                self.programs.insert(program.id, Arc::clone(record));
            }
            Record::BpfEvent(program) => drop(self.programs.remove(&program.id)),
            Record::Cgroup(cgroup) => {
                self.cgroups.insert(cgroup.id, Arc::clone(record));
                if self.cgroups.len() > MAX_CGROUPS {
                    self.cgroups.pop_first();
                }
            }
            // All other records describe a moment, and change no state.
            _ => {}
        }
    }

    fn process(&mut self, pid: Pid) -> &mut Process {
        let order = self.order;
        self.processes.entry(pid).or_insert_with(|| Process { order, ..Process::default() })
    }

    fn forget_ended(&mut self) {
        while let Some(&(time, pid, tid, order)) = self.ended.front() {
            if time.0.saturating_add(KEEP_AFTER_EXIT_NANOSECONDS) >= self.time.0 {
                break;
            }
            self.ended.pop_front();
            let Some(process) = self.processes.get_mut(&pid) else { continue };
            // Another thread may have the same id by now.
            if process.threads.get(&tid.0).is_some_and(|thread| thread.order == order) {
                Arc::make_mut(&mut process.threads).remove(&tid.0);
                if process.threads.is_empty() {
                    self.processes.remove(&pid);
                }
            }
        }
    }

    /// Forgets processes that are not among `alive`, if there are many and the last sweep is long enough ago: processes whose EXIT
    /// record was lost would never be forgotten. `now` is the time of the records' clock.
    pub(crate) fn forget_dead(&mut self, now: Timestamp, alive: impl FnOnce() -> Option<Vec<Pid>>) {
        if let Some((time, _)) = &self.dead
            && time.0.saturating_add(KEEP_AFTER_EXIT_NANOSECONDS) < self.time.0
            && let Some((_, dead)) = self.dead.take()
        {
            for (pid, order) in dead {
                if self.processes.get(&pid).is_some_and(|process| process.order == order) {
                    self.processes.remove(&pid);
                }
            }
        }
        if self.dead.is_some()
            || self.processes.len() < MIN_PROCESSES_TO_SWEEP
            || self.swept.elapsed() < SWEEP_INTERVAL
        {
            return;
        }
        self.swept = Instant::now();
        let Some(mut alive) = alive() else { return };
        alive.sort_unstable();
        let dead = self.processes.iter().filter(|(pid, _)| alive.binary_search(pid).is_err());
        self.dead = Some((now, dead.map(|(pid, process)| (*pid, process.order)).collect()));
    }

    /// Returns true if the process is known.
    pub(crate) fn knows(&self, pid: Pid) -> bool {
        self.processes.contains_key(&pid)
    }

    /// Encodes the state as records for the start of a file, followed by the records that are not in order yet.
    pub(crate) fn to_records(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.kernel.append(Pid(-1), &self.layout, &mut out);
        let raw = self.symbols.values().chain(self.programs.values()).chain(self.cgroups.values());
        raw.for_each(|record| out.extend_from_slice(record));
        let mut processes: Vec<_> = self.processes.iter().collect();
        processes.sort_unstable_by_key(|&(pid, process)| (process.order, *pid));
        for (&pid, process) in processes {
            self.append_process(pid, process, &mut out);
        }
        let mut rest = self.orderer.clone();
        rest.finish();
        while let Some((_, record)) = rest.pop() {
            out.extend_from_slice(&record);
        }
        out
    }

    fn append_process(&self, pid: Pid, process: &Process, out: &mut Vec<u8>) {
        let mut comm = |tid: i32, thread: &Thread| {
            let tid = Tid(tid);
            let comm = Comm { pid, tid, comm: &thread.name, exec: false, sample_id: trailer(pid, tid) };
            // A name of at most 15 bytes fits into a record.
            let _ = self.layout.encode(&Record::Comm(comm), out);
        };
        // The main thread's name is that of the process.
        let first = process.threads.get_key_value(&pid.0);
        let others = process.threads.iter().filter(|(tid, _)| **tid != pid.0);
        for (&tid, thread) in first.into_iter().chain(others).filter(|(_, thread)| !thread.name.is_empty()) {
            comm(tid, thread);
        }
        if let Some(record) = &process.namespaces
            && let Ok((raw, _)) = RawRecord::parse(record, Endian::NATIVE)
            && let Ok(Record::Namespaces(namespaces)) = self.layout.decode(&raw)
        {
            let tid = Tid(pid.0);
            let namespaces = Namespaces { pid, tid, sample_id: trailer(pid, tid), ..namespaces };
            let _ = self.layout.encode(&Record::Namespaces(namespaces), out);
        }
        process.mappings.append(pid, &self.layout, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use decoder::SampleId;
    use decoder::record::{Mmap, MmapExtended, MmapIdentity, Task};
    use decoder::{Attr, AttrFlags, CpuMode, SampleFormat};
    use model::FileIdentity;

    fn layout() -> RecordLayout {
        let sample_format = SampleFormat::TID | SampleFormat::TIME | SampleFormat::IDENTIFIER;
        let attr = Attr { sample_format, flags: AttrFlags::SAMPLE_ID_ALL, ..Attr::default() };
        RecordLayout::new(&attr, Endian::NATIVE)
    }

    fn at(time: u64, pid: i32) -> SampleId {
        SampleId { time: Some(Timestamp(time)), ..trailer(Pid(pid), Tid(pid)) }
    }

    fn comm(time: u64, pid: i32, tid: i32, name: &[u8], exec: bool) -> Record<'_> {
        Record::Comm(Comm { pid: Pid(pid), tid: Tid(tid), comm: name, exec, sample_id: at(time, pid) })
    }

    fn map(time: u64, pid: i32, start: u64, path: &[u8]) -> Record<'_> {
        let file = FileIdentity { major: 1, minor: 2, inode: 3, generation: 4 };
        let extended = MmapExtended { identity: MmapIdentity::File(file), protection: 5, flags: 2 };
        Record::Mmap(Mmap {
            pid: Pid(pid),
            tid: Tid(pid),
            start,
            len: 0x1000,
            page_offset: 0,
            path,
            extended: Some(extended),
            data: false,
            mode: CpuMode::User,
            scan_cut_short: false,
            sample_id: at(time, pid),
        })
    }

    fn task(time: u64, (pid, tid): (i32, i32), parent: i32) -> Task {
        Task {
            pid: Pid(pid),
            parent_pid: Pid(parent),
            tid: Tid(tid),
            parent_tid: Tid(parent),
            time: Timestamp(time),
            sample_id: at(time, pid),
        }
    }

    fn push(state: &mut SidebandState, record: &Record<'_>) {
        let mut bytes = Vec::new();
        state.layout.encode(record, &mut bytes).unwrap();
        state.push(&bytes);
    }

    /// A line of text per record of the state.
    fn words(state: &SidebandState) -> Vec<String> {
        let bytes = state.to_records();
        let mut words = Vec::new();
        for record in crate::records::each(&bytes) {
            let (raw, _) = RawRecord::parse(record, Endian::NATIVE).unwrap();
            words.push(match state.layout.decode(&raw).unwrap() {
                Record::Comm(comm) => {
                    format!("{}/{} {}", comm.pid.0, comm.tid.0, String::from_utf8_lossy(comm.comm))
                }
                Record::Mmap(map) => {
                    format!("{} {:x} {}", map.pid.0, map.start, String::from_utf8_lossy(map.path))
                }
                other => format!("{other:?}"),
            });
        }
        words
    }

    #[test]
    fn what_lives_stays_and_what_ended_goes() {
        let mut state = SidebandState::new(layout());
        push(&mut state, &comm(0, 7, 7, b"parent", false));
        push(&mut state, &map(0, 7, 0x1000, b"/bin/parent"));
        push(&mut state, &Record::Fork(task(10, (8, 8), 7)));
        push(&mut state, &Record::Fork(task(11, (7, 9), 7)));
        // A record of another ring that comes late.
        push(&mut state, &map(5, 7, 0x4000, b"/lib/before"));
        (0..2).for_each(|_| state.finish_round());
        let expected = ["7/7 parent", "7/9 parent", "7 1000 /bin/parent", "7 4000 /lib/before", "8/8 parent"];
        assert_eq!(words(&state)[..5], expected);
        assert_eq!(words(&state)[5..], ["8 1000 /bin/parent", "8 4000 /lib/before"]);
        push(&mut state, &comm(20, 8, 8, b"child", true));
        push(&mut state, &map(21, 8, 0x1000, b"/bin/child"));
        push(&mut state, &Record::Exit(task(22, (7, 7), 1)));
        push(&mut state, &Record::Exit(task(23, (7, 9), 1)));
        (0..2).for_each(|_| state.finish_round());
        assert_eq!(words(&state).len(), 6, "samples of what has ended may still come: {:?}", words(&state));
        state.forget_before(Timestamp(24 + KEEP_AFTER_EXIT_NANOSECONDS));
        assert_eq!(words(&state), ["8/8 child", "8 1000 /bin/child"]);
    }

    #[test]
    fn a_number_that_is_used_again_is_not_forgotten_with_who_had_it() {
        let mut state = SidebandState::new(layout());
        push(&mut state, &comm(0, 7, 7, b"parent", false));
        push(&mut state, &Record::Fork(task(10, (8, 8), 7)));
        push(&mut state, &Record::Exit(task(20, (8, 8), 7)));
        push(&mut state, &Record::Fork(task(30, (8, 8), 7)));
        (0..2).for_each(|_| state.finish_round());
        state.forget_before(Timestamp(30 + 2 * KEEP_AFTER_EXIT_NANOSECONDS));
        assert!(state.knows(Pid(8)));
    }

    #[test]
    fn a_program_with_more_rights_lives_after_the_exit_record_of_its_exec() {
        let mut state = SidebandState::new(layout());
        push(&mut state, &Record::Fork(task(10, (8, 8), 7)));
        push(&mut state, &comm(20, 8, 8, b"sudo", true));
        push(&mut state, &Record::Exit(task(21, (8, 8), 7)));
        push(&mut state, &map(22, 8, 0x1000, b"/usr/bin/sudo"));
        (0..2).for_each(|_| state.finish_round());
        state.forget_before(Timestamp(30 + KEEP_AFTER_EXIT_NANOSECONDS));
        assert_eq!(words(&state), ["8/8 sudo", "8 1000 /usr/bin/sudo"]);
    }

    #[test]
    fn records_that_are_not_in_order_yet_are_told_as_they_came() {
        let mut state = SidebandState::new(layout());
        push(&mut state, &comm(50, 7, 7, b"name", false));
        assert_eq!(words(&state), ["7/7 name"]);
        assert!(!state.knows(Pid(7)));
    }

    #[test]
    fn processes_whose_end_was_lost_are_forgotten() {
        let mut state = SidebandState::new(layout());
        for pid in 1..=MIN_PROCESSES_TO_SWEEP as i32 {
            push(&mut state, &comm(0, pid, pid, b"name", false));
        }
        state.finish_round();
        let Some(long_ago) = Instant::now().checked_sub(SWEEP_INTERVAL) else { return };
        state.swept = long_ago;
        state.forget_dead(Timestamp(100), || Some(vec![Pid(3)]));
        assert!(state.knows(Pid(4)), "what is not applied yet may tell of its end");
        state.forget_before(Timestamp(102 + KEEP_AFTER_EXIT_NANOSECONDS));
        state.forget_dead(Timestamp(200), || None);
        assert!(state.knows(Pid(3)) && !state.knows(Pid(4)));
    }
}
