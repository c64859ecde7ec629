//! The messages of a trace, with the field numbers of Perfetto's definitions (`protos/perfetto/trace`).

use prost::{Message, Oneof};

/// `SEQ_INCREMENTAL_STATE_CLEARED`: interned data of earlier packets of the sequence is invalid.
pub(super) const STATE_CLEARED: u32 = 1;
/// `SEQ_NEEDS_INCREMENTAL_STATE`: the packet refers to interned data of earlier packets.
pub(super) const NEEDS_STATE: u32 = 2;
pub(super) const REALTIME: u32 = 1;
pub(super) const BOOTTIME: u32 = 6;
pub(super) const SLICE_BEGIN: i32 = 1;
pub(super) const SLICE_END: i32 = 2;
pub(super) const INSTANT: i32 = 3;

#[derive(Clone, PartialEq, Message)]
pub(super) struct TracePacket {
    #[prost(message, optional, tag = "2")]
    pub(super) process_tree: Option<ProcessTree>,
    #[prost(message, optional, tag = "6")]
    pub(super) clock_snapshot: Option<ClockSnapshot>,
    #[prost(uint64, optional, tag = "8")]
    pub(super) timestamp: Option<u64>,
    #[prost(uint32, tag = "10")]
    pub(super) trusted_packet_sequence_id: u32,
    #[prost(message, optional, tag = "11")]
    pub(super) track_event: Option<TrackEvent>,
    #[prost(message, optional, tag = "12")]
    pub(super) interned_data: Option<InternedData>,
    #[prost(uint32, tag = "13")]
    pub(super) sequence_flags: u32,
    #[prost(message, optional, tag = "59")]
    pub(super) trace_packet_defaults: Option<TracePacketDefaults>,
    #[prost(message, optional, tag = "60")]
    pub(super) track_descriptor: Option<TrackDescriptor>,
    #[prost(message, optional, tag = "135")]
    pub(super) stack_sample: Option<StackSample>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ProcessTree {
    #[prost(message, repeated, tag = "1")]
    pub(super) processes: Vec<Process>,
    #[prost(message, repeated, tag = "2")]
    pub(super) threads: Vec<Thread>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Process {
    #[prost(int32, tag = "1")]
    pub(super) pid: i32,
    #[prost(string, repeated, tag = "3")]
    pub(super) cmdline: Vec<String>,
    #[prost(bool, tag = "9")]
    pub(super) cmdline_is_comm: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Thread {
    #[prost(int32, tag = "1")]
    pub(super) tid: i32,
    #[prost(string, tag = "2")]
    pub(super) name: String,
    #[prost(int32, tag = "3")]
    pub(super) tgid: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ClockSnapshot {
    #[prost(message, repeated, tag = "1")]
    pub(super) clocks: Vec<Clock>,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct Clock {
    #[prost(uint32, tag = "1")]
    pub(super) clock_id: u32,
    #[prost(uint64, tag = "2")]
    pub(super) timestamp: u64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct TrackDescriptor {
    #[prost(uint64, tag = "1")]
    pub(super) uuid: u64,
    #[prost(string, tag = "2")]
    pub(super) name: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct TrackEvent {
    #[prost(int32, tag = "9")]
    pub(super) kind: i32,
    #[prost(uint64, tag = "11")]
    pub(super) track_uuid: u64,
    #[prost(string, tag = "23")]
    pub(super) name: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct TracePacketDefaults {
    #[prost(message, optional, tag = "100")]
    pub(super) stack_sample_defaults: Option<StackSampleDefaults>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct StackSampleDefaults {
    #[prost(string, tag = "1")]
    pub(super) source: String,
    #[prost(message, optional, tag = "2")]
    pub(super) primary_descriptor: Option<CounterDescriptor>,
}

/// The descriptor of a counter: the unit of the weights of samples.
#[derive(Clone, PartialEq, Message)]
pub(super) struct CounterDescriptor {
    #[prost(string, tag = "2")]
    pub(super) name: String,
    #[prost(oneof = "Unit", tags = "3, 4")]
    pub(super) unit: Option<Unit>,
}

#[derive(Clone, PartialEq, Eq, Oneof)]
pub(super) enum Unit {
    #[prost(int32, tag = "3")]
    Known(i32),
    #[prost(string, tag = "4")]
    Other(String),
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct StackSample {
    #[prost(message, optional, tag = "1")]
    pub(super) task_context: Option<TaskContext>,
    #[prost(message, optional, tag = "3")]
    pub(super) execution_context: Option<ExecutionContext>,
    #[prost(uint64, tag = "6")]
    pub(super) callstack_iid: u64,
    /// Optional, so that a weight of 0 is written.
    #[prost(uint64, optional, tag = "11")]
    pub(super) primary_weight: Option<u64>,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct TaskContext {
    /// Optional, so that 0, the idle task, is written.
    #[prost(uint32, optional, tag = "2")]
    pub(super) pid: Option<u32>,
    #[prost(uint32, optional, tag = "3")]
    pub(super) tid: Option<u32>,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct ExecutionContext {
    #[prost(uint32, optional, tag = "2")]
    pub(super) cpu: Option<u32>,
    #[prost(int32, tag = "3")]
    pub(super) mode: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct InternedData {
    #[prost(message, repeated, tag = "5")]
    pub(super) function_names: Vec<InternedBytes>,
    #[prost(message, repeated, tag = "6")]
    pub(super) frames: Vec<Frame>,
    #[prost(message, repeated, tag = "7")]
    pub(super) callstacks: Vec<Callstack>,
    #[prost(message, repeated, tag = "16")]
    pub(super) build_ids: Vec<InternedBytes>,
    #[prost(message, repeated, tag = "17")]
    pub(super) mapping_paths: Vec<InternedBytes>,
    #[prost(message, repeated, tag = "18")]
    pub(super) source_paths: Vec<InternedBytes>,
    #[prost(message, repeated, tag = "19")]
    pub(super) mappings: Vec<Mapping>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct InternedBytes {
    #[prost(uint64, tag = "1")]
    pub(super) iid: u64,
    #[prost(bytes = "vec", tag = "2")]
    pub(super) bytes: Vec<u8>,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct Frame {
    #[prost(uint64, tag = "1")]
    pub(super) iid: u64,
    #[prost(uint64, tag = "2")]
    pub(super) function_name_id: u64,
    #[prost(uint64, tag = "3")]
    pub(super) mapping_id: u64,
    /// Written for every frame with a mapping, also if 0.
    #[prost(uint64, optional, tag = "4")]
    pub(super) rel_pc: Option<u64>,
    #[prost(uint64, optional, tag = "5")]
    pub(super) source_path_iid: Option<u64>,
    #[prost(uint32, optional, tag = "6")]
    pub(super) line_number: Option<u32>,
    #[prost(int32, tag = "7")]
    pub(super) kind: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Callstack {
    #[prost(uint64, tag = "1")]
    pub(super) iid: u64,
    /// Outermost first.
    #[prost(uint64, repeated, packed = "false", tag = "2")]
    pub(super) frame_ids: Vec<u64>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Mapping {
    #[prost(uint64, tag = "1")]
    pub(super) iid: u64,
    #[prost(uint64, tag = "2")]
    pub(super) build_id: u64,
    #[prost(uint64, repeated, packed = "false", tag = "7")]
    pub(super) path_string_ids: Vec<u64>,
}
