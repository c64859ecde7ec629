//! Files of a part of a recording: the window of the newest records, which is kept in memory and written to a file on request
//! (`--overwrite`), and series of files that follow each other (`--switch-output`).
//!
//! A window:
//!
//! ```text
//! records ─▶ blocks (the newest) ───────────────────────────▶ dump thread ─▶ OUT.20261122T230113
//!                │ the oldest                                  ▲
//!                └─▶ sideband state (threads, mappings, …) ────┘
//! ```

mod blocks;
mod dump;
mod mappings;
mod series;
mod state;

use std::io;
use std::time::{Duration, Instant};

use decoder::Endian;
use decoder::RawRecord;
use host::files::FileSeries;
use host::procfs;
use host::sys::clock;
use model::{Loss, Name, Timestamp};

use crate::consumer::{Chunk, Consumer, Dump, DumpReport, Ending, Recording, RecordingSink};
use crate::notice::Notice;
use crate::options::ExitCondition;
use crate::output::{Description, FILE_MODE};
use crate::processes::ProcessTable;
use crate::records::each;
use crate::unwind::StackTotals;

use blocks::Blocks;
use dump::{DumpThread, NothingToAdd, Snapshot};
use state::SidebandState;

pub use blocks::Window;
pub use dump::FileCompletion;
pub use series::{NextFileWhen, SeriesConsumer};

/// A consumer that keeps a window of the newest records, and writes it to a new file on each [`RecordingSink::request_dump`], at
/// intervals if wanted, and at the end.
pub struct WindowConsumer {
    window: Window,
    /// Taken when the recording begins.
    series: Option<FileSeries>,
    command_line: Vec<Name>,
    compression: Option<i32>,
    /// Moves to the dump thread when the recording begins.
    completion: Box<dyn FileCompletion>,
    running: Option<Running>,
    /// The tickets of requests for the next file.
    requested: Vec<u64>,
    is_requested: bool,
    reports: Vec<DumpReport>,
    notices: Vec<Notice>,
    /// The file that was written at the end.
    last: Option<Dump>,
    dumps: u64,
    undecodable: u64,
    /// The interval at which files are written without a request, and when the last one was.
    every: Option<Duration>,
    last_interval_dump: Instant,
    /// The exit status of the command on which the file at the end is written; `None` for any.
    exit: Option<ExitCondition>,
}

struct Running {
    description: Description,
    state: SidebandState,
    blocks: Blocks,
    processes: ProcessTable,
    /// The number of processes in the table when the dead were last removed from it.
    processes_before: usize,
    has_stacks: bool,
    dumps: DumpThread,
}

/// Minimum number of processes in the table for a removal of those that no kept record names.
const MIN_PROCESSES_TO_REMOVE: usize = 1024;

impl WindowConsumer {
    /// Creates a consumer that keeps `window` and writes files of `series`, compressed with zstd at the level `compression`.
    /// `command_line` is that of this process, for the header.
    pub fn new(
        series: FileSeries,
        window: Window,
        compression: Option<i32>,
        command_line: Vec<Name>,
    ) -> Self {
        Self {
            window,
            series: Some(series),
            command_line,
            compression,
            completion: Box::new(NothingToAdd),
            running: None,
            requested: Vec::new(),
            is_requested: false,
            reports: Vec::new(),
            notices: Vec::new(),
            last: None,
            dumps: 0,
            undecodable: 0,
            every: None,
            last_interval_dump: Instant::now(),
            exit: None,
        }
    }

    /// Writes the file at the end only if the command's exit status meets `exit`.
    #[must_use]
    pub fn with_exit_condition(self, exit: Option<ExitCondition>) -> Self {
        Self { exit, ..self }
    }

    /// Has `completion` add to each file.
    #[must_use]
    pub fn with_completion(self, completion: Box<dyn FileCompletion>) -> Self {
        Self { completion, ..self }
    }

    /// Writes a file after each `time`, too.
    #[must_use]
    pub fn with_interval(self, time: Option<Duration>) -> Self {
        Self { every: time, ..self }
    }

    /// Returns the file that was written at the end, after the recording.
    pub fn last(&self) -> Option<&Dump> {
        self.last.as_ref()
    }

    /// Returns the number of files that were written.
    pub fn dumps(&self) -> u64 {
        self.dumps
    }

    /// Returns the number of samples that the unwinding stage dropped because they could not be decoded.
    pub fn undecodable(&self) -> u64 {
        self.undecodable
    }

    /// Takes the report of a finished file, and begins the next one if it is requested and none is being written.
    fn advance_dumps(&mut self) {
        let Some(running) = &mut self.running else { return };
        if let Some(report) = running.dumps.take_report() {
            self.dumps += u64::from(report.outcome.is_ok());
            self.reports.push(report);
        }
        if self.is_requested && !running.dumps.is_busy() {
            self.is_requested = false;
            let tickets = std::mem::take(&mut self.requested);
            running.dump(tickets, false);
        }
    }
}

impl Running {
    fn push(&mut self, chunk: &Chunk) {
        let Some(layout) = &self.description.layout else { return };
        if chunk.ring != crate::consumer::RingKind::Samples {
            for record in each(&chunk.bytes) {
                if let Ok((raw, _)) = RawRecord::parse(record, Endian::NATIVE) {
                    self.processes.apply(&raw, layout);
                }
            }
        }
        self.blocks.push(&chunk.bytes, layout);
        self.drop_old_blocks(self.blocks.newest());
    }

    /// Drops blocks that are older than the window at `now`, or have no room, and folds their sideband records into the state.
    fn drop_old_blocks(&mut self, now: Timestamp) {
        while let Some(block) = self.blocks.pop_expired(now.0) {
            for record in block.sideband() {
                match record {
                    Some(record) => self.state.push(record),
                    None => self.state.finish_round(),
                }
            }
            self.blocks.recycle(block);
            self.state.forget_before(self.blocks.oldest());
        }
    }

    /// Returns the time of the records' clock, or of the newest record if the clock cannot be read.
    fn now(&self) -> Timestamp {
        let clock = self.description.clock_id().and_then(|id| clock::now(id).ok());
        clock.map_or(self.blocks.newest(), Timestamp).max(self.blocks.newest())
    }

    fn dump(&mut self, tickets: Vec<u64>, is_last: bool) {
        self.drop_old_blocks(self.now());
        let snapshot = Snapshot {
            tickets,
            stamp: clock::local_date_and_time(),
            state: self.state.clone(),
            blocks: self.blocks.snapshot(),
            stacks: self.has_stacks.then(|| self.blocks.stacks()),
            processes: self.processes.sections(),
            is_short: self.blocks.is_short(),
            requested_at: Instant::now(),
            is_last,
        };
        self.dumps.write(snapshot);
    }

    /// Forgets processes that no kept record names.
    fn forget(&mut self) {
        let now = self.now();
        self.drop_old_blocks(now);
        self.state.forget_dead(now, || procfs::processes().ok());
        if self.processes.entries().len() > MIN_PROCESSES_TO_REMOVE.max(2 * self.processes_before) {
            let recent = self.blocks.pids();
            let state = &self.state;
            self.processes.retain(|pid| state.knows(pid) || recent.contains(&pid));
            self.processes_before = self.processes.entries().len();
        }
    }
}

impl RecordingSink for WindowConsumer {
    fn begin(&mut self, recording: &Recording) -> io::Result<()> {
        let mut series = self.series.take().ok_or(io::ErrorKind::NotFound)?;
        let description =
            Description::new(recording, std::mem::take(&mut self.command_line), self.compression)?;
        let layout = description.layout.clone().ok_or(io::ErrorKind::Unsupported)?;
        // A first file, without a name, so that an error prevents the start of the command: a full disk, or a folder without rights.
        description.create_file(series.create(FILE_MODE)?)?;
        let completion = std::mem::replace(&mut self.completion, Box::new(NothingToAdd));
        self.running = Some(Running {
            state: SidebandState::new(layout),
            blocks: Blocks::new(self.window),
            processes: ProcessTable::new(&recording.resources),
            processes_before: 0,
            has_stacks: false,
            dumps: DumpThread::start(series, description.clone(), completion).map_err(io::Error::other)?,
            description,
        });
        Ok(())
    }

    fn started(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn add_loss(&mut self, loss: Loss) {
        self.undecodable = self.undecodable.saturating_add(loss.undecodable);
    }

    fn set_stack_totals(&mut self, stacks: &StackTotals) {
        if let Some(running) = &mut self.running {
            running.has_stacks = true;
            running.blocks.set_stack_totals(stacks);
        }
    }

    fn finished_round(&mut self) -> io::Result<()> {
        if let Some(running) = &mut self.running {
            running.blocks.finish_round();
        }
        self.advance_dumps();
        Ok(())
    }

    fn request_dump(&mut self, ticket: u64) {
        self.is_requested = true;
        self.requested.push(ticket);
        self.advance_dumps();
    }

    fn take_dump_reports(&mut self) -> Vec<DumpReport> {
        std::mem::take(&mut self.reports)
    }

    fn take_notices(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.notices)
    }

    fn checkpoint(&mut self) -> io::Result<()> {
        if let Some(running) = &mut self.running {
            running.forget();
        }
        if self.every.is_some_and(|time| self.last_interval_dump.elapsed() >= time) {
            self.last_interval_dump = Instant::now();
            self.is_requested = true;
        }
        self.advance_dumps();
        Ok(())
    }

    fn end(&mut self, ending: &Ending) -> io::Result<()> {
        let Some(running) = &mut self.running else { return Ok(()) };
        if let Some(stacks) = &ending.stacks {
            running.blocks.set_stack_totals(stacks);
            running.has_stacks = true;
        }
        if let Some(report) = running.dumps.wait() {
            self.dumps += u64::from(report.outcome.is_ok());
            self.reports.push(report);
        }
        if self.exit.is_some_and(|exit| !exit.is_met(ending.exit)) && !self.is_requested {
            return Ok(());
        }
        running.dump(std::mem::take(&mut self.requested), true);
        match running.dumps.wait().map(|report| report.outcome) {
            Some(Ok(dump)) => {
                self.dumps += 1;
                self.notices.extend(dump.incomplete.clone().map(Notice::LastFileIncomplete));
                self.last = Some(dump);
                Ok(())
            }
            Some(Err(failure)) => Err(io::Error::new(failure.kind, failure.why)),
            None => Err(io::Error::other("the thread that writes files has ended")),
        }
    }
}

impl Consumer for WindowConsumer {
    fn consume(&mut self, chunk: Chunk) -> io::Result<Option<Vec<u8>>> {
        if let Some(running) = &mut self.running {
            running.push(&chunk);
        }
        Ok(Some(chunk.bytes))
    }
}
