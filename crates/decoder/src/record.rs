//! The records of `PERF_RECORD_*` (`include/uapi/linux/perf_event.h`), typed. Borrowed from the bytes they were
//! decoded from; no allocation.

use model::{BuildId, CpuId, FileIdentity, Pid, Tid, Timestamp};

pub use crate::header::CpuMode;
use crate::sample::Sample;
use crate::values::{CounterValues, U64s};

/// The trailer that every record but SAMPLE carries when `attr.sample_id_all` is set; each part is there if the
/// event's `sample_type` has its bit.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct SampleId {
    /// The process and thread that caused the record (`PERF_SAMPLE_TID`).
    pub thread: Option<(Pid, Tid)>,
    /// The time (`PERF_SAMPLE_TIME`); 0 in records that a tool synthesized.
    pub time: Option<Timestamp>,
    /// The event's id (`PERF_SAMPLE_ID`).
    pub id: Option<u64>,
    /// The id of the very event instance (`PERF_SAMPLE_STREAM_ID`).
    pub stream_id: Option<u64>,
    /// The CPU (`PERF_SAMPLE_CPU`).
    pub cpu: Option<CpuId>,
    /// The event's id at a place that does not depend on the event (`PERF_SAMPLE_IDENTIFIER`).
    pub identifier: Option<u64>,
}

/// A decoded record.
#[derive(Clone, PartialEq, Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "lives on the stack, one at a time; the large one is the frequent one"
)]
#[non_exhaustive]
pub enum Record<'a> {
    /// `PERF_RECORD_MMAP` (1) and `PERF_RECORD_MMAP2` (10): a mapping was made.
    Mmap(Mmap<'a>),
    /// `PERF_RECORD_LOST` (2): the ring was full.
    Lost(Lost),
    /// `PERF_RECORD_COMM` (3): a thread has a new name.
    Comm(Comm<'a>),
    /// `PERF_RECORD_EXIT` (4): a thread ended.
    Exit(Task),
    /// `PERF_RECORD_THROTTLE` (5): the event fired too often and is held back.
    Throttle(Throttle),
    /// `PERF_RECORD_UNTHROTTLE` (6): it goes on.
    Unthrottle(Throttle),
    /// `PERF_RECORD_FORK` (7): a thread or process began.
    Fork(Task),
    /// `PERF_RECORD_READ` (8): counter values.
    Read(Read<'a>),
    /// `PERF_RECORD_SAMPLE` (9).
    Sample(Sample<'a>),
    /// `PERF_RECORD_AUX` (11): data arrived in the AUX area.
    Aux(Aux),
    /// `PERF_RECORD_ITRACE_START` (12): an instruction trace begins.
    ItraceStart(ItraceStart),
    /// `PERF_RECORD_LOST_SAMPLES` (13): samples that the PMU, or (time 0) the whole recording of an event, lost.
    LostSamples(LostSamples),
    /// `PERF_RECORD_SWITCH` (14) and `PERF_RECORD_SWITCH_CPU_WIDE` (15): a context switch.
    Switch(Switch),
    /// `PERF_RECORD_NAMESPACES` (16): the namespaces of a process.
    Namespaces(Namespaces<'a>),
    /// `PERF_RECORD_KSYMBOL` (17): code was loaded into the kernel, or unloaded.
    Ksymbol(Ksymbol<'a>),
    /// `PERF_RECORD_BPF_EVENT` (18): a BPF program was loaded or unloaded.
    BpfEvent(BpfEvent),
    /// `PERF_RECORD_CGROUP` (19): the path of a cgroup id.
    Cgroup(Cgroup<'a>),
    /// `PERF_RECORD_TEXT_POKE` (20): the kernel changed its own code.
    TextPoke(TextPoke<'a>),
    /// `PERF_RECORD_AUX_OUTPUT_HW_ID` (21).
    AuxOutputHwId(AuxOutputHwId),
    /// `PERF_RECORD_CALLCHAIN_DEFERRED` (22): the user part of earlier samples' call chains.
    CallchainDeferred(CallchainDeferred<'a>),
}

/// A mapping (addresses in the process, or in the kernel where `misc` says so).
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Mmap<'a> {
    /// The process whose address space it is; −1 for the kernel's (synthesized).
    pub pid: Pid,
    /// The thread that mapped it.
    pub tid: Tid,
    /// First address (Avma).
    pub start: u64,
    /// Length in bytes.
    pub len: u64,
    /// Offset in the file, in bytes. For the kernel image: the address of its reference symbol.
    pub page_offset: u64,
    /// The path, `[vdso]`, `//anon`, `[kernel.kallsyms]_text`, …, without its NUL.
    pub path: &'a [u8],
    /// The fields that MMAP2 adds; `None` for MMAP.
    pub extended: Option<MmapExtended>,
    /// `PERF_RECORD_MISC_MMAP_DATA`: not executable.
    pub data: bool,
    /// The privilege level of the mapping.
    pub mode: CpuMode,
    /// `PERF_RECORD_MISC_PROC_MAP_PARSE_TIMEOUT`: the tool's scan of /proc was cut short; mappings may be missing.
    pub scan_cut_short: bool,
    /// The trailer.
    pub sample_id: SampleId,
}

/// The fields that `PERF_RECORD_MMAP2` has beyond MMAP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MmapExtended {
    /// The file's identity: one of the two forms.
    pub identity: MmapIdentity,
    /// `PROT_*` of `mmap(2)`.
    pub protection: u32,
    /// `MAP_*` of `mmap(2)`.
    pub flags: u32,
}

/// The two forms of a file's identity in MMAP2; `PERF_RECORD_MISC_MMAP_BUILD_ID` tells which.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MmapIdentity {
    /// Device and inode.
    File(FileIdentity),
    /// The build id; `None` where the record's has no bytes.
    BuildId(Option<BuildId>),
}

/// Records that did not fit into a ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lost {
    /// The id of the event that noticed the loss (not necessarily the one that lost).
    pub id: u64,
    /// The number of lost records, of any type, of all events of the ring.
    pub lost: u64,
    /// The trailer.
    pub sample_id: SampleId,
}

/// A new name of a thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Comm<'a> {
    /// The process.
    pub pid: Pid,
    /// The thread.
    pub tid: Tid,
    /// The name, without its NUL.
    pub comm: &'a [u8],
    /// `PERF_RECORD_MISC_COMM_EXEC`: the process now runs another program; its old mappings are gone.
    pub exec: bool,
    /// The trailer.
    pub sample_id: SampleId,
}

/// A thread that began or ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Task {
    /// The process of the thread.
    pub pid: Pid,
    /// The process that created it.
    pub parent_pid: Pid,
    /// The thread.
    pub tid: Tid,
    /// The thread that created it.
    pub parent_tid: Tid,
    /// The time.
    pub time: Timestamp,
    /// The trailer.
    pub sample_id: SampleId,
}

/// The kernel held an event back, or let it go again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Throttle {
    /// The time.
    pub time: Timestamp,
    /// The event's id.
    pub id: u64,
    /// The id of the very event instance.
    pub stream_id: u64,
    /// The trailer.
    pub sample_id: SampleId,
}

/// Counter values of a thread.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Read<'a> {
    /// The process.
    pub pid: Pid,
    /// The thread.
    pub tid: Tid,
    /// The values, laid out by `attr.read_format`.
    pub values: CounterValues<'a>,
    /// The trailer.
    pub sample_id: SampleId,
}

/// New data in the AUX area.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Aux {
    /// The offset in the AUX area, in bytes since its beginning.
    pub offset: u64,
    /// The number of new bytes.
    pub size: u64,
    /// `PERF_AUX_FLAG_*`.
    pub flags: u64,
    /// The trailer.
    pub sample_id: SampleId,
}

/// An instruction trace begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ItraceStart {
    /// The traced process.
    pub pid: Pid,
    /// The traced thread.
    pub tid: Tid,
    /// The trailer (absent in records of some kernels).
    pub sample_id: SampleId,
}

/// Samples that never reached a ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LostSamples {
    /// The number of lost samples.
    pub lost: u64,
    /// Dropped by a BPF filter rather than lost (`PERF_RECORD_MISC_LOST_SAMPLES_BPF`).
    pub filtered_by_bpf: bool,
    /// The trailer; a time of 0 marks the tool's own total, which replaces LOST records.
    pub sample_id: SampleId,
}

/// A context switch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Switch {
    /// The thread of the trailer was switched out (otherwise in).
    pub out: bool,
    /// It was switched out while it could have gone on.
    pub preempted: bool,
    /// `PERF_RECORD_SWITCH_CPU_WIDE`: the thread that comes next (out) or that ran before (in).
    pub other: Option<(Pid, Tid)>,
    /// The trailer.
    pub sample_id: SampleId,
}

/// The namespaces of a process, as (device, inode) pairs.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Namespaces<'a> {
    /// The process.
    pub pid: Pid,
    /// The thread.
    pub tid: Tid,
    /// Device and inode in turn: net, uts, ipc, pid, user, mnt, cgroup.
    pub links: U64s<'a>,
    /// The trailer.
    pub sample_id: SampleId,
}

/// Code in the kernel that comes and goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ksymbol<'a> {
    /// First address (kernel Avma).
    pub start: u64,
    /// Length in bytes.
    pub len: u32,
    /// `PERF_RECORD_KSYMBOL_TYPE_*`: 1 BPF, 2 out-of-line code.
    pub kind: u16,
    /// `PERF_RECORD_KSYMBOL_FLAGS_UNREGISTER`: it goes.
    pub unregister: bool,
    /// The name, without its NUL.
    pub name: &'a [u8],
    /// The trailer.
    pub sample_id: SampleId,
}

/// A BPF program that comes or goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BpfEvent {
    /// `PERF_BPF_EVENT_*`: 1 loaded, 2 unloaded.
    pub kind: u16,
    /// Flags (none defined).
    pub flags: u16,
    /// The program's id.
    pub id: u32,
    /// The program's tag.
    pub tag: [u8; 8],
    /// The trailer.
    pub sample_id: SampleId,
}

/// The path of a cgroup.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cgroup<'a> {
    /// The id that samples carry.
    pub id: u64,
    /// The path from the root of the hierarchy, without its NUL.
    pub path: &'a [u8],
    /// The trailer.
    pub sample_id: SampleId,
}

/// A change of kernel code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TextPoke<'a> {
    /// First address (kernel Avma).
    pub address: u64,
    /// The bytes before.
    pub old: &'a [u8],
    /// The bytes after.
    pub new: &'a [u8],
    /// The trailer.
    pub sample_id: SampleId,
}

/// The hardware's id of an event that writes to an AUX area.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AuxOutputHwId {
    /// The id.
    pub hw_id: u64,
    /// The trailer.
    pub sample_id: SampleId,
}

/// User addresses for the samples whose chains end in `PERF_CONTEXT_USER_DEFERRED` and this cookie.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct CallchainDeferred<'a> {
    /// The cookie that the samples end in.
    pub cookie: u64,
    /// The addresses, innermost first, with context markers.
    pub ips: U64s<'a>,
    /// The trailer.
    pub sample_id: SampleId,
}
