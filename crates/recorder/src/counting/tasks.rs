//! Counts of single tasks: inherited counters report what they have counted when their task ends (`inherit_stat`,
//! `PERF_RECORD_READ`).
//!
//! An inherited event on any CPU cannot have a ring (checklist M18), but it can write into one of another event of the same
//! thread. Reports are written without a lock by the CPU on which the task ends: those that are damaged by others are left out,
//! and what they would have told is in the count of the thread that was opened.

use std::collections::HashMap;

use decoder::{Attr, AttrFlags, Endian, RawRecord, Record, RecordLayout};
use host::procfs;
use host::sys::perf_event::{PerfEvent, Subject};
use host::sys::ring::RingMapping;
use host::sys::system::page_size;
use model::{Name, Pid, Tid};
use rustc_hash::FxBuildHasher;

use super::open::Instance;
use super::{Count, CountedEvent, CountedTask, Reading};
use crate::open::{Kernel, Opener};
use crate::records::each;
use crate::ring::drain_whole;

/// Bytes of a thread's ring at most: three thousand reports.
const RING: usize = 256 << 10;

/// The counts that tasks report at their ends.
#[derive(Default)]
pub(super) struct TaskReports {
    rings: Vec<Ring>,
    layout: Option<RecordLayout>,
    /// The event, and the thread that was opened, of each id.
    ids: HashMap<u64, (usize, Tid), FxBuildHasher>,
    names: HashMap<Tid, Name, FxBuildHasher>,
    /// In the order of their ends.
    ended: Vec<Count>,
    /// What tasks have reported, by the event and the thread that was opened.
    told: HashMap<(usize, Tid), Reading, FxBuildHasher>,
    pub(super) lost: u64,
    /// True if some thread got no ring: what it starts is counted with it.
    pub(super) is_incomplete: bool,
}

struct Ring {
    mapping: RingMapping,
    /// Open as long as its ring.
    _owner: PerfEvent,
}

impl TaskReports {
    /// Gives the counters of a thread a ring for the reports of what it starts.
    pub(super) fn listen(&mut self, tid: Tid, opened: &[Instance], events: &[CountedEvent]) {
        let attr = events.iter().find(|event| event.absent.is_none()).map(|event| &event.attr);
        let Some(attr) = attr else { return };
        self.layout.get_or_insert_with(|| RecordLayout::new(attr, Endian::NATIVE));
        self.names.insert(tid, task(tid).name);
        match ring(tid, attr, opened) {
            Some(ring) => {
                self.ids.extend(opened.iter().map(|instance| (instance.id, (instance.event, tid))));
                self.rings.push(ring);
            }
            None => self.is_incomplete = true,
        }
    }

    /// Takes what was reported since the last time.
    pub(super) fn take(&mut self) {
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
                let told = self.told.entry((event, opened)).or_default();
                *told = told.plus(&reading);
                let name = self.names.get(&read.tid).cloned().unwrap_or_else(|| Name::from(""));
                let task = Some(CountedTask { pid: read.pid, tid: read.tid, name });
                self.ended.push(Count { event, cpu: None, task, reading, unreadable: false });
            }
            _ => {}
        }
    }

    /// The counts of all tasks: `counts` are those of the threads that were opened, with all that they started.
    pub(super) fn apart(&self, mut counts: Vec<Count>) -> Vec<Count> {
        for count in &mut counts {
            let Some(task) = &mut count.task else { continue };
            if let Some(name) = self.names.get(&task.tid) {
                task.name = name.clone();
            }
            if let Some(told) = self.told.get(&(count.event, task.tid)) {
                count.reading = count.reading.since(told);
            }
        }
        counts.extend(self.ended.iter().cloned());
        counts.sort_by_key(|count| count.event);
        counts
    }
}

/// A ring that the counters of a thread write into, as large as the limit of locked memory allows.
fn ring(tid: Tid, attr: &Attr, opened: &[Instance]) -> Option<Ring> {
    let mut attr = crate::attr::ring_owner(attr);
    attr.flags.remove(AttrFlags::INHERIT | AttrFlags::INHERIT_STAT | AttrFlags::ENABLE_ON_EXEC);
    let owner = Kernel.open(&attr, Subject::Thread(tid, None), None).ok()?;
    let mut size = RING;
    let mapping = loop {
        match owner.map_ring(size) {
            Ok(mapping) => break mapping,
            Err(_) if size > page_size() => size /= 2,
            Err(_) => return None,
        }
    };
    opened.iter().try_for_each(|instance| instance.counter.redirect_to(&owner)).ok()?;
    Some(Ring { mapping, _owner: owner })
}

/// A thread that runs, with its name.
pub(super) fn task(tid: Tid) -> CountedTask {
    let pid = procfs::status(tid).map_or(Pid(tid.0), |status| status.process);
    let name = procfs::comm(pid, tid).unwrap_or_default();
    CountedTask { pid, tid, name: Name::from(name.as_slice()) }
}
