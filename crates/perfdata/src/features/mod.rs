//! Feature sections: what a recording says of the machine, the tool and the events, beside its records
//! (`tools/perf/Documentation/perf.data-file-format.txt`, "HEADER_TRACING_DATA = 1" and following).

mod encode;
mod field;
mod files;
pub(crate) mod parse;

use decoder::{Attr, Endian};
use model::{BuildId, Name, Pid};

use crate::error::Error;

pub use files::{FileKind, RecordedFile, RecordedSymbol};

/// Bit numbers of features: their place in the header's 256-bit map, and in `HEADER_FEATURE` records.
pub mod bit {
    macro_rules! bits {
        ($($(#[$documentation:meta])* $name:ident = $number:literal;)*) => {
            $($(#[$documentation])* pub const $name: u32 = $number;)*

            /// The name of a feature, as in `HEADER_…`.
            pub fn name(bit: u32) -> Option<&'static str> {
                match bit {
                    $($name => Some(stringify!($name)),)*
                    _ => None,
                }
            }
        };
    }

    bits! {
        /// Formats of tracepoints.
        TRACING_DATA = 1;
        /// Build ids of the objects that samples fell into.
        BUILD_ID = 2;
        /// `uname -n`
        HOSTNAME = 3;
        /// `uname -r`
        OSRELEASE = 4;
        /// The recording tool's version.
        VERSION = 5;
        /// `uname -m`
        ARCH = 6;
        /// The feature with the number of CPUs.
        NRCPUS = 7;
        /// The CPU's model name.
        CPUDESC = 8;
        /// The CPU's vendor, family, model, stepping.
        CPUID = 9;
        /// The feature with the size of memory.
        TOTAL_MEM = 10;
        /// The recording tool's arguments.
        CMDLINE = 11;
        /// Attributes, names and ids of the events.
        EVENT_DESC = 12;
        /// The feature with the CPUs that share a core, a die, a socket.
        CPU_TOPOLOGY = 13;
        /// The feature with the memory nodes.
        NUMA_TOPOLOGY = 14;
        /// Samples carry branch stacks.
        BRANCH_STACK = 15;
        /// Numbers and names of PMUs.
        PMU_MAPPINGS = 16;
        /// The feature with the event groups.
        GROUP_DESC = 17;
        /// The feature with the positions of AUX data.
        AUXTRACE = 18;
        /// Written by `perf stat record`.
        STAT = 19;
        /// The feature with the CPU caches.
        CACHE = 20;
        /// First and last time of a sample.
        SAMPLE_TIME = 21;
        /// Memory blocks of nodes.
        MEM_TOPOLOGY = 22;
        /// Resolution of the clock of timestamps.
        CLOCKID = 23;
        /// The recording is a directory.
        DIR_FORMAT = 24;
        /// The feature with the BPF programs.
        BPF_PROG_INFO = 25;
        /// Type information of BPF programs.
        BPF_BTF = 26;
        /// The records are compressed.
        COMPRESSED = 27;
        /// Capabilities of the CPU's PMU.
        CPU_PMU_CAPS = 28;
        /// The feature with the relation of the clock of timestamps to the wall clock.
        CLOCK_DATA = 29;
        /// PMUs of the kinds of cores.
        HYBRID_TOPOLOGY = 30;
        /// Capabilities of all PMUs.
        PMU_CAPS = 31;
        /// Scheduling domains of each CPU.
        CPU_DOMAIN_INFO = 32;
        /// ELF machine of the recorded processes.
        E_MACHINE = 33;
        /// Size of a cache line.
        CLN_SIZE = 34;
    }

    /// The number of bits of the header's map.
    pub const COUNT: u32 = 256;
}

/// All feature sections of a recording; what is absent from it is `None` or empty.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Features {
    /// Tracepoint formats, as [`bit::TRACING_DATA`] has them.
    pub tracing_data: Option<Vec<u8>>,
    /// Objects and their build ids.
    pub build_ids: Vec<BuildIdEntry>,
    /// `uname -n`
    pub hostname: Option<Name>,
    /// `uname -r`
    pub os_release: Option<Name>,
    /// The tool's version.
    pub version: Option<Name>,
    /// `uname -m`
    pub arch: Option<Name>,
    /// The number of CPUs.
    pub cpus: Option<CpuCounts>,
    /// For example `AMD EPYC 7543 32-Core Processor`.
    pub cpu_description: Option<Name>,
    /// For example `AuthenticAMD,25,1,1`.
    pub cpu_id: Option<Name>,
    /// In kB (1024 bytes).
    pub total_memory: Option<u64>,
    /// The tool's arguments, its name first.
    pub command_line: Vec<Name>,
    /// Attributes, names and ids of the events.
    pub events: Vec<EventDescription>,
    /// The CPUs that share cores, dies and sockets.
    pub cpu_topology: Option<CpuTopology>,
    /// Memory nodes.
    pub numa_topology: Vec<NumaNode>,
    /// True if samples carry branch stacks.
    pub branch_stack: bool,
    /// Type numbers and names of PMUs.
    pub pmu_mappings: Vec<(u32, Name)>,
    /// Event groups.
    pub groups: Vec<GroupDescription>,
    /// True if `perf stat record` wrote the file.
    pub stat: bool,
    /// CPU caches.
    pub caches: Vec<CpuCache>,
    /// First and last time of a sample, nanoseconds.
    pub sample_time: Option<(u64, u64)>,
    /// Memory blocks.
    pub memory_topology: Option<MemoryTopology>,
    /// The resolution of the timestamps' clock, in nanoseconds.
    pub clock_resolution: Option<u64>,
    /// The version of the directory format.
    pub directory_version: Option<u64>,
    /// The compression of the records.
    pub compression: Option<Compression>,
    /// Names and values.
    pub cpu_pmu_capabilities: Vec<(Name, Name)>,
    /// The relation of the timestamps' clock to the wall clock.
    pub clock: Option<ClockData>,
    /// PMUs and their CPUs (`cpu_core`, `0-15`).
    pub hybrid_topology: Vec<(Name, Name)>,
    /// PMUs with names and values of their capabilities.
    pub pmu_capabilities: Vec<PmuCapabilities>,
    /// Sections that are carried as they are: bit number and bytes.
    pub verbatim: Vec<(u32, Vec<u8>)>,
    /// Sections of our own, which have no bit: number ([`crate::sections::id`]) and bytes.
    #[doc(hidden)]
    pub sections: Vec<(u32, Vec<u8>)>,
    /// The offset of sections that were appended to the file when it was finished ([`crate::sections::appendix`]); `None` where
    /// there are none.
    #[doc(hidden)]
    pub appendix: Option<u64>,
}

impl Features {
    /// The sections that have contents, by ascending bit number, each with the bytes of its body.
    pub fn to_sections(&self, endian: Endian) -> Vec<(u32, Vec<u8>)> {
        encode::sections(self, endian)
    }

    /// Takes the body of the section `feature` (a number of [`bit`]). One that this version does not know is kept
    /// as it is in [`Features::verbatim`].
    ///
    /// # Errors
    /// [`Error::Cut`] or [`Error::Field`] where the body is damaged; the other sections stay.
    pub fn parse_section(&mut self, feature: u32, body: &[u8], endian: Endian) -> Result<(), Error> {
        parse::section(self, feature, body, endian)
    }

    /// The files that simpleperf describes; none in recordings of other tools.
    ///
    /// # Errors
    /// [`Error::Cut`] where a section is damaged, after the files before that place.
    pub fn recorded_files(&self, endian: Endian) -> (Vec<RecordedFile>, Option<Error>) {
        files::recorded(self, endian)
    }

    /// The bytes of a section of our own, by its number ([`crate::sections::id`]). `None` for one whose memory has no bound
    /// ([`crate::sections::most_held`]).
    #[doc(hidden)]
    pub fn section(&self, id: u32) -> Option<&[u8]> {
        crate::sections::most_held(id, 0)?;
        self.sections.iter().find(|(found, _)| *found == id).map(|(_, bytes)| bytes.as_slice())
    }
}

/// An object and its build id.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BuildIdEntry {
    /// −1 for the host, else the guest's.
    pub pid: Pid,
    /// `PERF_RECORD_MISC_*`: 1 for the kernel's, 2 for user space's.
    pub misc: u16,
    /// The id.
    pub build_id: BuildId,
    /// The path, `[kernel.kallsyms]`, `[vdso]`, …
    pub path: Name,
}

/// The number of CPUs of the machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CpuCounts {
    /// Configured.
    pub available: u32,
    /// Online.
    pub online: u32,
}

/// An event as its section describes it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EventDescription {
    /// The attr with which it was opened.
    pub attr: Attr,
    /// Its name, as the user gave it.
    pub name: Name,
    /// The kernel's ids of its instances.
    pub ids: Vec<u64>,
}

/// The CPUs that share a core, a die, a socket.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CpuTopology {
    /// CPU lists of sockets (`0-7`).
    pub core_siblings: Vec<Name>,
    /// CPU lists of cores.
    pub thread_siblings: Vec<Name>,
    /// Core and socket number of each CPU.
    pub cpus: Vec<(u32, u32)>,
    /// CPU lists of dies (newer recordings).
    pub die_siblings: Vec<Name>,
    /// Die number of each CPU (newer recordings).
    pub dies: Vec<u32>,
}

/// A memory node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NumaNode {
    /// Its number.
    pub node: u32,
    /// In kB.
    pub total: u64,
    /// In kB.
    pub free: u64,
    /// The CPUs at it.
    pub cpus: Name,
}

/// An event group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GroupDescription {
    /// Its name, mostly empty.
    pub name: Name,
    /// The position of its leader in the list of events.
    pub leader: u32,
    /// The number of events in it.
    pub members: u32,
}

/// A CPU cache.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CpuCache {
    /// 1, 2, 3.
    pub level: u32,
    /// Bytes in a line.
    pub line_size: u32,
    /// Sets.
    pub sets: u32,
    /// Ways.
    pub ways: u32,
    /// `Data`, `Instruction`, `Unified`.
    pub kind: Name,
    /// For example `32K`.
    pub size: Name,
    /// The CPUs that share it.
    pub cpus: Name,
}

/// Memory blocks of nodes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MemoryTopology {
    /// Bytes in a block.
    pub block_size: u64,
    /// Per node: its number, how many bits its map has, and the map of blocks.
    pub nodes: Vec<(u64, u64, Vec<u64>)>,
}

/// The compression of records.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Compression {
    /// 1 is zstd, the only one.
    pub kind: u32,
    /// The level asked for.
    pub level: u32,
    /// Uncompressed over compressed size.
    pub ratio: u32,
    /// Bytes of the ring: the most that one piece unpacks to.
    pub mmap_len: u32,
}

/// One moment on two clocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClockData {
    /// `CLOCK_*` of the timestamps.
    pub clockid: u32,
    /// Nanoseconds since 1970.
    pub wall_clock: u64,
    /// Nanoseconds on the timestamps' clock.
    pub clock: u64,
}

/// Capabilities of a PMU.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PmuCapabilities {
    /// The PMU.
    pub pmu: Name,
    /// Names and values.
    pub capabilities: Vec<(Name, Name)>,
}
