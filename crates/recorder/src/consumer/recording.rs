//! What a consumer is told of a recording besides its records: events and rings before the first record, changes in how switches are
//! recorded, totals at the end.

use std::ops::Add;
use std::sync::Arc;

use decoder::{Attr, RecordLayout};
use host::machine::KernelObjects;
use host::sys::spawn::ExitStatus;
use model::{CpuId, Pid, Tid};
use perfdata::sections::{Schedstat, SwitchSampling, WatchedTime};

use super::EventCoverage;
use crate::mapped_files::MappedFiles;
use crate::processes::ProcessResources;
use crate::unwind::StackTotals;

/// An event as it was opened.
#[derive(Clone, Debug)]
pub struct RecordedEvent {
    /// The name that the user gave it.
    pub name: String,
    /// The kernel's attr.
    pub attr: Attr,
    /// The kernel's ids of its instances (one per CPU or thread), which its records carry.
    pub ids: Vec<u64>,
    /// True for the sideband event, which takes no samples.
    pub sideband: bool,
    /// The index of its group's leader in [`Recording::events`]; `None` outside of groups.
    pub leader: Option<usize>,
    /// The system and the name, if it is a tracepoint.
    pub tracepoint: Option<(String, String)>,
}

/// The events, CPUs and sizes of a recording whose events are open.
#[derive(Clone, Debug)]
pub struct Recording {
    /// The events, in the order of the file; the sideband event is the last.
    pub events: Vec<RecordedEvent>,
    /// The CPUs with rings.
    pub cpus: Vec<CpuId>,
    /// Size of a ring for samples, in bytes.
    pub ring_size: u64,
    /// The code of the running kernel.
    pub kernel: Arc<KernelObjects>,
    /// The build ids, sizes and times of mapped files, which are read while it runs.
    pub files: MappedFiles,
    /// The services, programs and cgroups of processes, which are read while it runs.
    pub resources: ProcessResources,
}

impl Recording {
    /// Returns the layout of the records of the event at `index`.
    pub fn layout(&self, index: usize) -> Option<RecordLayout> {
        Some(RecordLayout::new(&self.events.get(index)?.attr, decoder::Endian::NATIVE))
    }
}

/// A change in how switches between threads are recorded. It precedes every record of what happens after it. Times are on the
/// clock of the recording, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SwitchUpdate {
    /// Switches are watched from now on. The end of the span is not known yet.
    Watched(WatchedTime),
    /// From this time on switches are not recorded, because there are too many.
    Paused(u64),
    /// From this time on switches are recorded again.
    Resumed(u64),
    /// The kernel's running and runnable time of a thread.
    SchedStat(Tid, Schedstat),
}

/// The totals that a consumer gets at the end of a recording.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Ending {
    /// Lost samples of each event, in the order of [`super::Recording::events`] (`PERF_FORMAT_LOST`); lost records, for the
    /// sideband event. `None` if the kernel does not count them (before 6.0): only LOST records tell of losses then.
    pub lost: Option<Vec<LostCount>>,
    /// If the kernel does not count lost samples: the number of rings that were full when they were drained for the last time.
    /// No LOST record tells what these lost since.
    pub full_rings: u64,
    /// The totals of unwound user stacks; `None` if no stacks were unwound.
    pub stacks: Option<StackTotals>,
    /// CPU times of tasks without a READ record: of threads that were attached to, or of the command.
    pub task_times: Vec<TaskTime>,
    /// The share of each event that its samples cover.
    pub coverage: EventCoverage,
    /// The exit status of the command; `None` if it still runs or there is none.
    pub exit: Option<ExitStatus>,
    /// The time for which switches were watched; `None` if they were not.
    pub watched: Option<WatchedTime>,
    /// The spans in which too many switches happened to record them; `None` if all were recorded.
    pub switches: Option<SwitchSampling>,
}

/// A count of samples that the kernel dropped.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct LostCount {
    /// The sum of the counts that could be read.
    pub samples: u64,
    /// The number of counts that could not be read; how many samples these stand for is unknown.
    pub unread: u64,
}

impl Add for LostCount {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        let (samples, unread) =
            (self.samples.saturating_add(other.samples), self.unread.saturating_add(other.unread));
        Self { samples, unread }
    }
}

/// The CPU time of a thread, and of those that it started and that still run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TaskTime {
    /// The process that the thread belongs to.
    pub pid: Pid,
    /// The thread whose time this is.
    pub tid: Tid,
    /// The kernel's id of the event that counted the time.
    pub id: u64,
    /// CPU time since the recording began, in nanoseconds.
    pub nanoseconds: u64,
}
