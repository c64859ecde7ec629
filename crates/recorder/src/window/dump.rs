//! Writing what is kept into a file, on a thread of its own, while the recording goes on.

use std::fs::File;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded, unbounded};
use host::files::{FileSeries, NewFile};
use host::sys::schedule::PriorityGuard;
use host::sys::signals::InterruptibleGuard;
use perfdata::sections;

use super::blocks::Block;
use super::state::SidebandState;
use crate::consumer::{Dump, DumpFailure, DumpReport};
use crate::error::{Errno, Error};
use crate::output::{BuildIds, Description, FILE_MODE};
use crate::unwind::StackTotals;

/// The end is waited for so long before a signal may end us.
const PATIENCE: Duration = Duration::from_secs(1);
/// A file is to be there a second after it was asked for. One that takes longer to complete gets its name before it is complete.
const COMPLETED_WITHIN: Duration = Duration::from_millis(750);
/// For so much longer it may be completed: the next file waits for that.
const COMPLETED_LATE: Duration = Duration::from_secs(4);
/// The same for the last file, for which nothing else has to wait.
pub(super) const LAST_COMPLETED_WITHIN: Duration = Duration::from_secs(30);

/// Adds to the files of a series what cannot be found any more when they are read.
pub trait FileCompletion: Send {
    /// Appends to `file`, which is a whole recording and stays one, at once, and returns the number of bytes. Calls `when_late` if
    /// it has not done so at the first time, and gives up at the second one.
    ///
    /// # Errors
    /// In words, why what it adds is not in the file, which is as it was then.
    fn complete(
        &mut self,
        file: &File,
        times: (Instant, Instant),
        when_late: &mut dyn FnMut(),
    ) -> Result<u64, String>;
}

/// Adds nothing to any file.
pub(super) struct NothingToAdd;

impl FileCompletion for NothingToAdd {
    fn complete(&mut self, _: &File, _: (Instant, Instant), _: &mut dyn FnMut()) -> Result<u64, String> {
        Ok(0)
    }
}

/// All that a file says, as it was at one moment. What is large is shared with the recording.
pub(super) struct Snapshot {
    pub(super) tickets: Vec<u64>,
    /// `20261122T230113`
    pub(super) stamp: String,
    pub(super) state: SidebandState,
    pub(super) blocks: Vec<Arc<Block>>,
    pub(super) stacks: Option<StackTotals>,
    pub(super) processes: Vec<(u32, Vec<u8>)>,
    pub(super) is_short: bool,
    pub(super) asked: Instant,
    /// True for the file at the end of the recording.
    pub(super) is_last: bool,
}

/// The thread that writes snapshots, one after the other.
pub(super) struct DumpThread {
    snapshots: Sender<Box<Snapshot>>,
    reports: Receiver<DumpReport>,
    /// One is being written.
    busy: bool,
}

impl DumpThread {
    /// Starts it, for files of `series`.
    pub(super) fn start(
        series: FileSeries,
        description: Description,
        completion: Box<dyn FileCompletion>,
    ) -> Result<Self, Error> {
        let (snapshots, its_snapshots) = bounded(1);
        let (its_reports, reports) = unbounded();
        // It ends with the channel, and is not waited for: what it writes to may never take anything again.
        std::thread::Builder::new()
            .name("dumps".to_owned())
            .spawn(move || work(series, &description, completion, &its_snapshots, &its_reports))
            .map_err(|errno| Error::System { what: "cannot start a thread", errno })?;
        Ok(Self { snapshots, reports, busy: false })
    }

    /// Returns true if a file is being written, so that no snapshot is taken.
    pub(super) fn is_busy(&self) -> bool {
        self.busy
    }

    /// Lets it write; not while it is busy.
    pub(super) fn write(&mut self, snapshot: Snapshot) {
        self.busy = self.snapshots.try_send(Box::new(snapshot)).is_ok();
    }

    /// Takes the report about a file, if one is finished.
    pub(super) fn report(&mut self) -> Option<DumpReport> {
        let report = self.reports.try_recv().ok()?;
        self.busy = false;
        Some(report)
    }

    /// Waits for the file that is being written.
    pub(super) fn wait(&mut self) -> Option<DumpReport> {
        if !self.busy {
            return None;
        }
        self.busy = false;
        match self.reports.recv_timeout(PATIENCE) {
            Ok(report) => Some(report),
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => {
                // What it takes now is up to the disk. Who does not want to wait does without this file.
                let _endable = InterruptibleGuard::acquire();
                self.reports.recv().ok()
            }
        }
    }
}

fn work(
    mut series: FileSeries,
    description: &Description,
    mut completion: Box<dyn FileCompletion>,
    snapshots: &Receiver<Box<Snapshot>>,
    reports: &Sender<DumpReport>,
) {
    for mut snapshot in snapshots {
        // It takes a fraction of a second of CPU time, and a busy machine is when files are asked for.
        let urgent = PriorityGuard::acquire();
        let outcome = snapshot.write(&mut series, description, &mut *completion).map_err(|error| {
            DumpFailure { path: series.path().to_owned(), kind: error.kind(), why: Errno(&error).to_string() }
        });
        let tickets = snapshot.tickets.clone();
        // What it shares with the recording goes first: the bound of memory holds again when the next may come.
        drop(snapshot);
        drop(urgent);
        if reports.send(DumpReport { tickets, outcome }).is_err() {
            return;
        }
    }
}

impl Snapshot {
    fn write(
        &mut self,
        series: &mut FileSeries,
        description: &Description,
        completion: &mut dyn FileCompletion,
    ) -> io::Result<Dump> {
        let mut output = description.create_file(series.create(FILE_MODE)?)?;
        let before = self.state.to_records();
        let writer = output.records();
        writer.append(&before)?;
        writer.finished_init()?;
        self.blocks.iter().try_for_each(|block| block.write_to(writer))?;

        let mut build_ids = BuildIds::default();
        if let Some(layout) = &description.layout {
            build_ids.add_all(&before, layout);
            let sideband = self.blocks.iter().flat_map(|block| block.sideband().flatten());
            sideband.for_each(|record| build_ids.add_all(record, layout));
        }
        let times = self.blocks.iter().filter_map(|block| block.sample_times());
        let times = times.reduce(|(first, last), (begin, end)| (first.min(begin), last.max(end)));
        let mut features = description.features(&build_ids, times);
        let stacks = self.stacks.map(|stacks| (sections::id::STACK_TOTALS, stacks.to_section()));
        features.sections.extend(stacks);
        features.sections.extend(self.processes.iter().cloned());
        let size = writer.finish(&features)?;
        let file: &mut NewFile = output.file().ok_or(io::ErrorKind::Unsupported)?;
        let now = Instant::now();
        let limits = match self.is_last {
            true => (now + LAST_COMPLETED_WITHIN, now + LAST_COMPLETED_WITHIN),
            false => {
                let soon = (self.asked + COMPLETED_WITHIN).max(now);
                (soon, soon + COMPLETED_LATE)
            }
        };
        let samples = self.blocks.iter().map(|block| block.samples()).sum();
        // What they share with the recording is written: its memory goes back within its bound.
        self.blocks.clear();
        let (opened, mut named) = (file.file().try_clone()?, None);
        let mut name = || named = Some(series.name(file, &self.stamp));
        let (added, incomplete) = completed(completion, &opened, limits, &mut name);
        let path = match named {
            Some(named) => named,
            None => series.name(file, &self.stamp),
        }?;
        let took = self.asked.elapsed();
        let not_removed = series.remove_oldest().err().map(|error| error.to_string());
        Ok(Dump {
            path,
            size: size + added,
            samples,
            span: times
                .map_or(Duration::ZERO, |(first, last)| Duration::from_nanos(last.saturating_sub(first))),
            took,
            is_short: self.is_short,
            not_removed,
            incomplete,
        })
    }
}

/// Completes a file; returns how many bytes that added, and why not more.
pub(super) fn completed(
    completion: &mut dyn FileCompletion,
    file: &File,
    times: (Instant, Instant),
    when_late: &mut dyn FnMut(),
) -> (u64, Option<String>) {
    match completion.complete(file, times, when_late) {
        Ok(added) => (added, None),
        Err(why) => (0, Some(why)),
    }
}
