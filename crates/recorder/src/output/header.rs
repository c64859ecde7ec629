//! The header that all files of a recording have in common, and the beginning of such a file.

use std::collections::HashSet;
use std::fs::File;
use std::io;

use decoder::record::MmapIdentity;
use decoder::{
    Attr, AttrFlags, BranchSampleFormat, RawRecord, Record, RecordLayout, SampleFormat, kind, misc,
};
use host::files::NewFile;
use host::sys::clock;
use model::{BuildId, Name, Pid, TextSymbol};
use perfdata::features::{
    BuildIdEntry, ClockData, Compression, EventDescription, Features, GroupDescription,
};
use perfdata::write::{Compressor, FileWriter, PipeWriter, RecordWriter};

use super::{Output, machine_features, tracing_data};
use crate::consumer::Recording;
use crate::records::raw_records;

/// The mode of recordings: only the user who recorded may read what their programs do.
pub(crate) const FILE_MODE: u32 = 0o600;
const CLOCK_REALTIME: i32 = 0;
/// `PERF_COMP_ZSTD`
const ZSTD: u32 = 1;

/// The part of the header that all files of a recording have in common: events, clock, command line.
#[derive(Clone)]
pub(crate) struct Description {
    pub(crate) events: Vec<EventDescription>,
    /// The layout of sideband records.
    pub(crate) layout: Option<RecordLayout>,
    groups: Vec<GroupDescription>,
    clock: Option<Clock>,
    tracing_data: Option<Vec<u8>>,
    command_line: Vec<Name>,
    compression: Option<i32>,
    ring_size: u32,
}

impl Description {
    /// Describes `recording` and reads its clock. `command_line` is that of this process; `compression` is a level of zstd.
    ///
    /// # Errors
    /// If the formats of tracepoints cannot be read.
    pub(crate) fn new(
        recording: &Recording,
        command_line: Vec<Name>,
        compression: Option<i32>,
    ) -> io::Result<Self> {
        let describe = |event: &crate::consumer::RecordedEvent| EventDescription {
            attr: event.attr.clone(),
            name: Name::from(event.name.as_str()),
            ids: event.ids.clone(),
        };
        let tracepoints: Vec<_> =
            recording.events.iter().filter_map(|event| event.tracepoint.clone()).collect();
        let first = recording.events.first();
        let has_clock = first.is_some_and(|event| event.attr.flags.contains(AttrFlags::USE_CLOCKID));
        Ok(Self {
            events: recording.events.iter().map(describe).collect(),
            layout: recording.layout(recording.events.len().saturating_sub(1)),
            groups: groups(recording),
            clock: first.filter(|_| has_clock).and_then(|event| Clock::read(event.attr.clockid)),
            tracing_data: match tracepoints.is_empty() {
                true => None,
                false => Some(tracing_data::encode(&tracepoints)?),
            },
            command_line,
            compression,
            ring_size: u32::try_from(recording.ring_size).unwrap_or(1 << 30),
        })
    }

    /// Returns the number of the records' clock (`CLOCK_*`); `None` for the kernel's own, which cannot be read.
    pub(crate) fn clock_id(&self) -> Option<i32> {
        self.clock.map(|clock| clock.now.clockid.cast_signed())
    }

    /// Writes the beginning of a file.
    ///
    /// # Errors
    /// Those of writing, for example to a full disk.
    pub(crate) fn create_file(&self, file: NewFile) -> io::Result<Output> {
        let mut writer = FileWriter::create(file, &self.events)?;
        writer.checkpoint()?;
        Ok(match self.compression {
            Some(level) => Output::CompressedFile(Box::new(Compressor::new(writer, level, self.ring_size)?)),
            None => Output::File(writer),
        })
    }

    /// Writes the beginning of a stream in the format for pipes.
    ///
    /// # Errors
    /// Those of writing.
    pub(crate) fn create_stream(&self, stream: File) -> io::Result<Output> {
        // The reader of a pipe needs this before the records.
        let compression = self.compression.map(|level| Compression {
            kind: ZSTD,
            level: level.unsigned_abs(),
            ratio: 1,
            mmap_len: self.ring_size,
        });
        let features = Features { compression, ..self.features(&BuildIds::default(), None) };
        let writer = PipeWriter::create(stream, &self.events, &features)?;
        Ok(match self.compression {
            Some(level) => {
                Output::CompressedStream(Box::new(Compressor::new(writer, level, self.ring_size)?))
            }
            None => Output::Stream(writer),
        })
    }

    /// Returns the features of a file with these build ids, and with first and last sample at `sample_time` (nanoseconds).
    pub(crate) fn features(&self, build_ids: &BuildIds, sample_time: Option<(u64, u64)>) -> Features {
        Features {
            build_ids: build_ids.entries(),
            command_line: self.command_line.clone(),
            groups: self.groups.clone(),
            clock_resolution: self.clock.map(|clock| clock.resolution),
            clock: self.clock.map(|clock| clock.now),
            tracing_data: self.tracing_data.clone(),
            events: self.events.clone(),
            sample_time,
            branch_stack: self.events.iter().any(|event| records_branches(&event.attr)),
            ..machine_features::of_this_machine()
        }
    }
}

/// Collects the build ids of mapped objects for the header.
#[derive(Clone, Default)]
pub(crate) struct BuildIds {
    known: HashSet<BuildId>,
    found: Vec<(BuildId, Vec<u8>, u16)>,
}

impl BuildIds {
    /// Adds the build id of a record, if it is a mapping with one.
    pub(crate) fn add_record(&mut self, raw: &RawRecord<'_>, layout: &RecordLayout) {
        if raw.kind != kind::MMAP2 || raw.misc & misc::MMAP_BUILD_ID == 0 {
            return;
        }
        let Ok(Record::Mmap(map)) = layout.decode(raw) else { return };
        if let Some(MmapIdentity::BuildId(Some(id))) = map.extended.map(|extended| extended.identity)
            && self.known.insert(id)
        {
            let is_kernel = map.path.starts_with(b"[kernel");
            let path = if is_kernel { TextSymbol::split_path(map.path).0 } else { map.path };
            let mode = raw.misc & misc::CPUMODE_MASK;
            self.found.push((id, path.to_vec(), mode));
        }
    }

    /// Adds the build ids of all records in `records`.
    pub(crate) fn add_all(&mut self, records: &[u8], layout: &RecordLayout) {
        for raw in raw_records(records) {
            self.add_record(&raw, layout);
        }
    }

    /// Adds the build ids of `others`.
    pub(crate) fn add(&mut self, others: &Self) {
        let new = others.found.iter().filter(|(id, _, _)| self.known.insert(*id));
        self.found.extend(new.cloned());
    }

    fn entries(&self) -> Vec<BuildIdEntry> {
        let entry = |(build_id, path, mode): &(BuildId, Vec<u8>, u16)| BuildIdEntry {
            pid: Pid(-1),
            misc: *mode,
            build_id: *build_id,
            path: Name::from(path.as_slice()),
        };
        self.found.iter().map(entry).collect()
    }
}

/// Returns true if the user asked for the branches of samples, rather than for call chains made of them.
fn records_branches(attr: &Attr) -> bool {
    let branches = attr.sample_format.contains(SampleFormat::BRANCH_STACK);
    branches && !attr.branch_sample_format.contains(BranchSampleFormat::CALL_STACK)
}

/// A reading of the timestamps' clock, beside the wall clock, when the recording began.
#[derive(Clone, Copy)]
struct Clock {
    resolution: u64,
    now: ClockData,
}

impl Clock {
    /// Reads the clock with this number; `None` if the kernel does not know it.
    fn read(id: i32) -> Option<Self> {
        let before = clock::now(id).ok()?;
        let wall_clock = clock::now(CLOCK_REALTIME).ok()?;
        let after = clock::now(id).ok()?;
        let now = ClockData { clockid: id.unsigned_abs(), wall_clock, clock: before.midpoint(after) };
        Some(Self { resolution: clock::resolution(id).ok()?, now })
    }
}

/// Returns the leader of each group with the number of its events.
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
