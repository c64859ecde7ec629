//! The messages of a trace, with the field numbers of Perfetto's definitions (`protos/perfetto/trace`).

use prost::{Message, Oneof};

use super::super::messages::messages;

/// `SEQ_INCREMENTAL_STATE_CLEARED`: interned data of earlier packets of the sequence is invalid.
pub(super) const STATE_CLEARED: u32 = 1;
/// `SEQ_NEEDS_INCREMENTAL_STATE`: the packet refers to interned data of earlier packets.
pub(super) const NEEDS_STATE: u32 = 2;
pub(super) const REALTIME: u32 = 1;
pub(super) const BOOTTIME: u32 = 6;
pub(super) const SLICE_BEGIN: i32 = 1;
pub(super) const SLICE_END: i32 = 2;
pub(super) const INSTANT: i32 = 3;

messages! {
    pub(super) TracePacket {
        process_tree: Option<ProcessTree> = 2 (message, optional),
        clock_snapshot: Option<ClockSnapshot> = 6 (message, optional),
        timestamp: Option<u64> = 8 (uint64, optional),
        trusted_packet_sequence_id: u32 = 10 (uint32),
        track_event: Option<TrackEvent> = 11 (message, optional),
        interned_data: Option<InternedData> = 12 (message, optional),
        sequence_flags: u32 = 13 (uint32),
        trace_packet_defaults: Option<TracePacketDefaults> = 59 (message, optional),
        track_descriptor: Option<TrackDescriptor> = 60 (message, optional),
        stack_sample: Option<StackSample> = 135 (message, optional),
    }

    pub(super) ProcessTree {
        processes: Vec<Process> = 1 (message, repeated),
        threads: Vec<Thread> = 2 (message, repeated),
    }

    pub(super) Process {
        pid: i32 = 1 (int32),
        cmdline: Vec<String> = 3 (string, repeated),
        cmdline_is_comm: bool = 9 (bool),
    }

    pub(super) Thread {
        tid: i32 = 1 (int32),
        name: String = 2 (string),
        tgid: i32 = 3 (int32),
    }

    pub(super) ClockSnapshot {
        clocks: Vec<Clock> = 1 (message, repeated),
    }

    #[derive(Copy)]
    pub(super) Clock {
        clock_id: u32 = 1 (uint32),
        timestamp: u64 = 2 (uint64),
    }

    pub(super) TrackDescriptor {
        uuid: u64 = 1 (uint64),
        name: String = 2 (string),
    }

    pub(super) TrackEvent {
        kind: i32 = 9 (int32),
        track_uuid: u64 = 11 (uint64),
        name: String = 23 (string),
    }

    pub(super) TracePacketDefaults {
        stack_sample_defaults: Option<StackSampleDefaults> = 100 (message, optional),
    }

    pub(super) StackSampleDefaults {
        source: String = 1 (string),
        primary_descriptor: Option<CounterDescriptor> = 2 (message, optional),
    }
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

messages! {
    pub(super) StackSample {
        task_context: Option<TaskContext> = 1 (message, optional),
        execution_context: Option<ExecutionContext> = 3 (message, optional),
        callstack_iid: u64 = 6 (uint64),
        /// Optional, so that a weight of 0 is written.
        primary_weight: Option<u64> = 11 (uint64, optional),
    }

    #[derive(Copy)]
    pub(super) TaskContext {
        /// Optional, so that 0, the idle task, is written.
        pid: Option<u32> = 2 (uint32, optional),
        tid: Option<u32> = 3 (uint32, optional),
    }

    #[derive(Copy)]
    pub(super) ExecutionContext {
        cpu: Option<u32> = 2 (uint32, optional),
        mode: i32 = 3 (int32),
    }

    pub(super) InternedData {
        function_names: Vec<InternedBytes> = 5 (message, repeated),
        frames: Vec<Frame> = 6 (message, repeated),
        callstacks: Vec<Callstack> = 7 (message, repeated),
        build_ids: Vec<InternedBytes> = 16 (message, repeated),
        mapping_paths: Vec<InternedBytes> = 17 (message, repeated),
        source_paths: Vec<InternedBytes> = 18 (message, repeated),
        mappings: Vec<Mapping> = 19 (message, repeated),
    }

    pub(super) InternedBytes {
        iid: u64 = 1 (uint64),
        bytes: Vec<u8> = 2 (bytes = "vec"),
    }

    #[derive(Copy)]
    pub(super) Frame {
        iid: u64 = 1 (uint64),
        function_name_id: u64 = 2 (uint64),
        mapping_id: u64 = 3 (uint64),
        /// Written for every frame with a mapping, also if 0.
        rel_pc: Option<u64> = 4 (uint64, optional),
        source_path_iid: Option<u64> = 5 (uint64, optional),
        line_number: Option<u32> = 6 (uint32, optional),
        kind: i32 = 7 (int32),
    }

    pub(super) Callstack {
        iid: u64 = 1 (uint64),
        /// Outermost first.
        frame_ids: Vec<u64> = 2 (uint64, repeated, packed = "false"),
    }

    pub(super) Mapping {
        iid: u64 = 1 (uint64),
        build_id: u64 = 2 (uint64),
        path_string_ids: Vec<u64> = 7 (uint64, repeated, packed = "false"),
    }
}
