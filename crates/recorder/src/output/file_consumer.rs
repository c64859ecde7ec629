//! The consumer that writes one perf.data file, or a stream into a pipe.

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
use super::{BuildIds, Description, FILE_MODE, Output, include_time};
use crate::consumer::{Chunk, Consumer, Ending, LostCount, Recording, RecordingSink, RingKind, TaskTime};
use crate::processes::ProcessTable;
use crate::records::raw_records;

/// Size of the buffer before the output, in bytes, for a disk or pipe that stalls for a while.
pub const OUTPUT_BUFFER_BYTES: usize = write_behind::BUFFER_BYTES;

/// The output before the recording has begun.
enum PendingOutput {
    Name(NameInFolder),
    Unnamed(NewFile),
    Stream(File),
}

/// The writer before and after the recording has started.
enum Writer {
    /// Writes on the caller's thread until the recording starts, so that an error prevents the start of the command.
    Direct(Output),
    Behind(WriteBehind),
}

/// Writes a recording as perf.data.
pub struct FileConsumer {
    /// Taken when the recording begins.
    begin: Option<PendingOutput>,
    compression: Option<i32>,
    command_line: Vec<Name>,
    description: Option<Description>,
    writer: Option<Writer>,
    build_ids: BuildIds,
    processes: ProcessTable,
    /// The times of the first and the last sample, in nanoseconds.
    sample_time: Option<(u64, u64)>,
    size: u64,
    /// For each event, true if it is the sideband event.
    are_sideband: Vec<bool>,
    /// Sums of LOST records in rings of samples, and in sideband rings. The records themselves do not tell the two apart.
    lost: [u64; 2],
    /// Number of samples that the unwinding stage dropped because they could not be decoded.
    undecodable: u64,
}

impl FileConsumer {
    /// Writes to `place`: a name gets a file when the recording begins, an existing one becomes `NAME.old`; a stream gets the
    /// form for pipes. `command_line` is our own, for the header.
    pub fn new(place: DestinationKind, command_line: Vec<Name>) -> Self {
        let destination = match place {
            DestinationKind::Name(name) => PendingOutput::Name(name),
            DestinationKind::Stream(stream) => PendingOutput::Stream(stream),
        };
        Self::with(destination, command_line)
    }

    /// Writes to a file that never gets a name.
    pub fn unnamed(file: NewFile, command_line: Vec<Name>) -> Self {
        Self::with(PendingOutput::Unnamed(file), command_line)
    }

    fn with(begin: PendingOutput, command_line: Vec<Name>) -> Self {
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

    /// Returns the number of samples that the unwinding stage dropped because they could not be decoded.
    pub fn undecodable(&self) -> u64 {
        self.undecodable
    }

    /// Compresses the records with zstd at `level` (1 to 22).
    #[must_use]
    pub fn compressed(mut self, level: i32) -> Self {
        self.compression = Some(level);
        self
    }

    /// Returns the size of the finished file in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Returns for how long recording was blocked because the buffer of [`OUTPUT_BUFFER_BYTES`] was full.
    pub fn blocked_time(&self) -> Duration {
        match &self.writer {
            Some(Writer::Behind(writer)) => writer.blocked_time(),
            _ => Duration::ZERO,
        }
    }

    fn writer(&mut self) -> io::Result<&mut dyn RecordWriter> {
        match &mut self.writer {
            Some(Writer::Direct(output)) => Ok(output.records()),
            Some(Writer::Behind(writer)) => Ok(writer),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// Collects build ids of mapped objects and processes with generated code, for the header, and sums LOST records.
    fn apply_sideband(&mut self, records: &[u8]) {
        let Some(layout) = layout_of(&self.description) else { return };
        for raw in raw_records(records) {
            self.processes.apply(&raw, layout);
            self.build_ids.add_record(&raw, layout);
            add_lost(&raw, layout, &mut self.lost[1]);
        }
    }

    /// Updates the times of the first and the last sample, and sums LOST records.
    fn apply_samples(&mut self, records: &[u8]) {
        let Some(layout) = layout_of(&self.description) else { return };
        for raw in raw_records(records) {
            add_lost(&raw, layout, &mut self.lost[0]);
            // Samples of all events have their time at the same offset.
            let time = layout.time_of(&raw).filter(|_| raw.kind == kind::SAMPLE);
            include_time(&mut self.sample_time, time.map(|time| time.0));
        }
    }
}

fn layout_of(description: &Option<Description>) -> Option<&RecordLayout> {
    description.as_ref()?.layout.as_ref()
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

impl RecordingSink for FileConsumer {
    fn begin(&mut self, recording: &Recording) -> io::Result<()> {
        let description =
            Description::new(recording, std::mem::take(&mut self.command_line), self.compression)?;
        let begin = self.begin.take().ok_or(io::ErrorKind::NotFound)?;
        self.writer = Some(Writer::Direct(match begin {
            PendingOutput::Name(name) => {
                let file = NewFile::create(name, FILE_MODE)?;
                file.may_take_name_keeping_old()?;
                description.create_file(file)?
            }
            PendingOutput::Unnamed(file) => description.create_file(file)?,
            PendingOutput::Stream(stream) => description.create_stream(stream)?,
        }));
        self.build_ids = description.build_ids.clone();
        self.processes = ProcessTable::new(&recording.resources);
        self.description = Some(description);
        self.are_sideband = recording.events.iter().map(|event| event.sideband).collect();
        Ok(())
    }

    fn started(&mut self) -> io::Result<()> {
        let writer = self.writer()?;
        writer.finished_init()?;
        writer.checkpoint()?;
        if let Some(Writer::Direct(mut output)) = self.writer.take() {
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
        self.build_ids.finish();
        self.processes.finish();
        let mut records = self.build_ids.take_new_records();
        let Some(description) = &self.description else { return Err(io::ErrorKind::NotFound.into()) };
        if let Some(layout) = &description.layout {
            let lost = ending.lost.clone().unwrap_or_else(|| lost_of_rings(&self.are_sideband, self.lost));
            // Samples that could not be decoded are missing in the file, like those that the kernel lost.
            let undecoded = std::iter::once(self.undecodable).chain(std::iter::repeat(0));
            for ((event, count), undecoded) in description.events.iter().zip(lost).zip(undecoded) {
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
        let samplers = self.are_sideband.iter().filter(|is_sideband| !**is_sideband).count();
        let lost = ending.lost.iter().flatten().take(samplers).map(|count| count.samples).sum();
        let missing = ending.coverage.missing(lost);
        if !missing.is_empty() {
            let section = sections::missing_samples::to_section(&missing);
            features.sections.push((sections::id::MISSING_SAMPLES, section));
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
            RingKind::Sideband | RingKind::TaskTimes => self.apply_sideband(&chunk.bytes),
            RingKind::Samples => self.apply_samples(&chunk.bytes),
        }
        let new = self.build_ids.take_new_records();
        let writer = self.writer()?;
        writer.append(&new)?;
        writer.append(&chunk.bytes)?;
        Ok(Some(chunk.bytes))
    }
}
