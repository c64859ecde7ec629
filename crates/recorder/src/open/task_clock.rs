//! Counts the CPU time of each task, whether or not it was sampled: by a `task-clock` whose inherited copies report their counts in
//! READ records when their tasks end (`inherit_stat`). It needs no rights beyond those of sampling.
//!
//! The records have a ring of their own, and there is one for each task rather than one per task and CPU. A READ is written
//! by the CPU that the task ends on, into the ring of the CPU that the event is bound to, without a lock (`sync_child_event()`
//! in kernel/events/core.c, `perf_output_begin()` in kernel/events/ring_buffer.c): in the sideband rings of two CPUs, tasks
//! that ended at the rate of 8,000 a second damaged the records of others in two runs of three. In a ring of their own they
//! can only damage each other, which is rare, and the count of the thread that was opened includes those that are missing.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use decoder::{Attr, AttrFlags, Endian, RawRecord, Record, RecordLayout};
use host::procfs;
use host::sys::perf_event::{PerfEvent, Subject};
use host::sys::system::page_size;
use model::{Pid, Tid};
use rustc_hash::FxBuildHasher;

use super::open_event;
use crate::consumer::{RingKind, TaskTime};
use crate::records::retain;
use crate::ring::RingSource;

/// Size of all rings together: room for 900 tasks that end between two rounds.
const TOTAL_RING_BYTES: usize = 64 << 10;
/// Maximum number of threads whose clocks are opened: each needs a ring of at least a page.
const MAX_THREADS: usize = 16;

/// The clocks of the threads that were opened.
pub(crate) struct TaskClocks {
    pub(crate) attr: Attr,
    clocks: Vec<TaskClock>,
    rings: Vec<RingSource>,
}

/// A thread that was opened, and all that it starts.
struct TaskClock {
    pid: Pid,
    tid: Tid,
    event: PerfEvent,
    id: u64,
}

/// The times that READ records have reported so far.
pub(crate) struct TaskReports {
    layout: RecordLayout,
    /// The sum of the reports of each clock, by its id, in nanoseconds.
    reported_ns: HashMap<u64, u64, FxBuildHasher>,
}

impl TaskClocks {
    /// Opens the clocks of `threads`, with rings for their reports. `None` where that fails: only the times are missing then.
    /// `is_command` is true if the only thread is the child that becomes the command.
    ///
    /// Must be called before other events are opened on these threads. When a task and one that it started follow each other on a CPU,
    /// the kernel exchanges the counts of their clocks. It pairs the events of both in the order in which they were opened
    /// (`perf_event_sync_stat()` in kernel/events/core.c), and opens those of the started task by their CPUs, beginning with events of
    /// any CPU. A clock that was opened later exchanged its count with a sampling event: beside other load, `node` had up to twice
    /// its CPU time.
    pub(super) fn open(attr: Attr, threads: &[Tid], is_command: bool) -> Option<Self> {
        if threads.is_empty() || threads.len() > MAX_THREADS {
            return None;
        }
        let mut opened = Self { attr, clocks: Vec::new(), rings: Vec::new() };
        let share = (TOTAL_RING_BYTES / threads.len()).max(page_size());
        let ring_size = 1_usize << share.ilog2();
        for &tid in threads {
            // A thread that has ended since it was listed needs no clock.
            let Ok(status) = procfs::status(tid) else { continue };
            opened.add(status.process, tid, ring_size, is_command).ok()?;
        }
        (!opened.clocks.is_empty()).then_some(opened)
    }

    fn add(&mut self, pid: Pid, tid: Tid, ring_size: usize, is_command: bool) -> io::Result<()> {
        let subject = Subject::Thread(tid, None);
        let event = open_event(&self.attr, subject, None)?;
        // An inherited event on any CPU cannot have a ring (checklist M18), but can write into one.
        let mut attr = crate::attr::ring_owner(&self.attr);
        attr.flags.remove(AttrFlags::INHERIT | AttrFlags::INHERIT_STAT | AttrFlags::ENABLE_ON_EXEC);
        // A parent and its child swap their events at a switch between them only if all were inherited (`inherited_all` in
        // kernel/events/core.c). With the owner of this ring, which is not, all are removed from the CPU and added again,
        // 8 µs each time. So the event is removed when the command begins; its ring stays.
        let removed_on_exec = Attr { flags: attr.flags | AttrFlags::REMOVE_ON_EXEC, ..attr.clone() };
        let owner = if is_command { open_event(&removed_on_exec, subject, None).ok() } else { None };
        let owner = owner.map_or_else(|| open_event(&attr, subject, None), Ok).map(Arc::new)?;
        let mapping = owner.map_ring(ring_size)?;
        event.redirect_to(&owner)?;
        self.rings.push(RingSource::new(RingKind::TaskTimes, mapping, vec![owner]));
        let id = event.id()?;
        self.clocks.push(TaskClock { pid, tid, event, id });
        Ok(())
    }

    /// Returns the ids of the clocks.
    pub(super) fn ids(&self) -> Vec<u64> {
        self.clocks.iter().map(|clock| clock.id).collect()
    }

    /// Takes the rings, for a reader.
    pub(crate) fn take_rings(&mut self) -> Vec<RingSource> {
        std::mem::take(&mut self.rings)
    }

    /// Enables the clocks that the command's exec does not enable.
    pub(super) fn enable(&self) -> io::Result<()> {
        self.clocks.iter().try_for_each(|clock| clock.event.enable())
    }

    /// Disables the clocks. Errors are ignored: they are of threads that have ended.
    pub(super) fn disable(&self) {
        self.clocks.iter().for_each(|clock| drop(clock.event.disable()));
    }

    /// Returns an empty sum of reports, for the READ records of these clocks.
    pub(crate) fn reports(&self) -> TaskReports {
        let layout = RecordLayout::new(&self.attr, Endian::NATIVE);
        TaskReports { layout, reported_ns: self.clocks.iter().map(|clock| (clock.id, 0)).collect() }
    }

    /// Returns the times that no READ has reported: the times of the threads that were opened, with those of what
    /// they started and still runs.
    pub(crate) fn unreported(&self, reports: &TaskReports) -> Vec<TaskTime> {
        let rest = self.clocks.iter().filter_map(|clock| {
            let reported_ns = reports.reported_ns.get(&clock.id).copied().unwrap_or(0);
            let nanoseconds = read_count(&clock.event)?.saturating_sub(reported_ns);
            Some(TaskTime { pid: clock.pid, tid: clock.tid, id: clock.id, nanoseconds })
        });
        rest.collect()
    }
}

impl TaskReports {
    /// Returns the sum of all times that were reported, in nanoseconds.
    pub(crate) fn total_ns(&self) -> u64 {
        self.reported_ns.values().fold(0, |sum, time| sum.saturating_add(*time))
    }

    /// Removes all but undamaged READ records of the clocks from `records`, and adds up their times.
    pub(crate) fn check(&mut self, records: &mut Vec<u8>) {
        retain(records, |record| self.add(record).is_some());
    }

    fn add(&mut self, record: &[u8]) -> Option<()> {
        let (raw, _) = RawRecord::parse(record, Endian::NATIVE).ok()?;
        let Ok(Record::Read(read)) = self.layout.decode(&raw) else { return None };
        let counter = read.values.iter().next()?;
        let is_whole = read.sample_id.identifier == counter.id && read.pid.0 > 0 && read.tid.0 > 0;
        let reported_ns = self.reported_ns.get_mut(&counter.id?).filter(|_| is_whole)?;
        *reported_ns = reported_ns.saturating_add(counter.value);
        Some(())
    }
}

/// Reads the count of an event that is not read with a group; `None` where it cannot be read, or is pinned and has no counter.
pub(super) fn read_count(event: &PerfEvent) -> Option<u64> {
    // In each format of a single event, the count is the first of at most five words.
    let mut words = [0; 5];
    let read = event.read(&mut words).ok()?;
    (read > 0).then_some(words[0])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::{Options, Target};
    use decoder::ReadFormat;

    fn attr() -> Attr {
        crate::attr::task_clock(&[], &Options::new(Target::Command))
    }

    fn clocks() -> Option<TaskClocks> {
        let own = std::fs::read_link("/proc/thread-self").unwrap();
        let own = Tid(own.file_name().unwrap().to_str().unwrap().parse().unwrap());
        let mut attr = attr();
        attr.flags.remove(AttrFlags::ENABLE_ON_EXEC);
        attr.flags.insert(AttrFlags::EXCLUDE_KERNEL | AttrFlags::EXCLUDE_HV);
        let opened = TaskClocks::open(attr, &[own], false);
        if opened.is_none() {
            eprintln!("skipped: perf_event_open is not permitted here");
        }
        opened
    }

    fn read(id: u64, tid: u32, value: u64) -> Vec<u8> {
        let words = [u64::from(tid) << 32 | u64::from(tid), value, id, u64::from(tid) << 32, 1, 0, id];
        let mut record = Vec::new();
        record.extend(decoder::kind::READ.to_ne_bytes());
        record.extend([0, 0]);
        record.extend((8 + 8 * words.len() as u16).to_ne_bytes());
        words.iter().for_each(|word| record.extend(word.to_ne_bytes()));
        record
    }

    #[test]
    fn damaged_records_are_left_out() {
        assert_eq!(attr().read_format, ReadFormat::ID);
        let Some(clocks) = clocks() else { return };
        let id = clocks.clocks[0].id;
        let mut reports = clocks.reports();
        let whole = read(id, 7, 40);
        let mut other = whole.clone();
        other[..4].copy_from_slice(&decoder::kind::COMM.to_ne_bytes());
        let mut records =
            [whole.clone(), read(id + 1, 7, 50), other, read(id, 0, 60), whole.clone()].concat();
        records.extend([0; 24]);
        reports.check(&mut records);
        assert_eq!(records, [whole.clone(), whole].concat());
        assert_eq!(reports.reported_ns.get(&id), Some(&80));
    }

    #[test]
    fn what_no_read_told_is_known_from_the_whole() {
        let Some(mut clocks) = clocks() else { return };
        let id = clocks.clocks[0].id;
        let mut reports = clocks.reports();
        clocks.enable().unwrap();
        for step in 0..100_000 {
            std::hint::black_box(step);
        }
        clocks.disable();
        let rest = |reports: &TaskReports| -> u64 {
            clocks.unreported(reports).iter().map(|time| time.nanoseconds).sum()
        };
        let total = rest(&reports);
        assert!(total > 0);
        reports.check(&mut read(id, 7, 1));
        assert_eq!(total.saturating_sub(1), rest(&reports));
        reports.check(&mut read(id, 7, u64::MAX));
        assert_eq!(0, rest(&reports), "a damaged time is no more than all");
        assert_eq!((clocks.take_rings().len(), clocks.take_rings().len()), (1, 0));
    }
}
