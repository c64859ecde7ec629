//! Recording into perf.data: a file, or a stream into a pipe; compressed if asked.

use std::fs::File;
use std::io;
use std::time::Duration;

use decoder::record::{LostSamples, MmapIdentity, Read};
use decoder::values::{CounterValues, U64s};
use decoder::{
    Attr, AttrFlags, BranchSampleFormat, Endian, RawRecord, ReadFormat, Record, RecordLayout, SampleFormat,
    SampleId, kind, misc,
};
use host::files::{NameInFolder, NewFile, Place};
use host::sys::clock;
use model::{BuildId, Loss, Name, Pid, Timestamp};
use perfdata::features::{
    BuildIdEntry, ClockData, Compression, EventDescription, Features, GroupDescription,
};
use perfdata::sections;
use perfdata::write::{Compressor, FileWriter, PipeWriter, RecordWriter};

use crate::consumer::{Chunk, Consumer, Ending, Recording, RingKind, TaskTime};
use crate::header;
use crate::output::Output;
use crate::process_table::ProcessTable;
use crate::tracing_data;
use crate::write_behind::{self, WriteBehind};

/// Only the user who recorded may read what their programs do.
const MODE: u32 = 0o600;
/// Bytes of records that may wait for a destination that takes nothing for a while.
pub const OUTPUT_BUFFER: usize = write_behind::BUFFER;
const CLOCK_REALTIME: i32 = 0;
/// `PERF_COMP_ZSTD`
const ZSTD: u32 = 1;

/// What a recording is written to, before it has begun.
enum Begin {
    Name(NameInFolder),
    Unseen(NewFile),
    Stream(File),
}

/// How it is written.
enum Writer {
    /// At once, until the recording begins: what fails now has started nothing.
    AtOnce(Output),
    Behind(WriteBehind),
}

/// Writes a recording as perf.data.
pub struct FileConsumer {
    /// Until the recording begins.
    begin: Option<Begin>,
    compression: Option<i32>,
    command_line: Vec<Name>,
    events: Vec<EventDescription>,
    groups: Vec<GroupDescription>,
    clock: Option<Clock>,
    tracing_data: Option<Vec<u8>>,
    layout: Option<RecordLayout>,
    writer: Option<Writer>,
    build_ids: Vec<(BuildId, Vec<u8>, u16)>,
    processes: ProcessTable,
    /// First and last, nanoseconds.
    sample_time: Option<(u64, u64)>,
    size: u64,
    /// Samples that could not be unwound, because they could not be decoded.
    undecodable: u64,
}

impl FileConsumer {
    /// Writes to `place`: a name gets a file when the recording begins, an existing one becomes `NAME.old`; a stream gets the
    /// form for pipes. `command_line` is our own, for the header.
    pub fn new(place: Place, command_line: Vec<Name>) -> Self {
        let destination = match place {
            Place::Name(name) => Begin::Name(name),
            Place::Stream(stream) => Begin::Stream(stream),
        };
        Self::with(destination, command_line)
    }

    /// Writes to a file that never gets a name.
    pub fn unseen(file: NewFile, command_line: Vec<Name>) -> Self {
        Self::with(Begin::Unseen(file), command_line)
    }

    fn with(begin: Begin, command_line: Vec<Name>) -> Self {
        Self {
            begin: Some(begin),
            compression: None,
            command_line,
            events: Vec::new(),
            groups: Vec::new(),
            clock: None,
            tracing_data: None,
            layout: None,
            writer: None,
            build_ids: Vec::new(),
            processes: ProcessTable::default(),
            sample_time: None,
            size: 0,
            undecodable: 0,
        }
    }

    /// Samples that are missing because they could not be decoded where stacks are unwound.
    pub fn undecodable(&self) -> u64 {
        self.undecodable
    }

    /// Compresses the records with zstd at `level` (1 to 22).
    #[must_use]
    pub fn compressed(mut self, level: i32) -> Self {
        self.compression = Some(level);
        self
    }

    /// Bytes of the finished file.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// For how long the buffer before the destination, of [`OUTPUT_BUFFER`] bytes, was full, because that took nothing.
    pub fn held_up(&self) -> Duration {
        match &self.writer {
            Some(Writer::Behind(writer)) => writer.waited(),
            _ => Duration::ZERO,
        }
    }

    fn writer(&mut self) -> io::Result<&mut dyn RecordWriter> {
        match &mut self.writer {
            Some(Writer::AtOnce(output)) => Ok(output.records()),
            Some(Writer::Behind(writer)) => Ok(writer),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// Notes the build ids of mapped objects, for the header, and whose generated code is.
    fn note_mappings(&mut self, mut records: &[u8]) {
        let Some(layout) = &self.layout else { return };
        while let Ok((raw, size)) = RawRecord::parse(records, Endian::NATIVE) {
            records = records.get(size..).unwrap_or(&[]);
            self.processes.take(&raw, layout);
            if raw.kind != kind::MMAP2 || raw.misc & misc::MMAP_BUILD_ID == 0 {
                continue;
            }
            let Ok(Record::Mmap(map)) = layout.decode(&raw) else { continue };
            if let Some(MmapIdentity::BuildId(Some(id))) = map.extended.map(|extended| extended.identity)
                && !self.build_ids.iter().any(|(known, _, _)| *known == id)
            {
                let path = map.path.strip_suffix(b"_text").filter(|path| path.starts_with(b"[kernel"));
                let mode = raw.misc & misc::CPUMODE_MASK;
                self.build_ids.push((id, path.unwrap_or(map.path).to_vec(), mode));
            }
        }
    }

    fn file(&self, file: NewFile, ring_size: u32) -> io::Result<Output> {
        let mut writer = FileWriter::create(file, &self.events)?;
        // A full disk shows before the command is started.
        writer.checkpoint()?;
        Ok(match self.compression {
            Some(level) => Output::CompressedFile(Box::new(Compressor::new(writer, level, ring_size)?)),
            None => Output::File(writer),
        })
    }

    fn stream(&self, stream: File, ring_size: u32) -> io::Result<Output> {
        // Who reads a pipe has to know before the records come.
        let compression = self.compression.map(|level| Compression {
            kind: ZSTD,
            level: level.unsigned_abs(),
            ratio: 1,
            mmap_len: ring_size,
        });
        let features = Features { compression, ..self.features() };
        let writer = PipeWriter::create(stream, &self.events, &features)?;
        Ok(match self.compression {
            Some(level) => Output::CompressedStream(Box::new(Compressor::new(writer, level, ring_size)?)),
            None => Output::Stream(writer),
        })
    }

    fn features(&self) -> Features {
        Features {
            build_ids: self
                .build_ids
                .iter()
                .map(|(id, path, mode)| BuildIdEntry {
                    pid: Pid(-1),
                    misc: *mode,
                    build_id: *id,
                    path: Name::from(path.as_slice()),
                })
                .collect(),
            command_line: self.command_line.clone(),
            groups: self.groups.clone(),
            clock_resolution: self.clock.map(|clock| clock.resolution),
            clock: self.clock.map(|clock| clock.now),
            tracing_data: self.tracing_data.clone(),
            events: self.events.clone(),
            sample_time: self.sample_time,
            branch_stack: self.events.iter().any(|event| records_branches(&event.attr)),
            ..header::of_this_machine()
        }
    }

    /// Notes the first and the last time of a sample.
    fn note_times(&mut self, mut records: &[u8]) {
        let Some(layout) = &self.layout else { return };
        while let Ok((raw, size)) = RawRecord::parse(records, Endian::NATIVE) {
            records = records.get(size..).unwrap_or(&[]);
            // Samples of all events have their time at the same place.
            if let Some(Timestamp(time)) = layout.time_of(&raw).filter(|_| raw.kind == kind::SAMPLE) {
                let (first, last) = self.sample_time.unwrap_or((time, time));
                self.sample_time = Some((first.min(time), last.max(time)));
            }
        }
    }
}

/// Appends a READ of what a task's clock told at the end. Time 0 marks it as ours, as it does our LOST_SAMPLES.
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

/// Whether the samples' branches are there for themselves, rather than for a call chain.
fn records_branches(attr: &Attr) -> bool {
    let branches = attr.sample_format.contains(SampleFormat::BRANCH_STACK);
    branches && !attr.branch_sample_format.contains(BranchSampleFormat::CALL_STACK)
}

/// The clock of the timestamps, when the recording began.
#[derive(Clone, Copy)]
struct Clock {
    resolution: u64,
    now: ClockData,
}

impl Clock {
    /// Reads the clock with this number. `None` where the kernel does not know it.
    fn read(id: i32) -> Option<Self> {
        let before = clock::now(id).ok()?;
        let wall_clock = clock::now(CLOCK_REALTIME).ok()?;
        let after = clock::now(id).ok()?;
        let now = ClockData { clockid: id.unsigned_abs(), wall_clock, clock: before.midpoint(after) };
        Some(Self { resolution: clock::resolution(id).ok()?, now })
    }
}

/// Leaders with the number of their events.
fn groups(recording: &Recording) -> Vec<GroupDescription> {
    let leader_of = |event: &crate::consumer::RecordedEvent| event.leader;
    let mut leaders: Vec<usize> = recording.events.iter().filter_map(leader_of).collect();
    leaders.dedup();
    let describe = |leader: &usize| {
        let members = recording.events.iter().filter(|event| event.leader == Some(*leader)).count();
        GroupDescription {
            name: Name::from(""),
            leader: u32::try_from(*leader).unwrap_or(u32::MAX),
            members: u32::try_from(members).unwrap_or(u32::MAX),
        }
    };
    leaders.iter().map(describe).collect()
}

impl Consumer for FileConsumer {
    fn begin(&mut self, recording: &Recording) -> io::Result<()> {
        self.events = recording
            .events
            .iter()
            .map(|event| EventDescription {
                attr: event.attr.clone(),
                name: Name::from(event.name.as_str()),
                ids: event.ids.clone(),
            })
            .collect();
        self.layout = recording.layout(recording.events.len().saturating_sub(1));
        self.groups = groups(recording);
        let tracepoints: Vec<_> =
            recording.events.iter().filter_map(|event| event.tracepoint.clone()).collect();
        if !tracepoints.is_empty() {
            self.tracing_data = Some(tracing_data::describe(&tracepoints)?);
        }
        let first = recording.events.first();
        let has_clock = first.is_some_and(|event| event.attr.flags.contains(AttrFlags::USE_CLOCKID));
        self.clock = first.filter(|_| has_clock).and_then(|event| Clock::read(event.attr.clockid));
        let ring_size = u32::try_from(recording.ring_size).unwrap_or(1 << 30);
        let begin = self.begin.take().ok_or(io::ErrorKind::NotFound)?;
        self.writer = Some(Writer::AtOnce(match begin {
            Begin::Name(name) => {
                let file = NewFile::create(name, MODE)?;
                file.may_take_name_keeping_old()?;
                self.file(file, ring_size)?
            }
            Begin::Unseen(file) => self.file(file, ring_size)?,
            Begin::Stream(stream) => self.stream(stream, ring_size)?,
        }));
        Ok(())
    }

    fn started(&mut self) -> io::Result<()> {
        let writer = self.writer()?;
        writer.finished_init()?;
        writer.checkpoint()?;
        if let Some(Writer::AtOnce(mut output)) = self.writer.take() {
            output.file().map_or(Ok(()), NewFile::take_name_keeping_old)?;
            self.writer = Some(Writer::Behind(WriteBehind::start(output).map_err(io::Error::other)?));
        }
        Ok(())
    }

    fn records(&mut self, chunk: Chunk) -> io::Result<Option<Vec<u8>>> {
        match chunk.ring {
            RingKind::Sideband | RingKind::TaskTimes => self.note_mappings(&chunk.bytes),
            RingKind::Samples => self.note_times(&chunk.bytes),
        }
        self.writer()?.append(&chunk.bytes)?;
        Ok(Some(chunk.bytes))
    }

    fn note_loss(&mut self, loss: Loss) {
        self.undecodable = self.undecodable.saturating_add(loss.undecodable);
    }

    fn finished_round(&mut self) -> io::Result<()> {
        self.writer()?.finished_round()
    }

    fn checkpoint(&mut self) -> io::Result<()> {
        self.writer()?.checkpoint()
    }

    fn end(&mut self, ending: &Ending) -> io::Result<()> {
        let mut records = Vec::new();
        if let (Some(layout), Some(lost)) = (&self.layout, &ending.lost) {
            // What could not be decoded reaches a reader no more than what the kernel lost.
            let undecoded = std::iter::once(self.undecodable).chain(std::iter::repeat(0));
            for ((event, count), undecoded) in self.events.iter().zip(lost).zip(undecoded) {
                let lost = count.samples.saturating_add(undecoded);
                if lost == 0 {
                    continue;
                }
                // Time 0 marks the tool's own total, which replaces what LOST records say.
                let sample_id = SampleId {
                    time: Some(Timestamp(0)),
                    identifier: event.ids.first().copied(),
                    ..SampleId::default()
                };
                let record = Record::LostSamples(LostSamples { lost, filtered_by_bpf: false, sample_id });
                // A record of 64 bytes fits.
                let _ = layout.encode(&record, &mut records);
            }
        }
        if let Some(layout) = &self.layout {
            ending.task_times.iter().for_each(|time| append_task_time(time, layout, &mut records));
        }
        let mut features = self.features();
        let stacks = ending.stacks.map(|stacks| (sections::id::STACK_TOTALS, stacks.to_section()));
        features.sections.extend(stacks);
        let processes = self.processes.to_section();
        features.sections.extend(processes.map(|section| (sections::id::PROCESSES, section)));
        let unread = ending.lost.iter().flatten().map(|count| count.unread);
        let unread = unread.fold(ending.full_rings, u64::saturating_add);
        if unread > 0 {
            features.sections.push((sections::id::UNREAD_LOST_COUNTS, unread.to_ne_bytes().to_vec()));
        }
        let writer = self.writer()?;
        writer.append(&records)?;
        self.size = writer.finish(&features)?;
        Ok(())
    }
}
