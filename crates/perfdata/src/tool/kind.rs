//! Types of tool records: `enum perf_user_event_type`.

/// `PERF_RECORD_HEADER_ATTR`
pub const HEADER_ATTR: u32 = 64;
/// `PERF_RECORD_HEADER_EVENT_TYPE`
pub const HEADER_EVENT_TYPE: u32 = 65;
/// `PERF_RECORD_HEADER_TRACING_DATA`
pub const HEADER_TRACING_DATA: u32 = 66;
/// `PERF_RECORD_HEADER_BUILD_ID`
pub const HEADER_BUILD_ID: u32 = 67;
/// `PERF_RECORD_FINISHED_ROUND`
pub const FINISHED_ROUND: u32 = 68;
/// `PERF_RECORD_ID_INDEX`
pub const ID_INDEX: u32 = 69;
/// `PERF_RECORD_AUXTRACE_INFO`
pub const AUXTRACE_INFO: u32 = 70;
/// `PERF_RECORD_AUXTRACE`
pub const AUXTRACE: u32 = 71;
/// `PERF_RECORD_AUXTRACE_ERROR`
pub const AUXTRACE_ERROR: u32 = 72;
/// `PERF_RECORD_THREAD_MAP`
pub const THREAD_MAP: u32 = 73;
/// `PERF_RECORD_CPU_MAP`
pub const CPU_MAP: u32 = 74;
/// `PERF_RECORD_STAT_CONFIG`
pub const STAT_CONFIG: u32 = 75;
/// `PERF_RECORD_STAT`
pub const STAT: u32 = 76;
/// `PERF_RECORD_STAT_ROUND`
pub const STAT_ROUND: u32 = 77;
/// `PERF_RECORD_EVENT_UPDATE`
pub const EVENT_UPDATE: u32 = 78;
/// `PERF_RECORD_TIME_CONV`
pub const TIME_CONV: u32 = 79;
/// `PERF_RECORD_HEADER_FEATURE`
pub const HEADER_FEATURE: u32 = 80;
/// `PERF_RECORD_COMPRESSED`
pub const COMPRESSED: u32 = 81;
/// `PERF_RECORD_FINISHED_INIT`
pub const FINISHED_INIT: u32 = 82;
/// `PERF_RECORD_COMPRESSED2`
pub const COMPRESSED2: u32 = 83;
/// `PERF_RECORD_BPF_METADATA`
pub const BPF_METADATA: u32 = 84;
/// `PERF_RECORD_SCHEDSTAT_CPU`
pub const SCHEDSTAT_CPU: u32 = 85;
/// `PERF_RECORD_SCHEDSTAT_DOMAIN`
pub const SCHEDSTAT_DOMAIN: u32 = 86;
/// simpleperf's `SIMPLE_PERF_RECORD_TRACING_DATA`, the only one of its own types that tells us anything. Records of these
/// types have the high half of a size of 32 bits in place of `misc` (`simpleperf/record.h`).
pub const SIMPLEPERF_TRACING_DATA: u32 = 32777;
/// The first of simpleperf's own types.
pub const FIRST_OF_SIMPLEPERF: u32 = 32768;

/// The name of a tool record type, as perf prints it.
pub fn name(kind: u32) -> Option<&'static str> {
    Some(match kind {
        HEADER_ATTR => "ATTR",
        HEADER_EVENT_TYPE => "EVENT_TYPE",
        HEADER_TRACING_DATA => "TRACING_DATA",
        HEADER_BUILD_ID => "BUILD_ID",
        FINISHED_ROUND => "FINISHED_ROUND",
        ID_INDEX => "ID_INDEX",
        AUXTRACE_INFO => "AUXTRACE_INFO",
        AUXTRACE => "AUXTRACE",
        AUXTRACE_ERROR => "AUXTRACE_ERROR",
        THREAD_MAP => "THREAD_MAP",
        CPU_MAP => "CPU_MAP",
        STAT_CONFIG => "STAT_CONFIG",
        STAT => "STAT",
        STAT_ROUND => "STAT_ROUND",
        EVENT_UPDATE => "EVENT_UPDATE",
        TIME_CONV => "TIME_CONV",
        HEADER_FEATURE => "FEATURE",
        COMPRESSED => "COMPRESSED",
        FINISHED_INIT => "FINISHED_INIT",
        COMPRESSED2 => "COMPRESSED2",
        BPF_METADATA => "BPF_METADATA",
        SCHEDSTAT_CPU => "SCHEDSTAT_CPU",
        SCHEDSTAT_DOMAIN => "SCHEDSTAT_DOMAIN",
        SIMPLEPERF_TRACING_DATA => "SIMPLEPERF_TRACING_DATA",
        _ => return None,
    })
}
