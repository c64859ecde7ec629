//! Writes the whole recording into a series of files that follow each other.

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, unbounded};
use decoder::{Endian, RawRecord, kind};
use host::files::{FileSeries, NewFile};
use host::procfs;
use host::sys::clock;
use model::{Loss, Name, Timestamp};
use perfdata::sections;
use perfdata::write::RecordWriter;

use super::MIN_PROCESSES_TO_REMOVE;
use super::dump::{FileCompletion, LAST_COMPLETION_TIME, NothingToAdd, run_completion};
use super::state::SidebandState;
use crate::consumer::{
    Chunk, Consumer, Dump, DumpFailure, DumpReport, Ending, Recording, RecordingSink, RingKind,
};
use crate::error::Errno;
use crate::notice::Notice;
use crate::output::{BuildIds, Description, Exchange, FILE_MODE, Output, WriteBehind, include_time};
use crate::processes::ProcessTable;
use crate::unwind::StackTotals;

/// The condition on which a file of a series ends and the next one begins. [`RecordingSink::request_dump`] begins the next one in any
/// case.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NextFileWhen {
    /// Only on request.
    OnRequest,
    /// At this size of records in bytes, before compression.
    Bytes(u64),
    /// At this age of the file.
    Age(Duration),
}

/// A consumer that writes a recording into a series of files, each of which can be read by itself. A file's name has the time at which
/// it begins.
pub struct SeriesConsumer {
    when: NextFileWhen,
    series: Arc<Mutex<FileSeries>>,
    command_line: Vec<Name>,
    compression: Option<i32>,
    completion: Arc<Mutex<Box<dyn FileCompletion>>>,
    running: Option<Running>,
    undecodable: u64,
    /// The path and the size of the last file, after the end.
    last: Option<(PathBuf, u64)>,
    notices: Vec<Notice>,
}

struct Running {
    description: Description,
    writer: Writer,
    state: SidebandState,
    processes: ProcessTable,
    /// The number of processes in the table when the dead were last removed from it.
    processes_before: usize,
    contents: Contents,
    /// The contents of the file that is being finished.
    before: Option<Contents>,
    stacks: Option<StackTotals>,
    asked: Vec<u64>,
    is_requested: bool,
    /// True if a file is being finished.
    busy: bool,
    reports: (Sender<DumpReport>, Receiver<DumpReport>),
    current: Arc<Mutex<Current>>,
}

/// The file that is being written.
#[derive(Default)]
struct Current {
    path: PathBuf,
    file: Option<File>,
}

enum Writer {
    /// Writes on the caller's thread until the recording starts, so that an error prevents the start of the command.
    Direct(Output),
    Behind(WriteBehind),
    Failed,
}

/// The contents of a file so far.
struct Contents {
    begin: Instant,
    bytes: u64,
    samples: u64,
    /// The times of the first and the last sample, in nanoseconds.
    sample_time: Option<(u64, u64)>,
    /// The writer's thread adds the build ids of what was mapped before the file.
    build_ids: Arc<Mutex<BuildIds>>,
    /// The totals of stacks when the file began.
    stacks_before: StackTotals,
}

impl Contents {
    fn new(stacks_before: StackTotals, description: &Description) -> Self {
        let (bytes, samples, sample_time) = (0, 0, None);
        let build_ids = Arc::new(Mutex::new(description.build_ids.clone()));
        Self { begin: Instant::now(), bytes, samples, sample_time, build_ids, stacks_before }
    }

    fn span(&self) -> Duration {
        let (first, last) = self.sample_time.unwrap_or_default();
        Duration::from_nanos(last.saturating_sub(first))
    }

    /// Appends these contents to those of the file before, because the next file could not be created.
    fn appended_to(self, before: Self) -> Self {
        lock(&before.build_ids).add(&lock(&self.build_ids));
        Self {
            begin: self.begin,
            bytes: before.bytes + self.bytes,
            samples: before.samples + self.samples,
            sample_time: match (before.sample_time, self.sample_time) {
                (Some((first, a)), Some((_, b))) => Some((first, a.max(b))),
                (before, since) => before.or(since),
            },
            ..before
        }
    }

    /// Encodes the sections of the file. `stacks` are the totals since the recording began.
    fn sections(&self, stacks: Option<StackTotals>, processes: &ProcessTable) -> Vec<(u32, Vec<u8>)> {
        let stacks = stacks.map(|stacks| stacks.since(&self.stacks_before).to_section());
        let stacks = stacks.map(|section| (sections::id::STACK_TOTALS, section));
        stacks.into_iter().chain(processes.sections()).collect()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // No code panics while it holds the lock; if it did, the value would still be consistent.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn complete(completion: &Mutex<Box<dyn FileCompletion>>, file: Option<&File>) -> (u64, Option<String>) {
    let until = Instant::now() + LAST_COMPLETION_TIME;
    file.map_or((0, None), |file| run_completion(&mut **lock(completion), file, (until, until), &mut || ()))
}

impl Current {
    /// Gives a file the name for a time.
    fn name(series: &mut FileSeries, file: &mut NewFile, stamp: &str) -> io::Result<Self> {
        let path = series.name(file, stamp)?;
        Ok(Self { path, file: Some(file.file().try_clone()?) })
    }
}

impl SeriesConsumer {
    /// Creates a consumer that writes files of `series`, compressed with zstd at the level `compression`. `command_line` is that of this
    /// process, for the header.
    pub fn new(
        series: FileSeries,
        when: NextFileWhen,
        compression: Option<i32>,
        command_line: Vec<Name>,
    ) -> Self {
        let series = Arc::new(Mutex::new(series));
        let completion: Box<dyn FileCompletion> = Box::new(NothingToAdd);
        let completion = Arc::new(Mutex::new(completion));
        let (running, undecodable, last, notices) = (None, 0, None, Vec::new());
        Self { when, series, command_line, compression, completion, running, undecodable, last, notices }
    }

    /// Has `completion` add to each file when that has all its samples.
    #[must_use]
    pub fn with_completion(self, completion: Box<dyn FileCompletion>) -> Self {
        Self { completion: Arc::new(Mutex::new(completion)), ..self }
    }

    /// Returns the path and the size of the last file, after the recording.
    pub fn last(&self) -> Option<&(PathBuf, u64)> {
        self.last.as_ref()
    }

    /// Returns the number of samples that the unwinding stage dropped because they could not be decoded.
    pub fn undecodable(&self) -> u64 {
        self.undecodable
    }

    /// Returns for how long recording was blocked because the buffer before the output was full.
    pub fn blocked_time(&self) -> Duration {
        match self.running.as_ref().map(|running| &running.writer) {
            Some(Writer::Behind(writer)) => writer.blocked_time(),
            _ => Duration::ZERO,
        }
    }

    /// Begins the next file, if it is due and no file is being finished.
    fn begin_next_if_due(&mut self) -> io::Result<()> {
        let Some(running) = &mut self.running else { return Ok(()) };
        let is_due = match self.when {
            NextFileWhen::OnRequest => false,
            NextFileWhen::Bytes(bytes) => running.contents.bytes >= bytes,
            NextFileWhen::Age(age) => running.contents.begin.elapsed() >= age,
        };
        // While the file before is being finished, this one goes on: the writer's buffer is bounded.
        if running.busy || !(is_due || running.is_requested) {
            return Ok(());
        }
        running.begin_next_file(&self.series, &self.completion)
    }
}

impl Running {
    fn writer(&mut self) -> io::Result<&mut dyn RecordWriter> {
        match &mut self.writer {
            Writer::Direct(output) => Ok(output.records()),
            Writer::Behind(writer) => Ok(writer),
            Writer::Failed => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn begin_next_file(
        &mut self,
        series: &Arc<Mutex<FileSeries>>,
        completion: &Arc<Mutex<Box<dyn FileCompletion>>>,
    ) -> io::Result<()> {
        let next = Contents::new(self.stacks.unwrap_or_default(), &self.description);
        let (state, next_build_ids) = (self.state.clone(), Arc::clone(&next.build_ids));
        let contents = std::mem::replace(&mut self.contents, next);
        let (samples, span, sample_time) = (contents.samples, contents.span(), contents.sample_time);
        let sections = contents.sections(self.stacks, &self.processes);
        let build_ids = Arc::clone(&contents.build_ids);
        self.before = Some(contents);
        let description = self.description.clone();
        let (series, current, reports) =
            (Arc::clone(series), Arc::clone(&self.current), self.reports.0.clone());
        let completion = Arc::clone(completion);
        let tickets = std::mem::take(&mut self.asked);
        (self.is_requested, self.busy) = (false, true);
        let stamp = clock::local_date_and_time();
        let asked = Instant::now();
        let exchange: Exchange = Box::new(move |output| {
            let mut series = lock(&series);
            let begin = || {
                let before = state.to_records();
                if let Some(layout) = &description.layout {
                    lock(&next_build_ids).add_all(&before, layout);
                }
                let mut next = description.create_file(series.create(FILE_MODE)?)?;
                next.records().append(&before)?;
                next.records().finished_init()?;
                next.records().checkpoint()?;
                let file = next.file().ok_or(io::ErrorKind::Unsupported)?;
                let current = Current::name(&mut series, file, &stamp)?;
                Ok((current, next))
            };
            let begun: io::Result<_> = { begin }();
            let (next_file, next) = match begun {
                Ok(begun) => begun,
                // The records go on into the file that is open.
                Err(error) => {
                    let path = series.path().to_owned();
                    let failure = DumpFailure { path, kind: error.kind(), why: Errno(&error).to_string() };
                    let _ = reports.send(DumpReport { tickets, outcome: Err(failure) });
                    return Ok(());
                }
            };
            lock(&build_ids).finish();
            let mut features = description.features(&lock(&build_ids), sample_time);
            features.sections.extend(sections);
            let mut finished = std::mem::replace(output, next);
            let size = finished.records().finish(&features)?;
            let Current { path, .. } = std::mem::replace(&mut *lock(&current), next_file);
            let not_removed = series.remove_oldest().err().map(|error| error.to_string());
            let report = move || {
                let file = finished.file().map(|file| file.file());
                let (added, incomplete) = complete(&completion, file);
                let (size, took) = (size + added, asked.elapsed());
                let dump = Dump { path, size, samples, span, took, is_short: false, not_removed, incomplete };
                let _ = reports.send(DumpReport { tickets, outcome: Ok(dump) });
            };
            // On a thread of its own, so that the next file's records do not wait.
            std::thread::Builder::new().name("completion".to_owned()).spawn(report).map(drop)
        });
        match &mut self.writer {
            Writer::Behind(writer) => writer.exchange(exchange),
            Writer::Direct(_) | Writer::Failed => Ok(()),
        }
    }

    /// Forgets processes that have ended.
    fn forget(&mut self) {
        let now = self.contents.sample_time.map_or(Timestamp(0), |(_, last)| Timestamp(last));
        self.state.forget_before(now);
        self.state.forget_dead(now, || procfs::processes().ok());
        if self.processes.entries().len() > MIN_PROCESSES_TO_REMOVE.max(2 * self.processes_before) {
            let state = &self.state;
            self.processes.retain(|pid| state.knows(pid));
            self.processes_before = self.processes.entries().len();
        }
    }

    fn apply_chunk(&mut self, chunk: &Chunk) {
        let Some(layout) = &self.description.layout else { return };
        let mut records = chunk.bytes.as_slice();
        while let Ok((raw, size)) = RawRecord::parse(records, Endian::NATIVE) {
            let (record, rest) = records.split_at_checked(size).unwrap_or((records, &[]));
            records = rest;
            if raw.kind == kind::SAMPLE {
                self.contents.samples += 1;
                include_time(&mut self.contents.sample_time, layout.time_of(&raw).map(|time| time.0));
            } else if chunk.ring != RingKind::Samples {
                self.processes.apply(&raw, layout);
                lock(&self.contents.build_ids).add_record(&raw, layout);
                self.state.push(record);
            }
        }
        self.contents.bytes += chunk.bytes.len() as u64;
    }
}

impl RecordingSink for SeriesConsumer {
    fn begin(&mut self, recording: &Recording) -> io::Result<()> {
        let description =
            Description::new(recording, std::mem::take(&mut self.command_line), self.compression)?;
        let layout = description.layout.clone().ok_or(io::ErrorKind::Unsupported)?;
        let output = description.create_file(lock(&self.series).create(FILE_MODE)?)?;
        self.running = Some(Running {
            contents: Contents::new(StackTotals::default(), &description),
            description,
            writer: Writer::Direct(output),
            state: SidebandState::new(layout),
            processes: ProcessTable::new(&recording.resources),
            processes_before: 0,
            before: None,
            stacks: None,
            asked: Vec::new(),
            is_requested: false,
            busy: false,
            reports: unbounded(),
            current: Arc::default(),
        });
        Ok(())
    }

    fn started(&mut self) -> io::Result<()> {
        let Some(running) = &mut self.running else { return Ok(()) };
        let Writer::Direct(mut output) = std::mem::replace(&mut running.writer, Writer::Failed) else {
            return Ok(());
        };
        output.records().finished_init()?;
        output.records().checkpoint()?;
        let mut series = lock(&self.series);
        if let Some(file) = output.file() {
            *lock(&running.current) = Current::name(&mut series, file, &clock::local_date_and_time())?;
            // If that fails, the report of a later file says why.
            let _ = series.remove_oldest();
        }
        running.writer = Writer::Behind(WriteBehind::start(output).map_err(io::Error::other)?);
        Ok(())
    }

    fn add_loss(&mut self, loss: Loss) {
        self.undecodable = self.undecodable.saturating_add(loss.undecodable);
    }

    fn set_stack_totals(&mut self, stacks: &StackTotals) {
        if let Some(running) = &mut self.running {
            running.stacks = Some(*stacks);
        }
    }

    fn finished_round(&mut self) -> io::Result<()> {
        if let Some(running) = &mut self.running {
            running.state.finish_round();
            running.writer()?.finished_round()?;
        }
        self.begin_next_if_due()
    }

    fn request_dump(&mut self, ticket: u64) {
        if let Some(running) = &mut self.running {
            running.is_requested = true;
            running.asked.push(ticket);
        }
    }

    fn take_dump_reports(&mut self) -> Vec<DumpReport> {
        let Some(running) = &mut self.running else { return Vec::new() };
        let reports: Vec<DumpReport> = running.reports.1.try_iter().collect();
        for report in &reports {
            running.busy = false;
            let before = running.before.take();
            if let (Err(_), Some(before)) = (&report.outcome, before) {
                let empty = Contents::new(StackTotals::default(), &running.description);
                let since = std::mem::replace(&mut running.contents, empty);
                running.contents = since.appended_to(before);
            }
        }
        reports
    }

    fn take_notices(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.notices)
    }

    fn checkpoint(&mut self) -> io::Result<()> {
        if let Some(running) = &mut self.running {
            running.writer()?.checkpoint()?;
            running.forget();
        }
        self.begin_next_if_due()
    }

    fn end(&mut self, ending: &Ending) -> io::Result<()> {
        let Some(running) = &mut self.running else { return Ok(()) };
        if ending.stacks.is_some() {
            running.stacks = ending.stacks;
        }
        let contents = &running.contents;
        lock(&contents.build_ids).finish();
        let mut features = running.description.features(&lock(&contents.build_ids), contents.sample_time);
        features.sections.extend(contents.sections(running.stacks, &running.processes));
        let size = running.writer()?.finish(&features)?;
        // A completion of the file before may still run.
        while running.busy && running.reports.1.is_empty() {
            std::thread::sleep(Duration::from_millis(5));
        }
        let current = std::mem::take(&mut *lock(&running.current));
        let (added, incomplete) = complete(&self.completion, current.file.as_ref());
        self.notices.extend(incomplete.map(Notice::LastFileIncomplete));
        self.last = Some((current.path, size + added));
        Ok(())
    }
}

impl Consumer for SeriesConsumer {
    fn consume(&mut self, chunk: Chunk) -> io::Result<Option<Vec<u8>>> {
        if let Some(running) = &mut self.running {
            running.apply_chunk(&chunk);
            let new = lock(&running.contents.build_ids).take_new_records();
            let writer = running.writer()?;
            writer.append(&new)?;
            writer.append(&chunk.bytes)?;
        }
        Ok(Some(chunk.bytes))
    }
}
