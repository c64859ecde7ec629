//! The bit sets of `struct perf_event_attr` (`include/uapi/linux/perf_event.h`). Bits that this version does not
//! know are kept, so that a decoder can refuse what it cannot lay out.

use bitflags::bitflags;

bitflags! {
    /// `enum perf_event_sample_format`: which parts a sample has.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
    pub struct SampleFormat: u64 {
        /// `PERF_SAMPLE_IP`
        const IP = 1 << 0;
        /// `PERF_SAMPLE_TID`
        const TID = 1 << 1;
        /// `PERF_SAMPLE_TIME`
        const TIME = 1 << 2;
        /// `PERF_SAMPLE_ADDR`
        const ADDR = 1 << 3;
        /// `PERF_SAMPLE_READ`
        const READ = 1 << 4;
        /// `PERF_SAMPLE_CALLCHAIN`
        const CALLCHAIN = 1 << 5;
        /// `PERF_SAMPLE_ID`
        const ID = 1 << 6;
        /// `PERF_SAMPLE_CPU`
        const CPU = 1 << 7;
        /// `PERF_SAMPLE_PERIOD`
        const PERIOD = 1 << 8;
        /// `PERF_SAMPLE_STREAM_ID`
        const STREAM_ID = 1 << 9;
        /// `PERF_SAMPLE_RAW`
        const RAW = 1 << 10;
        /// `PERF_SAMPLE_BRANCH_STACK`
        const BRANCH_STACK = 1 << 11;
        /// `PERF_SAMPLE_REGS_USER`
        const REGS_USER = 1 << 12;
        /// `PERF_SAMPLE_STACK_USER`
        const STACK_USER = 1 << 13;
        /// `PERF_SAMPLE_WEIGHT`
        const WEIGHT = 1 << 14;
        /// `PERF_SAMPLE_DATA_SRC`
        const DATA_SRC = 1 << 15;
        /// `PERF_SAMPLE_IDENTIFIER`
        const IDENTIFIER = 1 << 16;
        /// `PERF_SAMPLE_TRANSACTION`
        const TRANSACTION = 1 << 17;
        /// `PERF_SAMPLE_REGS_INTR`
        const REGS_INTR = 1 << 18;
        /// `PERF_SAMPLE_PHYS_ADDR`
        const PHYS_ADDR = 1 << 19;
        /// `PERF_SAMPLE_AUX`
        const AUX = 1 << 20;
        /// `PERF_SAMPLE_CGROUP`
        const CGROUP = 1 << 21;
        /// `PERF_SAMPLE_DATA_PAGE_SIZE`
        const DATA_PAGE_SIZE = 1 << 22;
        /// `PERF_SAMPLE_CODE_PAGE_SIZE`
        const CODE_PAGE_SIZE = 1 << 23;
        /// `PERF_SAMPLE_WEIGHT_STRUCT`
        const WEIGHT_STRUCT = 1 << 24;
    }
}

impl SampleFormat {
    /// Returns true if samples have user registers and a copy of the user stack.
    pub fn has_stack_copies(self) -> bool {
        self.contains(Self::REGS_USER | Self::STACK_USER)
    }

    /// Returns true if samples have the kernel's walk over frame pointers and user registers, maybe the link register, but no stack copy.
    pub fn has_walk_and_registers(self) -> bool {
        self.contains(Self::REGS_USER | Self::CALLCHAIN) && !self.has_stack_copies()
    }
}

bitflags! {
    /// `enum perf_event_read_format`: how counter values are laid out.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
    pub struct ReadFormat: u64 {
        /// `PERF_FORMAT_TOTAL_TIME_ENABLED`
        const TOTAL_TIME_ENABLED = 1 << 0;
        /// `PERF_FORMAT_TOTAL_TIME_RUNNING`
        const TOTAL_TIME_RUNNING = 1 << 1;
        /// `PERF_FORMAT_ID`
        const ID = 1 << 2;
        /// `PERF_FORMAT_GROUP`
        const GROUP = 1 << 3;
        /// `PERF_FORMAT_LOST`
        const LOST = 1 << 4;
    }
}

bitflags! {
    /// `enum perf_branch_sample_type`: which branches are recorded, and what with them.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
    pub struct BranchSampleFormat: u64 {
        /// `PERF_SAMPLE_BRANCH_USER`
        const USER = 1 << 0;
        /// `PERF_SAMPLE_BRANCH_KERNEL`
        const KERNEL = 1 << 1;
        /// `PERF_SAMPLE_BRANCH_HV`
        const HV = 1 << 2;
        /// `PERF_SAMPLE_BRANCH_ANY`
        const ANY = 1 << 3;
        /// `PERF_SAMPLE_BRANCH_ANY_CALL`
        const ANY_CALL = 1 << 4;
        /// `PERF_SAMPLE_BRANCH_ANY_RETURN`
        const ANY_RETURN = 1 << 5;
        /// `PERF_SAMPLE_BRANCH_IND_CALL`
        const IND_CALL = 1 << 6;
        /// `PERF_SAMPLE_BRANCH_ABORT_TX`
        const ABORT_TX = 1 << 7;
        /// `PERF_SAMPLE_BRANCH_IN_TX`
        const IN_TX = 1 << 8;
        /// `PERF_SAMPLE_BRANCH_NO_TX`
        const NO_TX = 1 << 9;
        /// `PERF_SAMPLE_BRANCH_COND`
        const COND = 1 << 10;
        /// `PERF_SAMPLE_BRANCH_CALL_STACK`
        const CALL_STACK = 1 << 11;
        /// `PERF_SAMPLE_BRANCH_IND_JUMP`
        const IND_JUMP = 1 << 12;
        /// `PERF_SAMPLE_BRANCH_CALL`
        const CALL = 1 << 13;
        /// `PERF_SAMPLE_BRANCH_NO_FLAGS`
        const NO_FLAGS = 1 << 14;
        /// `PERF_SAMPLE_BRANCH_NO_CYCLES`
        const NO_CYCLES = 1 << 15;
        /// `PERF_SAMPLE_BRANCH_TYPE_SAVE`
        const TYPE_SAVE = 1 << 16;
        /// `PERF_SAMPLE_BRANCH_HW_INDEX`: a word before the entries.
        const HW_INDEX = 1 << 17;
        /// `PERF_SAMPLE_BRANCH_PRIV_SAVE`
        const PRIV_SAVE = 1 << 18;
        /// `PERF_SAMPLE_BRANCH_COUNTERS`: a word per entry behind the entries.
        const COUNTERS = 1 << 19;
    }
}

bitflags! {
    /// The one-bit fields of the word at offset 40. `precise_ip` (bits 15 and 16) is a field of its own:
    /// [`crate::Attr::precise_ip`].
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
    pub struct AttrFlags: u64 {
        /// Starts switched off.
        const DISABLED = 1 << 0;
        /// New children are counted too.
        const INHERIT = 1 << 1;
        /// Always on the PMU, or in error.
        const PINNED = 1 << 2;
        /// Alone on the PMU.
        const EXCLUSIVE = 1 << 3;
        /// Not in user space.
        const EXCLUDE_USER = 1 << 4;
        /// Not in the kernel.
        const EXCLUDE_KERNEL = 1 << 5;
        /// Not in the hypervisor.
        const EXCLUDE_HV = 1 << 6;
        /// Not in the idle task.
        const EXCLUDE_IDLE = 1 << 7;
        /// MMAP records.
        const MMAP = 1 << 8;
        /// COMM records.
        const COMM = 1 << 9;
        /// `sample_period` is a frequency.
        const FREQ = 1 << 10;
        /// Counts saved per task on a context switch.
        const INHERIT_STAT = 1 << 11;
        /// Switched on at the next exec.
        const ENABLE_ON_EXEC = 1 << 12;
        /// FORK and EXIT records.
        const TASK = 1 << 13;
        /// `wakeup` counts bytes.
        const WATERMARK = 1 << 14;
        /// MMAP records for mappings that are not executable.
        const MMAP_DATA = 1 << 17;
        /// A trailer on every record.
        const SAMPLE_ID_ALL = 1 << 18;
        /// Not in the host.
        const EXCLUDE_HOST = 1 << 19;
        /// Not in a guest.
        const EXCLUDE_GUEST = 1 << 20;
        /// Call chains without the kernel's part.
        const EXCLUDE_CALLCHAIN_KERNEL = 1 << 21;
        /// Call chains without the user's part.
        const EXCLUDE_CALLCHAIN_USER = 1 << 22;
        /// MMAP2 records.
        const MMAP2 = 1 << 23;
        /// COMM records of an exec are marked.
        const COMM_EXEC = 1 << 24;
        /// `clockid` is used.
        const USE_CLOCKID = 1 << 25;
        /// SWITCH records.
        const CONTEXT_SWITCH = 1 << 26;
        /// The ring is filled from its end.
        const WRITE_BACKWARD = 1 << 27;
        /// NAMESPACES records.
        const NAMESPACES = 1 << 28;
        /// KSYMBOL records.
        const KSYMBOL = 1 << 29;
        /// BPF_EVENT records.
        const BPF_EVENT = 1 << 30;
        /// Writes to the AUX area.
        const AUX_OUTPUT = 1 << 31;
        /// CGROUP records.
        const CGROUP = 1 << 32;
        /// TEXT_POKE records.
        const TEXT_POKE = 1 << 33;
        /// MMAP2 records carry build ids.
        const BUILD_ID = 1 << 34;
        /// Only threads inherit.
        const INHERIT_THREAD = 1 << 35;
        /// Removed at exec.
        const REMOVE_ON_EXEC = 1 << 36;
        /// A synchronous SIGTRAP on overflow.
        const SIGTRAP = 1 << 37;
        /// User call chains come later, in CALLCHAIN_DEFERRED records.
        const DEFER_CALLCHAIN = 1 << 38;
        /// This ring takes CALLCHAIN_DEFERRED records.
        const DEFER_OUTPUT = 1 << 39;
    }
}
