//! Recording into perf.data: a file, or a stream into a pipe; compressed if asked.

use std::fs::File;
use std::io;
use std::time::Duration;

use decoder::record::{LostSamples, Read};
use decoder::values::{CounterValues, U64s};
use decoder::{Endian, RawRecord, ReadFormat, Record, RecordLayout, SampleId, kind};
use host::files::{DestinationKind, NameInFolder, NewFile};
use model::{Loss, Name, Timestamp};
use perfdata::sections;
use perfdata::write::RecordWriter;

use super::write_behind::{self, WriteBehind};
use super::{BuildIds, Description, MODE, Output};
use crate::consumer::{Chunk, Consumer, Ending, LostCount, Recording, RecordingSink, RingKind, TaskTime};
use crate::processes::ProcessTable;

/// Bytes of records that may wait for a destination that takes nothing for a while.
pub const OUTPUT_BUFFER_BYTES: usize = write_behind::BUFFER;

/// The destination of a recording, before it has begun.
enum Begin {
    Name(NameInFolder),
    Unnamed(NewFile),
    Stream(File),
}

/// The writer of one of the two shapes.
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
    description: Option<Description>,
    writer: Option<Writer>,
    build_ids: BuildIds,
    processes: ProcessTable,
    /// First and last, nanoseconds.
    sample_time: Option<(u64, u64)>,
    size: u64,
    /// True if each event is the sideband event.
    are_sideband: Vec<bool>,
    /// Sums of LOST records, of rings of samples and of sideband rings: to a reader, a record no longer says which.
    lost: [u64; 2],
    /// Samples that could not be unwound, because they could not be decoded.
    undecodable: u64,
}

impl FileConsumer {
    /// Writes to `place`: a name gets a file when the recording begins, an existing one becomes `NAME.old`; a stream gets the
    /// form for pipes. `command_line` is our own, for the header.
    pub fn new(place: DestinationKind, command_line: Vec<Name>) -> Self {
        let destination = match place {
            DestinationKind::Name(name) => Begin::Name(name),
            DestinationKind::Stream(stream) => Begin::Stream(stream),
        };
        Self::with(destination, command_line)
    }

    /// Writes to a file that never gets a name.
    pub fn unnamed(file: NewFile, command_line: Vec<Name>) -> Self {
        Self::with(Begin::Unnamed(file), command_line)
    }

    fn with(begin: Begin, command_line: Vec<Name>) -> Self {
        Self {
            begin: Some(begin),
            compression: None,
            command_line,
            description: None,
            writer: None,
            build_ids: BuildIds::default(),
            processes: ProcessTable::default(),
            sample_time: None,
            size: 0,
            are_sideband: Vec::new(),
            lost: [0; 2],
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

    /// For how long the buffer before the destination, of [`OUTPUT_BUFFER_BYTES`] bytes, was full, because that took nothing.
    pub fn blocked_time(&self) -> Duration {
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
        let Some(layout) = layout_of(&self.description) else { return };
        while let Ok((raw, size)) = RawRecord::parse(records, Endian::NATIVE) {
            records = records.get(size..).unwrap_or(&[]);
            self.processes.apply(&raw, layout);
            self.build_ids.note(&raw, layout);
            add_lost(&raw, layout, &mut self.lost[1]);
        }
    }

    /// Notes the first and the last time of a sample.
    fn note_times(&mut self, mut records: &[u8]) {
        let Some(layout) = layout_of(&self.description) else { return };
        while let Ok((raw, size)) = RawRecord::parse(records, Endian::NATIVE) {
            records = records.get(size..).unwrap_or(&[]);
            add_lost(&raw, layout, &mut self.lost[0]);
            // Samples of all events have their time at the same place.
            if let Some(Timestamp(time)) = layout.time_of(&raw).filter(|_| raw.kind == kind::SAMPLE) {
                let (first, last) = self.sample_time.unwrap_or((time, time));
                self.sample_time = Some((first.min(time), last.max(time)));
            }
        }
    }
}

fn layout_of(description: &Option<Description>) -> Option<&RecordLayout> {
    description.as_ref()?.layout.as_ref()
}

/// Adds what a LOST record says, if it is one.
fn add_lost(raw: &RawRecord<'_>, layout: &RecordLayout, sum: &mut u64) {
    if raw.kind == kind::LOST
        && let Ok(Record::Lost(record)) = layout.decode(raw)
    {
        *sum = sum.saturating_add(record.lost);
    }
}

/// Samples lost by each event where the kernel does not count them: rings of samples are all one, and those of sideband.
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

impl RecordingSink for FileConsumer {
    fn begin(&mut self, recording: &Recording) -> io::Result<()> {
        let description =
            Description::new(recording, std::mem::take(&mut self.command_line), self.compression)?;
        let begin = self.begin.take().ok_or(io::ErrorKind::NotFound)?;
        self.writer = Some(Writer::AtOnce(match begin {
            Begin::Name(name) => {
                let file = NewFile::create(name, MODE)?;
                file.may_take_name_keeping_old()?;
                description.begin_file(file)?
            }
            Begin::Unnamed(file) => description.begin_file(file)?,
            Begin::Stream(stream) => description.begin_stream(stream)?,
        }));
        self.description = Some(description);
        self.are_sideband = recording.events.iter().map(|event| event.sideband).collect();
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

    fn add_loss(&mut self, loss: Loss) {
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
        let Some(description) = &self.description else { return Err(io::ErrorKind::NotFound.into()) };
        if let Some(layout) = &description.layout {
            let lost = ending.lost.clone().unwrap_or_else(|| lost_of_rings(&self.are_sideband, self.lost));
            // What could not be decoded reaches a reader no more than what the kernel lost.
            let undecoded = std::iter::once(self.undecodable).chain(std::iter::repeat(0));
            for ((event, count), undecoded) in description.events.iter().zip(lost).zip(undecoded) {
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
        if let Some(layout) = &description.layout {
            ending.task_times.iter().for_each(|time| append_task_time(time, layout, &mut records));
        }
        let mut features = description.features(&self.build_ids, self.sample_time);
        let stacks = ending.stacks.map(|stacks| (sections::id::STACK_TOTALS, stacks.to_section()));
        features.sections.extend(stacks);
        features.sections.extend(self.processes.sections());
        let watched = ending.watched.map(|watched| (sections::id::WATCHED_TIME, watched.to_section()));
        features.sections.extend(watched);
        let sampled = ending.switches.as_ref();
        let sampled = sampled.map(|sampling| (sections::id::SWITCH_SAMPLING, sampling.to_section()));
        features.sections.extend(sampled);
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

impl Consumer for FileConsumer {
    fn consume(&mut self, chunk: Chunk) -> io::Result<Option<Vec<u8>>> {
        match chunk.ring {
            RingKind::Sideband | RingKind::TaskTimes => self.note_mappings(&chunk.bytes),
            RingKind::Samples => self.note_times(&chunk.bytes),
        }
        self.writer()?.append(&chunk.bytes)?;
        Ok(Some(chunk.bytes))
    }
}
