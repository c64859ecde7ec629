//! The records that tools write beside the kernel's: types 64 and above
//! (`tools/lib/perf/include/perf/event.h`).

mod cpu_map;
pub mod kind;
mod parse;

pub use cpu_map::CpuMap;

use decoder::Attr;

use crate::features::BuildIdEntry;
use crate::sections::Piece;

/// A decoded tool record.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum ToolRecord<'a> {
    /// `HEADER_ATTR`: an event and the ids of its instances.
    HeaderAttr {
        /// The attr with which it was opened.
        attr: Box<Attr>,
        /// The kernel's ids.
        ids: Vec<u64>,
    },
    /// `HEADER_EVENT_TYPE`: no tool writes it any more.
    HeaderEventType {
        /// The event's config.
        id: u64,
        /// Its name.
        name: &'a [u8],
    },
    /// `HEADER_EVENT_TYPE` with a part of a section of our own.
    Section(Piece<'a>),
    /// `HEADER_TRACING_DATA`, with the number of bytes that follow the record.
    HeaderTracingData {
        /// Bytes, without padding.
        size: u32,
        /// The bytes that lie in the record instead: all of them where simpleperf wrote it.
        inside: &'a [u8],
    },
    /// `HEADER_BUILD_ID`; `None` where the id is empty.
    HeaderBuildId(Option<BuildIdEntry>),
    /// `FINISHED_ROUND`: no later record is older than the newest before the previous round.
    FinishedRound,
    /// `ID_INDEX`: which CPU and thread an id belongs to.
    IdIndex(Vec<IdIndexEntry>),
    /// `AUXTRACE_INFO`
    AuxtraceInfo {
        /// `PERF_AUXTRACE_*`: 1 Intel PT, 2 Intel BTS, 3 CoreSight, …
        kind: u32,
        /// Words of the trace's own.
        private: Vec<u64>,
    },
    /// `AUXTRACE`: `size` bytes follow behind the record.
    Auxtrace {
        /// Bytes.
        size: u64,
        /// In the AUX area.
        offset: u64,
        /// A number that tells traces apart.
        reference: u64,
        /// Of the AUX area.
        index: u32,
        /// The traced thread.
        tid: u32,
        /// The traced CPU.
        cpu: u32,
    },
    /// `AUXTRACE_ERROR`
    AuxtraceError(AuxtraceError<'a>),
    /// `THREAD_MAP`: threads (pid and name) that were asked for.
    ThreadMap(Vec<(u64, &'a [u8])>),
    /// `CPU_MAP`: CPUs that were asked for.
    CpuMap(CpuMap),
    /// `STAT_CONFIG`: (tag, value) pairs: 0 aggregation, 1 interval, 2 scale.
    StatConfig(Vec<(u64, u64)>),
    /// `STAT`: a count.
    Stat {
        /// The event's id.
        id: u64,
        /// The CPU.
        cpu: u32,
        /// The position in THREAD_MAP.
        thread: u32,
        /// The count.
        value: u64,
        /// Nanoseconds.
        enabled: u64,
        /// Nanoseconds.
        running: u64,
    },
    /// `STAT_ROUND`
    StatRound {
        /// 0 interval, 1 final.
        kind: u64,
        /// Nanoseconds.
        time: u64,
    },
    /// `EVENT_UPDATE`
    EventUpdate {
        /// The event's id.
        id: u64,
        /// The new property of the event.
        update: EventUpdate<'a>,
    },
    /// `TIME_CONV`: TSC to nanoseconds.
    TimeConv {
        /// `time_shift`
        shift: u64,
        /// `time_mult`
        mult: u64,
        /// `time_zero`
        zero: u64,
        /// `time_cycles` and `time_mask`, in newer recordings.
        short: Option<(u64, u64)>,
    },
    /// `HEADER_FEATURE`: a feature section; of the number that ends the list, it is empty.
    HeaderFeature {
        /// A number of [`crate::features::bit`].
        feature: u64,
        /// The section.
        body: &'a [u8],
    },
    /// `COMPRESSED` and `COMPRESSED2`: a piece of the zstd stream.
    Compressed(&'a [u8]),
    /// `FINISHED_INIT`: all that existed before the recording has been described.
    FinishedInit,
    /// `BPF_METADATA`: a program's name, and names and values of its variables.
    BpfMetadata {
        /// The program.
        program: &'a [u8],
        /// Names and values.
        variables: Vec<(&'a [u8], &'a [u8])>,
    },
    /// `SCHEDSTAT_CPU`
    SchedstatCpu {
        /// Nanoseconds.
        timestamp: u64,
        /// The CPU.
        cpu: u32,
        /// Of `/proc/schedstat`.
        version: u16,
        /// The fields of that version.
        body: &'a [u8],
    },
    /// `SCHEDSTAT_DOMAIN`
    SchedstatDomain {
        /// Nanoseconds.
        timestamp: u64,
        /// The CPU.
        cpu: u32,
        /// Of `/proc/schedstat`.
        version: u16,
        /// The domain's number.
        domain: u16,
        /// The fields of that version.
        body: &'a [u8],
    },
}

/// The origin of the events of an id.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IdIndexEntry {
    /// The kernel's id.
    pub id: u64,
    /// Of the ring.
    pub index: u64,
    /// All ones for any.
    pub cpu: u64,
    /// All ones for any.
    pub tid: u64,
}

/// The error of a trace decoder.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct AuxtraceError<'a> {
    /// 1: instruction trace.
    pub kind: u32,
    /// The decoder's own.
    pub code: u32,
    /// The CPU.
    pub cpu: u32,
    /// The process.
    pub pid: u32,
    /// The thread.
    pub tid: u32,
    /// The instruction pointer.
    pub ip: u64,
    /// The time.
    pub time: u64,
    /// The message, without its NUL.
    pub message: &'a [u8],
}

/// The contents of EVENT_UPDATE.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum EventUpdate<'a> {
    /// Of the counts.
    Unit(&'a [u8]),
    /// By which counts are multiplied.
    Scale(f64),
    /// The event's name.
    Name(&'a [u8]),
    /// The CPUs it counts on.
    Cpus(CpuMap),
    /// A number that this version does not know.
    Unknown(u64),
}
