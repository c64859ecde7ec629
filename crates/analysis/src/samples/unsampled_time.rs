//! CPU time that no sample stands for, and the threads or processes that used it.
//!
//! A READ record of a clock says what a task has used by its end (`inherit_stat`): `prof record` writes them, `perf record -s`
//! too. What its samples do not stand for, in the clock's nanoseconds, was never sampled: the last, unfinished period of each
//! thread, or all of its life. A READ tells no names: a task that had several is shown under all of them.

use std::collections::{HashMap, VecDeque};

use decoder::record::{Comm, Read, Record, Task};
use model::{EventIndex, Name, Pid, Tid};
use profile::{Detail, SampleFilter, TimeRange};
use rustc_hash::FxBuildHasher;

/// The name that `prof record` gives its child before that becomes the command, and its time is counted.
pub(crate) const PRE_EXEC_COMM: &[u8] = b"prof-exec";
/// Maximum number of names of one task that are shown: the first ones and the last.
const MAX_NAMES: usize = 4;

/// CPU time without samples, by task names.
#[derive(Default)]
pub(crate) struct UnsampledTime {
    filter: SampleFilter,
    /// The choice of what is kept apart besides names.
    detail: Detail,
    lives: HashMap<Tid, TaskLife, FxBuildHasher>,
    /// Tasks that ended, oldest first.
    ended: VecDeque<Tid>,
    /// CPU times of tasks that were attached to, as recordings tell them at their end, in nanoseconds.
    rest: HashMap<Tid, u64, FxBuildHasher>,
    /// The tasks without a READ, by the task that was attached to.
    followed: HashMap<Tid, InheritedClock, FxBuildHasher>,
    /// CPU times of ended tasks: nanoseconds per event.
    times: HashMap<TimeOwner, Vec<u64>, FxBuildHasher>,
    /// Events that were seen.
    events: usize,
}

/// In place of the number of a thread that is not kept apart; like that of no process, so that both together are one task's.
const NO_THREAD: Tid = Tid(Pid::NONE.0);

/// The thread or process whose time it was, as far as these are kept apart.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct TimeOwner {
    /// The name; several of one task are joined by arrows.
    pub(crate) comm: Name,
    /// The process, or none.
    pub(crate) pid: Pid,
    /// The thread, or none.
    pub(crate) tid: Tid,
}

/// A task between its beginning and its end.
#[derive(Default)]
struct TaskLife {
    pid: Pid,
    names: Vec<Name>,
    /// The task that was attached to, whose clock counts for this one.
    root: Option<Tid>,
    /// The sum of the times in READ records, in nanoseconds.
    told: Option<u64>,
    /// The sum of the periods of each event's samples, in its unit.
    sampled: Vec<u64>,
    is_queued: bool,
}

/// The tasks of one clock that have no READ record of their own.
#[derive(Default)]
struct InheritedClock {
    /// The one that was attached to; `None` where the filter does not admit it.
    root: Option<TimeOwner>,
    sampled: Vec<u64>,
}

impl UnsampledTime {
    /// Keeps what `filter` admits, apart as `detail` says.
    pub(crate) fn new(filter: SampleFilter, detail: Detail) -> Self {
        Self { filter, detail, ..Self::default() }
    }

    /// Counts what samples of a thread stand for.
    pub(crate) fn sampled(&mut self, event: EventIndex, pid: Pid, tid: Tid, period: u64) {
        let place = event.0 as usize;
        self.events = self.events.max(place + 1);
        let life = self.lives.entry(tid).or_default();
        life.pid = pid;
        add(&mut life.sampled, place, period);
    }

    /// Updates the tasks by a COMM, FORK or EXIT record. Ignores other records.
    pub(crate) fn record(&mut self, record: &Record<'_>) {
        match record {
            Record::Comm(comm) => self.comm(comm),
            Record::Fork(task) => self.fork(task),
            Record::Exit(task) => self.exit(task.tid),
            _ => {}
        }
    }

    /// Records the time that a clock reported of a task. Time 0 marks a report at the recording's end, of the task and all that
    /// it started and that has no report of its own.
    pub(crate) fn read(&mut self, read: &Read<'_>) {
        let Some(counter) = read.values.iter().next() else { return };
        if read.sample_id.time.is_some_and(|time| time.0 == 0) {
            let rest = self.rest.entry(read.tid).or_default();
            *rest = rest.saturating_add(counter.value);
            return;
        }
        let life = self.lives.entry(read.tid).or_default();
        life.pid = read.pid;
        life.told = Some(life.told.unwrap_or(0).saturating_add(counter.value));
    }

    /// CPU time, in nanoseconds, that has no samples of each event, by its owner. Empty where the filter asks for times or
    /// CPUs, which are not known of it.
    pub(crate) fn finish(mut self) -> Vec<Vec<(TimeOwner, u64)>> {
        let mut events: Vec<Vec<(TimeOwner, u64)>> = (0..self.events).map(|_| Vec::new()).collect();
        if !self.filter.cpus.is_empty() || self.filter.time != TimeRange::default() {
            return events;
        }
        let living: Vec<Tid> = self.lives.keys().copied().collect();
        living.into_iter().for_each(|tid| self.close(tid));
        for (tid, rest) in std::mem::take(&mut self.rest) {
            let Some(InheritedClock { root: Some(thread), sampled }) = self.followed.remove(&tid) else {
                continue;
            };
            self.add(thread, rest, &sampled);
        }
        for (thread, times) in self.times {
            for (event, time) in events.iter_mut().zip(times).filter(|(_, time)| *time > 0) {
                event.push((thread.clone(), time));
            }
        }
        events
    }

    fn comm(&mut self, record: &Comm<'_>) {
        let life = self.lives.entry(record.tid).or_default();
        life.pid = record.pid;
        if life.names.last().is_some_and(|last| last.as_bytes() == record.comm) {
            return;
        }
        life.names.retain(|name| name.as_bytes() != PRE_EXEC_COMM);
        life.names.truncate(MAX_NAMES - 1);
        life.names.push(Name::new(record.comm));
    }

    fn fork(&mut self, task: &Task) {
        // A number that comes back is another task's.
        self.close(task.tid);
        let parent = self.lives.get(&task.parent_tid);
        let names = parent.and_then(|parent| parent.names.last().cloned()).into_iter().collect();
        let root = parent.and_then(|parent| parent.root).unwrap_or(task.parent_tid);
        self.lives
            .insert(task.tid, TaskLife { pid: task.pid, names, root: Some(root), ..TaskLife::default() });
    }

    fn exit(&mut self, tid: Tid) {
        let Some(life) = self.lives.get_mut(&tid) else { return };
        if !std::mem::replace(&mut life.is_queued, true) {
            self.ended.push_back(tid);
        }
        if self.ended.len() > tracker::MAX_ENDED
            && let Some(oldest) = self.ended.pop_front()
            && self.lives.get(&oldest).is_some_and(|life| life.is_queued)
        {
            self.close(oldest);
        }
    }

    /// Adds up what is known of a task.
    fn close(&mut self, tid: Tid) {
        let Some(life) = self.lives.remove(&tid) else { return };
        let is_admitted = self.admits(&life, tid);
        let thread = is_admitted.then(|| self.who(&life, tid));
        match (life.told, thread) {
            (Some(told), Some(thread)) => self.add(thread, told, &life.sampled),
            (Some(_), None) => {}
            (None, thread) => {
                let root = life.root.unwrap_or(tid);
                let followed = self.followed.entry(root).or_default();
                for (place, sampled) in life.sampled.into_iter().enumerate() {
                    add(&mut followed.sampled, place, sampled);
                }
                if root == tid {
                    followed.root = thread;
                }
            }
        }
    }

    /// Adds what of `time` has no samples of each event.
    fn add(&mut self, thread: TimeOwner, time: u64, sampled: &[u64]) {
        let times = self.times.entry(thread).or_default();
        for place in 0..self.events {
            let sampled = sampled.get(place).copied().unwrap_or(0);
            add(times, place, time.saturating_sub(sampled));
        }
    }

    fn admits(&self, life: &TaskLife, tid: Tid) -> bool {
        let filter = &self.filter;
        let is_asked = |name: &Name| filter.comms.iter().any(|comm| comm == name.as_bytes());
        // Only samples tell the container and cgroup of a task, and this task has none.
        filter.containers.is_empty()
            && filter.cgroups.is_empty()
            && (filter.comms.is_empty() || life.names.iter().any(is_asked))
            && (filter.pids.is_empty() || filter.pids.contains(&life.pid))
            && (filter.tids.is_empty() || filter.tids.contains(&tid))
    }

    fn who(&self, life: &TaskLife, tid: Tid) -> TimeOwner {
        let comm = match life.names.as_slice() {
            [] => Name::from(format!(":{tid}").as_str()),
            [name] => name.clone(),
            names => Name::new(&names.iter().map(Name::as_bytes).collect::<Vec<_>>().join(" → ".as_bytes())),
        };
        let Detail { threads, pools, processes, .. } = self.detail;
        let is_numbered = comm.as_bytes().iter().any(u8::is_ascii_digit);
        let is_first = tid.0 == life.pid.0;
        let (pid, tid) = match () {
            () if threads => (life.pid, tid),
            // Threads of a pool (`worker-1`, `worker-2`) are summed per process. The first thread of a process is kept apart.
            () if processes || pools && is_numbered && !is_first => {
                (life.pid, if is_first { tid } else { NO_THREAD })
            }
            () => (Pid::NONE, NO_THREAD),
        };
        TimeOwner { comm, pid, tid }
    }
}

fn add(sums: &mut Vec<u64>, place: usize, amount: u64) {
    if sums.len() <= place {
        sums.resize(place + 1, 0);
    }
    sums[place] = sums[place].saturating_add(amount);
}

#[cfg(test)]
mod tests {
    use super::*;
    use decoder::values::{CounterValues, U64s};
    use decoder::{Endian, ReadFormat, SampleId};
    use model::Timestamp;

    const EVENT: EventIndex = EventIndex(0);

    fn comm(unsampled: &mut UnsampledTime, tid: i32, name: &[u8]) {
        let (pid, tid) = (Pid(tid), Tid(tid));
        let sample_id = SampleId::default();
        unsampled.record(&Record::Comm(Comm { pid, tid, comm: name, exec: false, sample_id }));
    }

    fn task(tid: i32, parent: i32) -> Task {
        Task {
            pid: Pid(tid),
            parent_pid: Pid(parent),
            tid: Tid(tid),
            parent_tid: Tid(parent),
            time: Timestamp(1),
            sample_id: SampleId::default(),
        }
    }

    fn read(unsampled: &mut UnsampledTime, tid: i32, value: u64, time: u64) {
        let values =
            CounterValues::new(ReadFormat::empty(), (0, 0), Some(value), U64s::new(&[], Endian::NATIVE));
        let sample_id = SampleId { time: Some(Timestamp(time)), ..SampleId::default() };
        unsampled.read(&Read { pid: Pid(tid), tid: Tid(tid), values, sample_id });
    }

    fn times(unsampled: UnsampledTime) -> Vec<(String, u64)> {
        let times = unsampled.finish().swap_remove(0);
        let mut times: Vec<_> =
            times.into_iter().map(|(thread, time)| (thread.comm.to_string(), time)).collect();
        times.sort();
        times
    }

    fn all() -> UnsampledTime {
        UnsampledTime::new(SampleFilter::default(), Detail::default())
    }

    /// A shell that starts two programs and one background job of its own name, which goes on.
    fn shell(filter: SampleFilter) -> UnsampledTime {
        let mut unsampled = UnsampledTime::new(filter, Detail::default());
        comm(&mut unsampled, 1, PRE_EXEC_COMM);
        comm(&mut unsampled, 1, b"bash");
        for (tid, name) in [(10, b"date"), (11, b"true")] {
            unsampled.record(&Record::Fork(task(tid, 1)));
            comm(&mut unsampled, tid, name);
            unsampled.record(&Record::Exit(task(tid, 1)));
            read(&mut unsampled, tid, 900, 2);
        }
        unsampled.record(&Record::Fork(task(12, 1)));
        unsampled.sampled(EVENT, Pid(12), Tid(12), 5_000);
        unsampled.sampled(EVENT, Pid(1), Tid(1), 1_000);
        unsampled
    }

    #[test]
    fn time_without_samples_is_its_tasks() {
        let mut unsampled = shell(SampleFilter::default());
        // The clock of the shell includes its background job.
        read(&mut unsampled, 1, 6_300, 0);
        let expected = [("bash", 300), ("bash → date", 900), ("bash → true", 900)];
        let expected = expected.map(|(name, time)| (name.to_owned(), time));
        assert_eq!(times(unsampled), expected);
    }

    #[test]
    fn filters_hold_for_all_names_of_a_task() {
        let by = |filter: SampleFilter| times(shell(filter)).len();
        assert_eq!(by(SampleFilter { comms: vec![b"date".to_vec()], ..SampleFilter::default() }), 1);
        assert_eq!(by(SampleFilter { comms: vec![b"bash".to_vec()], ..SampleFilter::default() }), 2);
        assert_eq!(by(SampleFilter { pids: vec![Pid(11)], ..SampleFilter::default() }), 1);
        assert_eq!(by(SampleFilter { cpus: vec![0..=0], ..SampleFilter::default() }), 0);
    }

    #[test]
    fn a_number_that_comes_back_is_another_task() {
        let mut unsampled = all();
        comm(&mut unsampled, 1, b"make");
        for name in [b"cc", b"ld"] {
            unsampled.record(&Record::Fork(task(7, 1)));
            comm(&mut unsampled, 7, name);
            unsampled.sampled(EVENT, Pid(7), Tid(7), 100);
            unsampled.record(&Record::Exit(task(7, 1)));
            // One for each CPU.
            read(&mut unsampled, 7, 90, 2);
            read(&mut unsampled, 7, 40, 2);
        }
        let expected = [("make → cc".to_owned(), 30), ("make → ld".to_owned(), 30)];
        assert_eq!(times(unsampled), expected);
    }

    #[test]
    fn tasks_by_the_thousand_leave_little() {
        let mut unsampled = all();
        for tid in 2..50_000 {
            unsampled.record(&Record::Fork(task(tid, 1)));
            unsampled.record(&Record::Exit(task(tid, 1)));
            read(&mut unsampled, tid, 1, 2);
        }
        assert!(unsampled.lives.len() <= tracker::MAX_ENDED + 1, "{}", unsampled.lives.len());
    }
}
