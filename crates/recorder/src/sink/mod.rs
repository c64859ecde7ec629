//! The sink that writes perf.data: one file or stream, files that follow each other (`--switch-output`), or files of a window of the
//! newest records (`--overwrite`). They differ in what is kept and in when a file is exchanged for the next.
//!
//! ```text
//! records ─▶ writer ───────────────────────────────────────▶ prof.data
//! records ─▶ writer ──────────────────── exchange ─────────▶ OUT.20261122T230113, and the next one
//!      └───▶ sideband state ─────────────┘
//! records ─▶ blocks (the newest) ─────── exchange ─────────▶ OUT.20261122T230113
//!                │ the oldest             ▲
//!                └─▶ sideband state ──────┘ (threads, mappings, …)
//! ```

mod contents;
mod exchange;

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, TryRecvError, bounded};
use decoder::record::{LostSamples, Read};
use decoder::values::{CounterValues, U64s};
use decoder::{Endian, RawRecord, ReadFormat, Record, RecordLayout, SampleId, kind};
use host::files::{DestinationKind, FileSeries, NewFile};
use host::procfs;
use host::sys::clock;
use model::{Loss, Name, Timestamp};
use perfdata::sections;

use crate::consumer::{
    Chunk, Consumer, Dump, DumpReport, Ending, LostCount, Recording, RecordingSink, RingKind, TaskTime,
};
use crate::notice::Notice;
use crate::options::ExitCondition;
use crate::output::{Description, FILE_MODE, Output, WriteBehind, include_time};
use crate::processes::{MIN_PROCESSES_TO_SWEEP, ProcessTable};
use crate::records::each;
use crate::unwind::StackTotals;
use crate::window::{Blocks, SidebandState, Window};
use contents::{Contents, lock};
use exchange::{Beginning, Completion, Exchange, Files};

pub use exchange::FileCompletion;

/// The files that a recording is written to.
pub enum Place {
    /// One file, which is created when the recording begins (an existing one becomes `NAME.old`), or a stream in the form for pipes.
    Destination(DestinationKind),
    /// One file that never gets a name.
    Unnamed(NewFile),
    /// Files that follow each other, each of which can be read by itself. A file's name has the time at which it begins.
    Series(FileSeries, NextFileWhen),
    /// Files of the newest records, on each [`RecordingSink::request_dump`], at intervals if wanted, and at the end.
    Window(FileSeries, WindowFiles),
}

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

/// The window that is kept, and when it is written.
pub struct WindowFiles {
    /// The limits of the window.
    pub window: Window,
    /// The interval at which files are written without a request.
    pub every: Option<Duration>,
    /// The exit status of the command on which the file at the end is written; `None` for any.
    pub exit: Option<ExitCondition>,
}

/// Writes a recording as perf.data.
#[derive(Default)]
pub struct FileSink {
    /// Taken when the recording begins.
    place: Option<Place>,
    compression: Option<i32>,
    command_line: Vec<Name>,
    completion: Completion,
    running: Option<Running>,
    /// Number of samples that the unwinding stage dropped because they could not be decoded.
    undecodable: u64,
    /// The last file, after the end.
    last: Option<Dump>,
    notices: Vec<Notice>,
}

struct Running {
    description: Description,
    writer: WriteBehind,
    files: Arc<Mutex<Files>>,
    kept: Kept,
    when: NextFileWhen,
    /// The time from which [`NextFileWhen::Age`] counts.
    begun: Instant,
    exit: Option<ExitCondition>,
    state: SidebandState,
    processes: ProcessTable,
    /// The number of processes in the table when the dead were last removed from it.
    processes_before: usize,
    contents: Contents,
    /// The contents of the file that is being finished.
    before: Option<Contents>,
    stacks: Option<StackTotals>,
    /// The tickets of requests for the next file.
    tickets: Vec<u64>,
    is_requested: bool,
    /// Gets the report of the file that is being finished, if there is one.
    report: Option<Receiver<DumpReport>>,
    reports: Vec<DumpReport>,
    /// For each event, true if it is the sideband event.
    are_sideband: Vec<bool>,
    /// Sums of LOST records in rings of samples, and in sideband rings. The records themselves do not tell the two apart.
    lost: [u64; 2],
}

/// The records that a file is made of.
enum Kept {
    /// All, in one file.
    All,
    /// Those since the file began.
    Part,
    /// The newest ones.
    Newest(Box<Blocks>),
}

impl FileSink {
    /// Writes to `place`, compressed with zstd at the level `compression` (1 to 22). `command_line` is that of this process, for the
    /// header.
    pub fn new(place: Place, compression: Option<i32>, command_line: Vec<Name>) -> Self {
        Self { place: Some(place), compression, command_line, ..Self::default() }
    }

    /// Has `completion` add to each file of several when that has all its samples.
    #[must_use]
    pub fn with_completion(self, completion: Option<Box<dyn FileCompletion>>) -> Self {
        Self { completion: Arc::new(Mutex::new(completion)), ..self }
    }

    /// Returns the last file, after the recording. The path is empty unless the file is one of several.
    pub fn last(&self) -> Option<&Dump> {
        self.last.as_ref()
    }

    /// Returns the number of samples that the unwinding stage dropped because they could not be decoded.
    pub fn undecodable(&self) -> u64 {
        self.undecodable
    }

    /// Returns for how long recording was blocked because the buffer of [`crate::OUTPUT_BUFFER_BYTES`] was full.
    pub fn blocked_time(&self) -> Duration {
        self.running.as_ref().map_or(Duration::ZERO, |running| running.writer.blocked_time())
    }

    fn running(&mut self) -> io::Result<&mut Running> {
        self.running.as_mut().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Exchanges the file for the next one, if that is due and no file is being finished.
    fn exchange_if_due(&mut self) -> io::Result<()> {
        let running = self.running.as_mut().ok_or(io::ErrorKind::NotFound)?;
        running.take_report();
        let is_due = match running.when {
            NextFileWhen::OnRequest => false,
            NextFileWhen::Bytes(bytes) => running.contents.bytes >= bytes,
            NextFileWhen::Age(age) => running.begun.elapsed() >= age,
        };
        // While the file before is being finished, this one goes on: the writer's buffer is bounded.
        if running.report.is_some() || !(is_due || running.is_requested) {
            return Ok(());
        }
        if is_due || matches!(running.kept, Kept::Part) {
            running.begun = Instant::now();
        }
        running.exchange(&self.completion, None)
    }
}

impl Running {
    fn apply_chunk(&mut self, chunk: &Chunk) {
        let layout = &self.description.layout;
        let is_sideband = chunk.ring != RingKind::Samples;
        let (is_window, is_part) = (matches!(self.kept, Kept::Newest(_)), matches!(self.kept, Kept::Part));
        if is_sideband || !is_window {
            let mut build_ids = lock(&self.contents.build_ids);
            for record in each(&chunk.bytes) {
                let Ok((raw, _)) = RawRecord::parse(record, Endian::NATIVE) else { continue };
                add_lost(&raw, layout, &mut self.lost[usize::from(is_sideband)]);
                if raw.kind == kind::SAMPLE {
                    self.contents.samples += 1;
                    // Samples of all events have their time at the same offset.
                    let time = layout.time_of(&raw);
                    include_time(&mut self.contents.sample_time, time.map(|time| time.0));
                } else if is_sideband {
                    self.processes.apply(&raw, layout);
                    if !is_window {
                        build_ids.add_record(&raw, layout);
                    }
                    if is_part {
                        self.state.push(record);
                    }
                }
            }
            self.contents.bytes += chunk.bytes.len() as u64;
        }
        if let Kept::Newest(blocks) = &mut self.kept {
            blocks.push(&chunk.bytes, layout);
            let now = blocks.newest();
            self.drop_old_blocks(now);
        }
    }

    /// Drops blocks that are older than the window at `now`, or have no room, and folds their sideband records into the state.
    fn drop_old_blocks(&mut self, now: Timestamp) {
        let Kept::Newest(blocks) = &mut self.kept else { return };
        while let Some(block) = blocks.pop_expired(now.0) {
            for record in block.sideband() {
                match record {
                    Some(record) => self.state.push(record),
                    None => self.state.finish_round(),
                }
            }
            self.state.forget_before(blocks.oldest());
        }
    }

    /// Returns the time of the newest sample; for a window that of the records' clock, or of the newest record if the clock cannot be
    /// read.
    fn now(&self) -> Timestamp {
        let Kept::Newest(blocks) = &self.kept else {
            return Timestamp(self.contents.sample_time.map_or(0, |(_, last)| last));
        };
        let clock = self.description.clock_id().and_then(|id| clock::now(id).ok());
        clock.map_or(blocks.newest(), Timestamp).max(blocks.newest())
    }

    /// Forgets processes that have ended and that no kept record names.
    fn forget(&mut self) {
        let now = self.now();
        let mut recent = Default::default();
        self.drop_old_blocks(now);
        if !matches!(self.kept, Kept::Newest(_)) {
            self.state.forget_before(now);
        }
        self.state.forget_dead(now, || procfs::processes().ok());
        if self.processes.entries().len() > MIN_PROCESSES_TO_SWEEP.max(2 * self.processes_before) {
            if let Kept::Newest(blocks) = &self.kept {
                recent = blocks.pids();
            }
            let state = &self.state;
            self.processes.retain(|pid| state.knows(pid) || recent.contains(&pid));
            self.processes_before = self.processes.entries().len();
        }
    }

    fn set_stack_totals(&mut self, stacks: &StackTotals) {
        self.stacks = Some(*stacks);
        if let Kept::Newest(blocks) = &mut self.kept {
            blocks.set_stack_totals(stacks);
        }
    }

    /// Takes the report of a finished file, if there is one.
    fn take_report(&mut self) {
        match self.report.as_ref().map(Receiver::try_recv) {
            None | Some(Err(TryRecvError::Empty)) => {}
            // Without a report, the next order returns the writer's error.
            Some(report) => self.add_report(report.ok()),
        }
    }

    fn add_report(&mut self, report: Option<DumpReport>) {
        self.report = None;
        let before = self.before.take();
        if let (Some(DumpReport { outcome: Err(_), .. }), Some(before)) = (&report, before) {
            self.contents = self.contents.appended_to(before);
        }
        self.reports.extend(report);
    }

    /// Has the writer finish the file, and begin the next one unless the recording ends. Its report comes later.
    fn exchange(&mut self, completion: &Completion, ending: Option<&Ending>) -> io::Result<()> {
        self.drop_old_blocks(self.now());
        let next = Contents::new(self.stacks.unwrap_or_default(), &self.description);
        let (state, build_ids) = (self.state.clone(), Arc::clone(&next.build_ids));
        let mut is_short = false;
        let (contents, next, stacks) = match &mut self.kept {
            Kept::Newest(blocks) => {
                let window = blocks.snapshot();
                let times = window.iter().filter_map(|block| block.sample_times());
                let sample_time =
                    times.reduce(|(first, last), (begin, end)| (first.min(begin), last.max(end)));
                let samples = window.iter().map(|block| block.samples()).sum();
                is_short = blocks.is_short();
                let stacks = self.stacks.map(|_| blocks.stacks());
                let next_file = Beginning { state, build_ids, window: Some(window) };
                (Contents { samples, sample_time, ..next }, Some(next_file), stacks)
            }
            _ => {
                let contents = std::mem::replace(&mut self.contents, next);
                self.before = Some(contents.clone());
                let stacks = self.stacks.map(|stacks| stacks.since(&contents.stacks_before));
                let next_file = Beginning { state, build_ids, window: None };
                (contents, Some(next_file).filter(|_| ending.is_none()), stacks)
            }
        };
        let whole = ending.filter(|_| matches!(self.kept, Kept::All));
        let stacks = stacks.map(|stacks| (sections::id::STACK_TOTALS, stacks.to_section()));
        let mut all_sections: Vec<(u32, Vec<u8>)> =
            stacks.into_iter().chain(self.processes.sections()).collect();
        all_sections.extend(whole.iter().flat_map(|ending| self.last_sections(ending)));
        let (report, receiver) = bounded(1);
        self.report = Some(receiver);
        self.is_requested = false;
        let exchange = Exchange {
            description: self.description.clone(),
            files: Arc::clone(&self.files),
            completion: Arc::clone(completion),
            report,
            tickets: std::mem::take(&mut self.tickets),
            stamp: clock::local_date_and_time(),
            requested_at: Instant::now(),
            next,
            contents,
            sections: all_sections,
            is_short,
            is_last: ending.is_some(),
        };
        self.writer.exchange(Box::new(move |output| exchange.run(output)))
    }

    /// Encodes the totals at the end of a recording in one file.
    fn last_records(&mut self, ending: &Ending, undecodable: u64) -> Vec<u8> {
        let mut build_ids = lock(&self.contents.build_ids);
        build_ids.finish();
        let mut records = build_ids.take_new_records();
        let layout = &self.description.layout;
        let lost = ending.lost.clone().unwrap_or_else(|| lost_of_rings(&self.are_sideband, self.lost));
        // Samples that could not be decoded are missing in the file, like those that the kernel lost.
        let undecoded = std::iter::once(undecodable).chain(std::iter::repeat(0));
        for ((event, count), undecoded) in self.description.events.iter().zip(lost).zip(undecoded) {
            let lost = count.samples.saturating_add(undecoded);
            if lost == 0 {
                continue;
            }
            // Time 0 marks the total of the tool, which replaces LOST records.
            let sample_id = SampleId {
                time: Some(Timestamp(0)),
                identifier: event.ids.first().copied(),
                ..SampleId::default()
            };
            let record = Record::LostSamples(LostSamples { lost, filtered_by_bpf: false, sample_id });
            // A record of 64 bytes fits.
            let _ = layout.encode(&record, &mut records);
        }
        ending.task_times.iter().for_each(|time| append_task_time(time, layout, &mut records));
        records
    }

    /// Returns the sections that a recording in one file has beside those of each file.
    fn last_sections(&self, ending: &Ending) -> Vec<(u32, Vec<u8>)> {
        let watched = ending.watched.map(|watched| (sections::id::WATCHED_TIME, watched.to_section()));
        let sampled = ending.switches.as_ref();
        let sampled = sampled.map(|sampling| (sections::id::SWITCH_SAMPLING, sampling.to_section()));
        let unread = ending.lost.iter().flatten().map(|count| count.unread);
        let unread = unread.fold(ending.full_rings, u64::saturating_add);
        let unread = (unread > 0).then(|| (sections::id::UNREAD_LOST_COUNTS, unread.to_ne_bytes().to_vec()));
        let samplers = self.are_sideband.iter().filter(|is_sideband| !**is_sideband).count();
        let lost = ending.lost.iter().flatten().take(samplers).map(|count| count.samples).sum();
        let missing = Some(ending.coverage.missing(lost)).filter(|missing| !missing.is_empty());
        let missing = missing
            .map(|missing| (sections::id::MISSING_SAMPLES, sections::missing_samples::to_section(&missing)));
        watched.into_iter().chain(sampled).chain(unread).chain(missing).collect()
    }
}

/// Ends the description of what existed before the file, and gives the file its name.
fn start_file(output: &mut Output, files: &mut Files, stamp: &str) -> io::Result<()> {
    output.records().finished_init()?;
    output.records().checkpoint()?;
    match (output.file(), &files.series) {
        (None, _) => {}
        (Some(file), None) => file.take_name_keeping_old()?,
        // If the oldest file cannot be removed, the report of a later file says why.
        (Some(file), Some(_)) => (files.current, _) = files.name(file, stamp)?,
    }
    Ok(())
}

/// Adds the count of a LOST record to `sum`, if it is one.
fn add_lost(raw: &RawRecord<'_>, layout: &RecordLayout, sum: &mut u64) {
    if raw.kind == kind::LOST
        && let Ok(Record::Lost(record)) = layout.decode(raw)
    {
        *sum = sum.saturating_add(record.lost);
    }
}

/// Distributes sums of LOST records over events, for kernels that do not count losses per event: all lost samples go to the first
/// sampling event, all lost sideband records to the sideband event.
fn lost_of_rings(are_sideband: &[bool], lost: [u64; 2]) -> Vec<LostCount> {
    let mut counts = vec![LostCount::default(); are_sideband.len()];
    for (is_sideband, samples) in [false, true].into_iter().zip(lost) {
        let event = are_sideband.iter().position(|event| *event == is_sideband);
        if let Some(count) = event.and_then(|event| counts.get_mut(event)) {
            count.samples = samples;
        }
    }
    counts
}

/// Appends a READ record with the CPU time of a task. Time 0 marks it as written by us, like our LOST_SAMPLES.
fn append_task_time(time: &TaskTime, layout: &RecordLayout, records: &mut Vec<u8>) {
    let id = time.id.to_ne_bytes();
    let values =
        CounterValues::new(ReadFormat::ID, (0, 0), Some(time.nanoseconds), U64s::new(&id, Endian::NATIVE));
    let sample_id = SampleId {
        thread: Some((time.pid, time.tid)),
        time: Some(Timestamp(0)),
        identifier: Some(time.id),
        ..SampleId::default()
    };
    // A record of 72 bytes fits.
    let _ = layout.encode(&Record::Read(Read { pid: time.pid, tid: time.tid, values, sample_id }), records);
}

impl RecordingSink for FileSink {
    fn begin(&mut self, recording: &Recording) -> io::Result<()> {
        let description =
            Description::new(recording, std::mem::take(&mut self.command_line), self.compression)?;
        let (mut series, mut when, mut exit) = (None, NextFileWhen::OnRequest, None);
        let (output, kept) = match self.place.take().ok_or(io::ErrorKind::NotFound)? {
            Place::Destination(DestinationKind::Name(name)) => {
                let file = NewFile::create(name, FILE_MODE)?;
                file.may_take_name_keeping_old()?;
                (Some(description.create_file(file)?), Kept::All)
            }
            Place::Destination(DestinationKind::Stream(stream)) => {
                (Some(description.create_stream(stream)?), Kept::All)
            }
            Place::Unnamed(file) => (Some(description.create_file(file)?), Kept::All),
            Place::Series(mut files, next) => {
                let output = description.create_file(files.create(FILE_MODE)?)?;
                (series, when) = (Some(files), next);
                (Some(output), Kept::Part)
            }
            Place::Window(mut files, settings) => {
                // A first file, without a name, so that an error prevents the start of the command: a full disk, or a folder without
                // rights.
                description.create_file(files.create(FILE_MODE)?)?;
                when = settings.every.map_or(when, NextFileWhen::Age);
                (series, exit) = (Some(files), settings.exit);
                (None, Kept::Newest(Box::new(Blocks::new(settings.window))))
            }
        };
        self.running = Some(Running {
            writer: WriteBehind::start(output).map_err(io::Error::other)?,
            files: Arc::new(Mutex::new(Files { series, current: PathBuf::new() })),
            kept,
            when,
            begun: Instant::now(),
            exit,
            state: SidebandState::new(description.layout.clone()),
            processes: ProcessTable::new(&recording.resources),
            processes_before: 0,
            contents: Contents::new(StackTotals::default(), &description),
            before: None,
            stacks: None,
            tickets: Vec::new(),
            is_requested: false,
            report: None,
            reports: Vec::new(),
            are_sideband: recording.events.iter().map(|event| event.sideband).collect(),
            lost: [0; 2],
            description,
        });
        Ok(())
    }

    fn started(&mut self) -> io::Result<()> {
        let running = self.running()?;
        if matches!(running.kept, Kept::Newest(_)) {
            return Ok(());
        }
        let (files, stamp) = (Arc::clone(&running.files), clock::local_date_and_time());
        let (sender, started) = bounded(1);
        running.writer.exchange(Box::new(move |output| {
            let start = |output: &mut Output| start_file(output, &mut lock(&files), &stamp);
            let _ = sender.send(output.as_mut().map_or(Ok(()), start));
            Ok(())
        }))?;
        running.writer.wait(&started)?
    }

    fn add_loss(&mut self, loss: Loss) {
        self.undecodable = self.undecodable.saturating_add(loss.undecodable);
    }

    fn set_stack_totals(&mut self, stacks: &StackTotals) {
        if let Some(running) = &mut self.running {
            running.set_stack_totals(stacks);
        }
    }

    fn finished_round(&mut self) -> io::Result<()> {
        let running = self.running()?;
        match &mut running.kept {
            Kept::Newest(blocks) => blocks.finish_round(),
            Kept::All | Kept::Part => {
                running.state.finish_round();
                running.writer.finished_round();
            }
        }
        self.exchange_if_due()
    }

    fn request_dump(&mut self, ticket: u64) -> io::Result<()> {
        let running = self.running()?;
        if matches!(running.kept, Kept::All) {
            return Ok(());
        }
        running.is_requested = true;
        running.tickets.push(ticket);
        self.exchange_if_due()
    }

    fn take_dump_reports(&mut self) -> Vec<DumpReport> {
        let Some(running) = &mut self.running else { return Vec::new() };
        running.take_report();
        std::mem::take(&mut running.reports)
    }

    fn take_notices(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.notices)
    }

    fn checkpoint(&mut self) -> io::Result<()> {
        let running = self.running()?;
        if !matches!(running.kept, Kept::Newest(_)) {
            running.writer.checkpoint()?;
        }
        if !matches!(running.kept, Kept::All) {
            running.forget();
        }
        self.exchange_if_due()
    }

    fn end(&mut self, ending: &Ending) -> io::Result<()> {
        let undecodable = self.undecodable;
        let running = self.running.as_mut().ok_or(io::ErrorKind::NotFound)?;
        if let Some(stacks) = &ending.stacks {
            running.set_stack_totals(stacks);
        }
        if let Some(report) = &running.report {
            let report = running.writer.wait(report)?;
            running.add_report(Some(report));
        }
        if running.exit.is_some_and(|exit| !exit.is_met(ending.exit)) && !running.is_requested {
            return Ok(());
        }
        running.processes.finish();
        if matches!(running.kept, Kept::All) {
            let records = running.last_records(ending, undecodable);
            running.writer.append(&records)?;
        }
        running.exchange(&self.completion, Some(ending))?;
        let report = running.report.take().ok_or(io::ErrorKind::NotFound)?;
        match running.writer.wait(&report)?.outcome {
            Ok(dump) => {
                self.notices.extend(dump.incomplete.clone().map(Notice::LastFileIncomplete));
                self.last = Some(dump);
                Ok(())
            }
            Err(failure) => Err(io::Error::new(failure.kind, failure.why)),
        }
    }
}

impl Consumer for FileSink {
    fn consume(&mut self, chunk: Chunk) -> io::Result<Option<Vec<u8>>> {
        let running = self.running()?;
        running.apply_chunk(&chunk);
        if !matches!(running.kept, Kept::Newest(_)) {
            let new = lock(&running.contents.build_ids).take_new_records();
            running.writer.append(&new)?;
            running.writer.append(&chunk.bytes)?;
        }
        Ok(Some(chunk.bytes))
    }
}
