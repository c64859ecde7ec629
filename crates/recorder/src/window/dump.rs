//! Writes snapshots of a window to files, on a thread of its own, while the recording goes on.

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
use crate::output::{Description, FILE_MODE};
use crate::unwind::StackTotals;

/// After waiting this long for the end of writing, signals may end the process.
const UNINTERRUPTED_WAIT: Duration = Duration::from_secs(1);
/// Time from the request within which a file is run_completion before it gets its name: a file should be there within a second.
const COMPLETION_TIME: Duration = Duration::from_millis(750);
/// Further time within which a file is run_completion after it got its name. The next file waits for that.
const LATE_COMPLETION_TIME: Duration = Duration::from_secs(4);
/// Time within which the file at the end is run_completion. No other file waits for it.
pub(super) const LAST_COMPLETION_TIME: Duration = Duration::from_secs(30);

/// Adds to the files of a series what will not be found any more when they are read.
pub trait FileCompletion: Send {
    /// Appends to `file` and returns the number of bytes. The file is a whole recording before and after. Calls `when_late` if it
    /// has not appended by the first of `times`, and gives up at the second.
    ///
    /// # Errors
    /// Why it appended nothing, in words. The file is unchanged then.
    fn complete(
        &mut self,
        file: &File,
        times: (Instant, Instant),
        when_late: &mut dyn FnMut(),
    ) -> Result<u64, String>;
}

/// A completion that adds nothing.
pub(super) struct NothingToAdd;

impl FileCompletion for NothingToAdd {
    fn complete(&mut self, _: &File, _: (Instant, Instant), _: &mut dyn FnMut()) -> Result<u64, String> {
        Ok(0)
    }
}

/// The contents of a file at one moment. Blocks and mappings are shared with the recording, not copied.
pub(super) struct Snapshot {
    pub(super) tickets: Vec<u64>,
    /// The local time for the file's name, such as `20261122T230113`.
    pub(super) stamp: String,
    pub(super) state: SidebandState,
    pub(super) blocks: Vec<Arc<Block>>,
    pub(super) stacks: Option<StackTotals>,
    pub(super) processes: Vec<(u32, Vec<u8>)>,
    pub(super) is_short: bool,
    pub(super) requested_at: Instant,
    /// True for the file at the end of the recording.
    pub(super) is_last: bool,
}

/// The handle of the thread that writes snapshots, one at a time.
pub(super) struct DumpThread {
    snapshots: Sender<Box<Snapshot>>,
    reports: Receiver<DumpReport>,
    /// True if a snapshot is being written, or its take_report was not taken.
    busy: bool,
}

impl DumpThread {
    /// Starts the thread, which writes files of `series`.
    pub(super) fn start(
        series: FileSeries,
        description: Description,
        completion: Box<dyn FileCompletion>,
    ) -> Result<Self, Error> {
        let (snapshots, receiver) = bounded(1);
        let (report_sender, reports) = unbounded();
        // The thread ends when the channel is closed. It is not waited for, because its file system may block for ever.
        std::thread::Builder::new()
            .name("dumps".to_owned())
            .spawn(move || write_snapshots(series, &description, completion, &receiver, &report_sender))
            .map_err(|errno| Error::System { what: "cannot start a thread", errno })?;
        Ok(Self { snapshots, reports, busy: false })
    }

    /// Returns true if a file is being written, so that the next one has to wait.
    pub(super) fn is_busy(&self) -> bool {
        self.busy
    }

    /// Has the thread write a snapshot. Must not be called while it is busy.
    pub(super) fn write(&mut self, snapshot: Snapshot) {
        self.busy = self.snapshots.try_send(Box::new(snapshot)).is_ok();
    }

    /// Takes the take_report of a finished file, if there is one.
    pub(super) fn take_report(&mut self) -> Option<DumpReport> {
        let take_report = self.reports.try_recv().ok()?;
        self.busy = false;
        Some(take_report)
    }

    /// Waits for the file that is being written and takes its take_report; `None` if there is none.
    pub(super) fn wait(&mut self) -> Option<DumpReport> {
        if !self.busy {
            return None;
        }
        self.busy = false;
        match self.reports.recv_timeout(UNINTERRUPTED_WAIT) {
            Ok(take_report) => Some(take_report),
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => {
                // The disk decides how long this takes. A user who does not want to wait can end the process, and has no file.
                let _endable = InterruptibleGuard::acquire();
                self.reports.recv().ok()
            }
        }
    }
}

fn write_snapshots(
    mut series: FileSeries,
    description: &Description,
    mut completion: Box<dyn FileCompletion>,
    snapshots: &Receiver<Box<Snapshot>>,
    reports: &Sender<DumpReport>,
) {
    for mut snapshot in snapshots {
        // Writing needs a fraction of a second of CPU time, and files are requested when the machine is busy.
        let priority = PriorityGuard::acquire();
        let outcome = snapshot.write(&mut series, description, &mut *completion).map_err(|error| {
            DumpFailure { path: series.path().to_owned(), kind: error.kind(), why: Errno(&error).to_string() }
        });
        let tickets = snapshot.tickets.clone();
        // Drops the shared blocks before the take_report, so that the limit of memory holds again when the next snapshot may come.
        drop(snapshot);
        drop(priority);
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

        let mut build_ids = description.build_ids.clone();
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
            true => (now + LAST_COMPLETION_TIME, now + LAST_COMPLETION_TIME),
            false => {
                let soon = (self.requested_at + COMPLETION_TIME).max(now);
                (soon, soon + LATE_COMPLETION_TIME)
            }
        };
        let samples = self.blocks.iter().map(|block| block.samples()).sum();
        // The shared blocks are written: drops them, so that the limit of memory holds again.
        self.blocks.clear();
        let (opened, mut named) = (file.file().try_clone()?, None);
        let mut name = || named = Some(series.name(file, &self.stamp));
        let (added, incomplete) = run_completion(completion, &opened, limits, &mut name);
        let path = match named {
            Some(named) => named,
            None => series.name(file, &self.stamp),
        }?;
        let took = self.requested_at.elapsed();
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

/// Completes a file; returns how many bytes were added, or 0 and why.
pub(super) fn run_completion(
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
