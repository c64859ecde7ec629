//! The header that all files of a recording have in common, and the beginning of such a file.

use std::fs::File;
use std::io;

use decoder::{Attr, AttrFlags, BranchSampleFormat, RecordLayout, SampleFormat};
use host::files::NewFile;
use host::sys::clock;
use model::Name;
use perfdata::features::{ClockData, Compression, EventDescription, Features, GroupDescription};
use perfdata::write::{Compressor, FileWriter, PipeWriter, RecordWriter};

use super::{BuildIds, Output, machine_features, tracing_data};
use crate::consumer::Recording;

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
    pub(crate) layout: RecordLayout,
    /// The build ids of the kernel, for each file of the recording to add those of what it maps.
    pub(crate) build_ids: BuildIds,
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
            layout: recording
                .layout(recording.events.len().saturating_sub(1))
                .ok_or(io::ErrorKind::Unsupported)?,
            build_ids: BuildIds::new(recording),
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
        let features = Features { compression, ..self.features(&self.build_ids, None) };
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
            sections: vec![build_ids.section()],
            branch_stack: self.events.iter().any(|event| records_branches(&event.attr)),
            ..machine_features::of_this_machine()
        }
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
