//! A trace for Perfetto (<https://perfetto.dev>): a `StackSample` packet for each sample, which Perfetto reads from version 58
//! on.
//!
//! Each event has a sequence of packets. Stacks and names are written with the first sample that refers to them.

mod interned;
mod messages;

use std::collections::HashMap;
use std::io::{self, Write};

use model::{Gap, Timestamp};
use profile::FrameKind;
use prost::Message;

use super::dictionary::{Dictionary, TimedSample};
use super::timeline::Timeline;
use super::{ExportedEvent, ExportedRecording};
use interned::Interned;
use messages::{
    BOOTTIME, Clock, ClockSnapshot, CounterDescriptor, ExecutionContext, INSTANT, NEEDS_STATE, Process,
    ProcessTree, REALTIME, SLICE_BEGIN, SLICE_END, STATE_CLEARED, StackSample, StackSampleDefaults,
    TaskContext, Thread, TracePacket, TracePacketDefaults, TrackDescriptor, TrackEvent, Unit,
};

/// The protobuf tag of a packet: field 1 of a trace, with a length.
const PACKET_TAG: u8 = 1 << 3 | 2;
/// The sequence of packets other than samples.
const FIRST_SEQUENCE: u32 = 1;
/// The first track of gaps. The one before it has the caveats.
const GAPS: u64 = 2;
const CAVEATS: u64 = 1;

/// The units of counters that Perfetto defines, by event names.
const UNITS: [(&str, i32); 6] = [
    ("cycles", 2),
    ("instructions", 3),
    ("page-faults", 5),
    ("cache-misses", 6),
    ("cache-references", 7),
    ("branch-misses", 8),
];
const NANOSECONDS: i32 = 1;

pub(super) fn write(
    recording: &ExportedRecording<'_>,
    dictionary: &Dictionary,
    output: &mut dyn Write,
) -> io::Result<()> {
    let timeline = Timeline::new(recording, dictionary);
    let mut trace = Trace { output, buffer: Vec::new() };
    trace.packet(&beginning(recording, dictionary, timeline))?;
    for (event, number) in recording.events.iter().zip(0..) {
        samples(event, number, recording, dictionary, timeline, &mut trace)?;
    }
    missing(recording, timeline, &mut trace)
}

/// A writer of packets.
struct Trace<'o> {
    output: &'o mut dyn Write,
    buffer: Vec<u8>,
}

impl Trace<'_> {
    fn packet(&mut self, packet: &TracePacket) -> io::Result<()> {
        self.buffer.clear();
        self.buffer.push(PACKET_TAG);
        packet.encode_length_delimited(&mut self.buffer).map_err(io::Error::other)?;
        self.output.write_all(&self.buffer)
    }
}

/// Clocks, and the names of processes and threads.
fn beginning(recording: &ExportedRecording<'_>, dictionary: &Dictionary, timeline: Timeline) -> TracePacket {
    let clock = |clock_id, timestamp| Clock { clock_id, timestamp };
    let snapshot = recording.started_unix_ns.map(|started| ClockSnapshot {
        clocks: vec![clock(BOOTTIME, timeline.origin), clock(REALTIME, started)],
    });
    // A thread gets the name under which it has most samples.
    let samples = dictionary.samples_by_thread();
    let mut order: Vec<usize> = (0..samples.len()).collect();
    order.sort_by_key(|&thread| samples[thread]);
    let (mut processes, mut threads) = (HashMap::new(), HashMap::new());
    for number in order {
        let thread = &dictionary.threads.values[number];
        let (pid, tid) = ids(dictionary, number);
        processes.insert(pid, thread.process.as_ref().unwrap_or(&thread.comm).clone());
        threads.insert((pid, tid), thread.comm.clone());
    }
    let process = |(pid, name)| Process { pid, cmdline: vec![name], cmdline_is_comm: true };
    let mut processes: Vec<Process> = processes.into_iter().map(process).collect();
    processes.sort_by_key(|process| process.pid);
    let thread = |((tgid, tid), name)| Thread { tid, name, tgid };
    let mut threads: Vec<Thread> = threads.into_iter().map(thread).collect();
    threads.sort_by_key(|thread| (thread.tgid, thread.tid));
    TracePacket {
        timestamp: Some(timeline.origin),
        trusted_packet_sequence_id: FIRST_SEQUENCE,
        sequence_flags: STATE_CLEARED,
        clock_snapshot: snapshot,
        process_tree: Some(ProcessTree { processes, threads }),
        ..TracePacket::default()
    }
}

/// Returns the process and thread ids of a thread. Threads that are counted by name get made-up ids.
fn ids(dictionary: &Dictionary, thread: usize) -> (i32, i32) {
    let known = dictionary.threads.values.get(thread).and_then(|thread| thread.ids);
    let number = i32::try_from(thread).unwrap_or(i32::MAX).saturating_add(1);
    known.unwrap_or((number, number))
}

fn samples(
    event: &ExportedEvent<'_>,
    number: u32,
    recording: &ExportedRecording<'_>,
    dictionary: &Dictionary,
    timeline: Timeline,
    trace: &mut Trace<'_>,
) -> io::Result<()> {
    let sequence = FIRST_SEQUENCE + 1 + number;
    let name = event.name.split(':').next().unwrap_or(&event.name);
    let known = UNITS.iter().find(|(unit, _)| *unit == name).map(|(_, number)| *number);
    let unit = known.or(event.is_clock.then_some(NANOSECONDS));
    let unit = unit.map_or_else(|| Unit::Other(event.name.clone()), Unit::Known);
    let descriptor = CounterDescriptor { name: event.name.clone(), unit: Some(unit) };
    let defaults = StackSampleDefaults { source: "prof".to_owned(), primary_descriptor: Some(descriptor) };
    trace.packet(&TracePacket {
        timestamp: Some(timeline.origin),
        trusted_packet_sequence_id: sequence,
        sequence_flags: STATE_CLEARED,
        trace_packet_defaults: Some(TracePacketDefaults { stack_sample_defaults: Some(defaults) }),
        ..TracePacket::default()
    })?;
    let mut interned = Interned::new(dictionary);
    for (sample, index) in dictionary.timed(recording, number as usize).zip(0..) {
        let new = interned.stack(sample.stack);
        trace.packet(&TracePacket {
            timestamp: Some(timeline.origin.saturating_add(timeline.since_start(&sample, index))),
            trusted_packet_sequence_id: sequence,
            sequence_flags: NEEDS_STATE,
            interned_data: new,
            stack_sample: Some(stack_sample(&sample, dictionary)),
            ..TracePacket::default()
        })?;
    }
    Ok(())
}

fn stack_sample(sample: &TimedSample, dictionary: &Dictionary) -> StackSample {
    const USER: i32 = 1;
    const KERNEL: i32 = 2;
    let (pid, tid) = ids(dictionary, sample.thread as usize);
    let innermost = dictionary.stacks.values.get(sample.stack as usize).and_then(|stack| stack.first());
    let innermost = innermost.and_then(|&location| dictionary.locations.values.get(location as usize));
    let mode = match innermost.and_then(|location| location.kind) {
        Some(FrameKind::Kernel) => KERNEL,
        Some(_) => USER,
        None => 0,
    };
    StackSample {
        task_context: Some(TaskContext { pid: u32::try_from(pid).ok(), tid: u32::try_from(tid).ok() }),
        execution_context: Some(ExecutionContext { cpu: sample.cpu, mode }),
        callstack_iid: u64::from(sample.stack) + 1,
        primary_weight: Some(sample.count.period),
    }
}

/// Writes the track of caveats, and tracks of gaps.
fn missing(recording: &ExportedRecording<'_>, timeline: Timeline, trace: &mut Trace<'_>) -> io::Result<()> {
    let packet = |timestamp| TracePacket {
        timestamp: Some(timestamp),
        trusted_packet_sequence_id: FIRST_SEQUENCE,
        ..TracePacket::default()
    };
    let track = |uuid, name: &str| TracePacket {
        track_descriptor: Some(TrackDescriptor { uuid, name: name.to_owned() }),
        ..packet(timeline.origin)
    };
    let event = |kind, track_uuid, name: String, at: u64| TracePacket {
        track_event: Some(TrackEvent { kind, track_uuid, name }),
        ..packet(timeline.origin.saturating_add(at))
    };
    trace.packet(&track(CAVEATS, "How far this can be trusted"))?;
    for (of, truth) in recording.events.iter().zip(&recording.caveats) {
        trace.packet(&event(INSTANT, CAVEATS, format!("{}: {truth}", of.name), 0))?;
    }
    // Slices of one track must not overlap, but gaps of several CPUs may.
    let mut ends: Vec<u64> = Vec::new();
    for Gap { start: Timestamp(start), end: Timestamp(gap_end), lost } in timeline.gaps(recording) {
        let free = ends.iter().position(|&end| end <= start);
        let lane = free.unwrap_or(ends.len());
        let uuid = GAPS + lane as u64;
        match ends.get_mut(lane) {
            Some(end) => *end = gap_end,
            None => {
                trace.packet(&track(uuid, "Missing samples"))?;
                ends.push(gap_end);
            }
        }
        let name = match lost {
            0 => "throttled".to_owned(),
            1 => "1 record lost".to_owned(),
            lost => format!("{lost} records lost"),
        };
        trace.packet(&event(SLICE_BEGIN, uuid, name, start))?;
        trace.packet(&event(SLICE_END, uuid, String::new(), gap_end))?;
    }
    Ok(())
}
