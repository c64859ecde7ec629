//! Counts of single tasks: inherited counters report their counts in READ records when their task ends (`inherit_stat`).
//!
//! An inherited event on any CPU cannot have a ring (checklist M18), but it can write into the ring of another event of the same
//! thread. The CPU on which a task ends writes its report without a lock: reports that others damaged are left out, and their
//! counts stay in that of the thread that was opened.

use std::collections::HashMap;
use std::io;

use decoder::{AttrFlags, Endian, RawRecord, Record, RecordLayout};
use host::procfs;
use host::sys::perf_event::{PerfEvent, Subject};
use host::sys::ring::RingMapping;
use model::{Name, Pid, Tid};
use rustc_hash::FxBuildHasher;

use super::missing_ring::{MissingRing, RingStep};
use super::{Count, CountedEvent, CountedTask, Instance, Reading};
use crate::open::{map_fitting, open_event};
use crate::records::each;
use crate::ring::drain_whole;

/// Maximum size of a thread's ring: room for three thousand reports.
const MAX_RING_BYTES: u64 = 256 << 10;

/// The counts that tasks have reported at their ends.
#[derive(Default)]
pub(super) struct TaskReports {
    rings: Vec<Ring>,
    layout: Option<RecordLayout>,
    /// Of each event id, the index of the event and the thread that was opened.
    ids: HashMap<u64, (usize, Tid), FxBuildHasher>,
    names: HashMap<Tid, Name, FxBuildHasher>,
    /// The counts of ended tasks, in the order of their ends.
    ended: Vec<Count>,
    /// The sums of these counts, by the event and the thread that was opened.
    reported: HashMap<(usize, Tid), Reading, FxBuildHasher>,
    pub(super) lost: u64,
    /// The reason why the first thread without a ring has none. The tasks that such a thread starts are counted with it.
    pub(super) refused: Option<MissingRing>,
}

struct Ring {
    mapping: RingMapping,
    /// The event of the ring, which has to stay open.
    _owner: PerfEvent,
}

impl TaskReports {
    /// Maps a ring for a thread with the counters `opened`, for the reports of the tasks that it starts.
    pub(super) fn add_thread(&mut self, tid: Tid, opened: &[Instance], events: &[CountedEvent]) {
        let attr = events.iter().find(|event| event.absent.is_none()).map(|event| &event.attr);
        let Some(attr) = attr else { return };
        self.layout.get_or_insert_with(|| RecordLayout::new(attr, Endian::NATIVE));
        self.names.insert(tid, task(tid).name);
        let mut owner = crate::attr::ring_owner(attr);
        owner.flags.remove(AttrFlags::INHERIT | AttrFlags::INHERIT_STAT | AttrFlags::ENABLE_ON_EXEC);
        match ring(open_event(&owner, Subject::Thread(tid, None), None), opened) {
            Ok(ring) => {
                self.ids.extend(opened.iter().map(|instance| (instance.id, (instance.event, tid))));
                self.rings.push(ring);
            }
            Err(refused) => {
                self.refused.get_or_insert(refused);
            }
        }
    }

    /// Empties the rings, and adds their reports.
    pub(super) fn drain(&mut self) {
        let mut bytes = Vec::new();
        for ring in &mut self.rings {
            self.lost = self.lost.saturating_add(drain_whole(&mut ring.mapping, &mut bytes).lost);
        }
        for record in each(&bytes) {
            self.add(record);
        }
    }

    fn add(&mut self, record: &[u8]) {
        let Some(layout) = &self.layout else { return };
        let Ok((raw, _)) = RawRecord::parse(record, Endian::NATIVE) else { return };
        match layout.decode(&raw) {
            Ok(Record::Comm(comm)) => {
                self.names.insert(comm.tid, Name::from(comm.comm));
            }
            Ok(Record::Fork(fork)) => {
                if let Some(name) = self.names.get(&fork.parent_tid).cloned() {
                    self.names.insert(fork.tid, name);
                }
            }
            Ok(Record::Read(read)) => {
                let Some(counter) = read.values.iter().next() else { return };
                let origin = counter.id.and_then(|id| self.ids.get(&id).copied());
                let is_whole = read.sample_id.identifier == counter.id && read.pid.0 > 0 && read.tid.0 > 0;
                let Some((event, opened)) = origin.filter(|_| is_whole) else { return };
                let reading = Reading {
                    value: counter.value,
                    enabled_ns: read.values.time_enabled.unwrap_or(0),
                    running_ns: read.values.time_running.unwrap_or(0),
                };
                let reported = self.reported.entry((event, opened)).or_default();
                *reported = reported.plus(&reading);
                let name = self.names.get(&read.tid).cloned().unwrap_or_else(|| Name::from(""));
                let task = Some(CountedTask { pid: read.pid, tid: read.tid, name });
                self.ended.push(Count { event, cpu: None, task, reading, unreadable: false });
            }
            _ => {}
        }
    }

    /// Separates `counts`, each of a thread that was opened with all tasks that it started, into the counts of single tasks.
    pub(super) fn separate_tasks(&self, mut counts: Vec<Count>) -> Vec<Count> {
        for count in &mut counts {
            let Some(task) = &mut count.task else { continue };
            if let Some(name) = self.names.get(&task.tid) {
                task.name = name.clone();
            }
            if let Some(reported) = self.reported.get(&(count.event, task.tid)) {
                count.reading = count.reading.since(reported);
            }
        }
        counts.extend(self.ended.iter().cloned());
        counts.sort_by_key(|count| count.event);
        counts
    }
}

/// Maps the ring of `owner` that the counters of a thread write into, as large as the limit of locked memory allows.
fn ring(owner: io::Result<PerfEvent>, opened: &[Instance]) -> Result<Ring, MissingRing> {
    let owner = owner.map_err(|errno| MissingRing::new(RingStep::Open, &errno))?;
    let mapping =
        map_fitting(MAX_RING_BYTES, |size| owner.map_ring(usize::try_from(size).unwrap_or(usize::MAX)))
            .map_err(|refused| MissingRing::new(RingStep::Map, &refused.errno))?
            .mapped;
    opened
        .iter()
        .try_for_each(|instance| instance.counter.redirect_to(&owner))
        .map_err(|errno| MissingRing::new(RingStep::Redirect, &errno))?;
    Ok(Ring { mapping, _owner: owner })
}

/// Returns a running thread with its process and name.
pub(super) fn task(tid: Tid) -> CountedTask {
    let pid = procfs::status(tid).map_or(Pid(tid.0), |status| status.process);
    let name = procfs::comm(pid, tid).unwrap_or_default();
    CountedTask { pid, tid, name: Name::from(name.as_slice()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{EBUSY, EINVAL, EMFILE, ENFILE, ENOMEM, EPERM, ESRCH};

    #[test]
    fn each_cause_of_a_missing_ring_has_its_own_sentence() {
        let refused_open = |code| {
            let Err(missing) = ring(Err(io::Error::from_raw_os_error(code)), &[]) else {
                panic!("the kernel refuses")
            };
            missing.to_string()
        };
        let refused = |step, code| MissingRing::new(step, &io::Error::from_raw_os_error(code)).to_string();
        let sentences = [
            refused_open(EMFILE),
            refused_open(ENFILE),
            refused_open(ENOMEM),
            refused_open(EPERM),
            refused_open(ESRCH),
            refused_open(EBUSY),
            refused(RingStep::Map, EPERM),
            refused(RingStep::Map, EINVAL),
            refused(RingStep::Redirect, EINVAL),
        ];
        for (index, sentence) in sentences.iter().enumerate() {
            assert!(!sentences[..index].contains(sentence), "twice: {sentence}");
            assert_eq!(sentence.contains("locked memory"), index == 6, "{sentence}");
        }
        assert!(sentences[0].contains("try: sudo prlimit --pid $$ --nofile="), "{}", sentences[0]);
        assert!(sentences[3].ends_with("Operation not permitted (EPERM)"), "{}", sentences[3]);
    }
}
