//! `struct perf_event_header`: the types of records, and the bits that it says about them.

use crate::endian::Endian;

/// Bytes of `struct perf_event_header`.
pub const HEADER_SIZE: usize = 8;

/// Record types of the kernel: `enum perf_event_type`.
pub mod kind {
    /// `PERF_RECORD_MMAP`
    pub const MMAP: u32 = 1;
    /// `PERF_RECORD_LOST`
    pub const LOST: u32 = 2;
    /// `PERF_RECORD_COMM`
    pub const COMM: u32 = 3;
    /// `PERF_RECORD_EXIT`
    pub const EXIT: u32 = 4;
    /// `PERF_RECORD_THROTTLE`
    pub const THROTTLE: u32 = 5;
    /// `PERF_RECORD_UNTHROTTLE`
    pub const UNTHROTTLE: u32 = 6;
    /// `PERF_RECORD_FORK`
    pub const FORK: u32 = 7;
    /// `PERF_RECORD_READ`
    pub const READ: u32 = 8;
    /// `PERF_RECORD_SAMPLE`
    pub const SAMPLE: u32 = 9;
    /// `PERF_RECORD_MMAP2`
    pub const MMAP2: u32 = 10;
    /// `PERF_RECORD_AUX`
    pub const AUX: u32 = 11;
    /// `PERF_RECORD_ITRACE_START`
    pub const ITRACE_START: u32 = 12;
    /// `PERF_RECORD_LOST_SAMPLES`
    pub const LOST_SAMPLES: u32 = 13;
    /// `PERF_RECORD_SWITCH`
    pub const SWITCH: u32 = 14;
    /// `PERF_RECORD_SWITCH_CPU_WIDE`
    pub const SWITCH_CPU_WIDE: u32 = 15;
    /// `PERF_RECORD_NAMESPACES`
    pub const NAMESPACES: u32 = 16;
    /// `PERF_RECORD_KSYMBOL`
    pub const KSYMBOL: u32 = 17;
    /// `PERF_RECORD_BPF_EVENT`
    pub const BPF_EVENT: u32 = 18;
    /// `PERF_RECORD_CGROUP`
    pub const CGROUP: u32 = 19;
    /// `PERF_RECORD_TEXT_POKE`
    pub const TEXT_POKE: u32 = 20;
    /// `PERF_RECORD_AUX_OUTPUT_HW_ID`
    pub const AUX_OUTPUT_HW_ID: u32 = 21;
    /// `PERF_RECORD_CALLCHAIN_DEFERRED`
    pub const CALLCHAIN_DEFERRED: u32 = 22;
    /// The first number that the kernel leaves to tools (`PERF_RECORD_USER_TYPE_START`).
    pub const FIRST_OF_TOOLS: u32 = 64;

    /// The name of a kernel record type, as in `PERF_RECORD_…`.
    pub fn name(kind: u32) -> Option<&'static str> {
        Some(match kind {
            MMAP => "MMAP",
            LOST => "LOST",
            COMM => "COMM",
            EXIT => "EXIT",
            THROTTLE => "THROTTLE",
            UNTHROTTLE => "UNTHROTTLE",
            FORK => "FORK",
            READ => "READ",
            SAMPLE => "SAMPLE",
            MMAP2 => "MMAP2",
            AUX => "AUX",
            ITRACE_START => "ITRACE_START",
            LOST_SAMPLES => "LOST_SAMPLES",
            SWITCH => "SWITCH",
            SWITCH_CPU_WIDE => "SWITCH_CPU_WIDE",
            NAMESPACES => "NAMESPACES",
            KSYMBOL => "KSYMBOL",
            BPF_EVENT => "BPF_EVENT",
            CGROUP => "CGROUP",
            TEXT_POKE => "TEXT_POKE",
            AUX_OUTPUT_HW_ID => "AUX_OUTPUT_HW_ID",
            CALLCHAIN_DEFERRED => "CALLCHAIN_DEFERRED",
            _ => return None,
        })
    }
}

/// Bits of `misc`. Some mean different things in different record types.
pub mod misc {
    /// `PERF_RECORD_MISC_CPUMODE_MASK`
    pub const CPUMODE_MASK: u16 = 7;
    /// `PERF_RECORD_MISC_PROC_MAP_PARSE_TIMEOUT`: in MMAP, MMAP2 and COMM.
    pub const PROC_MAP_PARSE_TIMEOUT: u16 = 1 << 12;
    /// `PERF_RECORD_MISC_MMAP_DATA`: in MMAP and MMAP2.
    pub const MMAP_DATA: u16 = 1 << 13;
    /// `PERF_RECORD_MISC_COMM_EXEC`: in COMM.
    pub const COMM_EXEC: u16 = 1 << 13;
    /// `PERF_RECORD_MISC_SWITCH_OUT`: in SWITCH and SWITCH_CPU_WIDE.
    pub const SWITCH_OUT: u16 = 1 << 13;
    /// `PERF_RECORD_MISC_EXACT_IP`: in SAMPLE.
    pub const EXACT_IP: u16 = 1 << 14;
    /// `PERF_RECORD_MISC_SWITCH_OUT_PREEMPT`: in SWITCH and SWITCH_CPU_WIDE.
    pub const SWITCH_OUT_PREEMPT: u16 = 1 << 14;
    /// `PERF_RECORD_MISC_MMAP_BUILD_ID`: in MMAP2.
    pub const MMAP_BUILD_ID: u16 = 1 << 14;
    /// `PERF_RECORD_MISC_LOST_SAMPLES_BPF`: in LOST_SAMPLES that a tool wrote.
    pub const LOST_SAMPLES_BPF: u16 = 1 << 15;
}

/// The privilege level of a record: `misc & PERF_RECORD_MISC_CPUMODE_MASK`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
#[non_exhaustive]
pub enum CpuMode {
    /// Not stated (0), or a value that this version does not know (6, 7).
    #[default]
    Unknown,
    /// In the kernel.
    Kernel,
    /// In user space.
    User,
    /// In the hypervisor.
    Hypervisor,
    /// In a guest's kernel.
    GuestKernel,
    /// In a guest's user space.
    GuestUser,
}

/// `struct perf_event_header`, in the byte order of the machine that reads it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecordHeader {
    /// `PERF_RECORD_*`; 64 and above belong to tools.
    pub kind: u32,
    /// `PERF_RECORD_MISC_*`.
    pub misc: u16,
    /// Bytes of the record, header included; not checked.
    pub size: usize,
}

impl RecordHeader {
    /// Decodes a header that was written in the byte order `endian`.
    #[inline]
    pub fn from_bytes(bytes: [u8; HEADER_SIZE], endian: Endian) -> Self {
        let [k0, k1, k2, k3, m0, m1, s0, s1] = bytes;
        Self {
            kind: endian.u32([k0, k1, k2, k3]),
            misc: endian.u16([m0, m1]),
            size: usize::from(endian.u16([s0, s1])),
        }
    }
}
