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
/// `PERF_RECORD_AUXTRACE`
pub const AUXTRACE: u32 = 71;
/// `PERF_RECORD_EVENT_UPDATE`
pub const EVENT_UPDATE: u32 = 78;
/// `PERF_RECORD_HEADER_FEATURE`
pub const HEADER_FEATURE: u32 = 80;
/// `PERF_RECORD_COMPRESSED`
pub const COMPRESSED: u32 = 81;
/// `PERF_RECORD_FINISHED_INIT`
pub const FINISHED_INIT: u32 = 82;
/// `PERF_RECORD_COMPRESSED2`
pub const COMPRESSED2: u32 = 83;
/// simpleperf's `SIMPLE_PERF_RECORD_TRACING_DATA`, the only one of its own types that tells us anything. Records of these
/// types have the high half of a size of 32 bits in place of `misc` (`simpleperf/record.h`).
pub const SIMPLEPERF_TRACING_DATA: u32 = 32777;
/// The first of simpleperf's own types.
pub const FIRST_OF_SIMPLEPERF: u32 = 32768;

/// The names from [`HEADER_ATTR`] on, as perf prints them.
const NAMES: [&str; 23] = [
    "ATTR",
    "EVENT_TYPE",
    "TRACING_DATA",
    "BUILD_ID",
    "FINISHED_ROUND",
    "ID_INDEX",
    "AUXTRACE_INFO",
    "AUXTRACE",
    "AUXTRACE_ERROR",
    "THREAD_MAP",
    "CPU_MAP",
    "STAT_CONFIG",
    "STAT",
    "STAT_ROUND",
    "EVENT_UPDATE",
    "TIME_CONV",
    "FEATURE",
    "COMPRESSED",
    "FINISHED_INIT",
    "COMPRESSED2",
    "BPF_METADATA",
    "SCHEDSTAT_CPU",
    "SCHEDSTAT_DOMAIN",
];

/// The name of a tool record type, as perf prints it; `None` for a type that this version does not know.
pub fn name(kind: u32) -> Option<&'static str> {
    if kind == SIMPLEPERF_TRACING_DATA {
        return Some("SIMPLEPERF_TRACING_DATA");
    }
    NAMES.get(kind.checked_sub(HEADER_ATTR)? as usize).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_types() {
        assert_eq!(name(HEADER_ATTR), Some("ATTR"));
        assert_eq!(name(HEADER_FEATURE), Some("FEATURE"));
        assert_eq!(name(COMPRESSED2), Some("COMPRESSED2"));
        assert_eq!(name(86), Some("SCHEDSTAT_DOMAIN"));
        assert_eq!([0, 63, 87, u32::MAX].map(name), [None; 4]);
    }
}
