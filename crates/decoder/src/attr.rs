//! `struct perf_event_attr`, of any version and byte order.

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::endian::Endian;
use crate::error::DecodeError;
use crate::flags::{AttrFlags, BranchSampleFormat, ReadFormat, SampleFormat};

/// Bytes of the first version (`PERF_ATTR_SIZE_VER0`).
pub const SIZE_VER0: u32 = 64;
/// Bytes up to and with `sig_data` (`PERF_ATTR_SIZE_VER7`): the largest that perf 6.1 reads.
pub const SIZE_VER7: u32 = 128;
/// Bytes up to and with `config3` (`PERF_ATTR_SIZE_VER8`, Linux 6.3).
pub const SIZE_VER8: u32 = 136;
/// Bytes up to and with `config4` (`PERF_ATTR_SIZE_VER9`): the largest known here.
pub const SIZE_NEWEST: u32 = 144;

/// Bytes that no version has more of: the kernel takes no attr that is larger than a page, and no page is larger.
pub const SIZE_LARGEST: u32 = 1 << 16;

/// `PERF_TYPE_HARDWARE`
pub const TYPE_HARDWARE: u32 = 0;
/// `PERF_TYPE_SOFTWARE`
pub const TYPE_SOFTWARE: u32 = 1;
/// `PERF_TYPE_TRACEPOINT`
pub const TYPE_TRACEPOINT: u32 = 2;
/// `PERF_TYPE_HW_CACHE`
pub const TYPE_HW_CACHE: u32 = 3;
/// `PERF_TYPE_RAW`
pub const TYPE_RAW: u32 = 4;
/// `PERF_TYPE_BREAKPOINT`
pub const TYPE_BREAKPOINT: u32 = 5;

/// `PERF_COUNT_HW_BRANCH_INSTRUCTIONS`: a config of [`TYPE_HARDWARE`].
pub const HW_BRANCH_INSTRUCTIONS: u64 = 4;
/// `PERF_COUNT_SW_PAGE_FAULTS`: a config of [`TYPE_SOFTWARE`], as those that follow.
pub const SW_PAGE_FAULTS: u64 = 2;
/// `PERF_COUNT_SW_CONTEXT_SWITCHES`
pub const SW_CONTEXT_SWITCHES: u64 = 3;
/// `PERF_COUNT_SW_CPU_MIGRATIONS`
pub const SW_CPU_MIGRATIONS: u64 = 4;
/// `PERF_COUNT_SW_PAGE_FAULTS_MIN`
pub const SW_PAGE_FAULTS_MIN: u64 = 5;
/// `PERF_COUNT_SW_PAGE_FAULTS_MAJ`
pub const SW_PAGE_FAULTS_MAJ: u64 = 6;
/// `PERF_COUNT_SW_DUMMY`
pub const SW_DUMMY: u64 = 9;
/// `PERF_COUNT_SW_BPF_OUTPUT`
pub const SW_BPF_OUTPUT: u64 = 10;
/// `PERF_COUNT_SW_CGROUP_SWITCHES`
pub const SW_CGROUP_SWITCHES: u64 = 11;

/// The PMU of an event of [`TYPE_HARDWARE`] or [`TYPE_HW_CACHE`] lies in the upper half of `config` (`PERF_PMU_TYPE_SHIFT`).
const PMU_TYPE_SHIFT: u32 = 32;

/// `HW_BREAKPOINT_R` (include/uapi/linux/hw_breakpoint.h): a bit of [`Attr::bp_type`].
pub const BREAKPOINT_READ: u32 = 1;
/// `HW_BREAKPOINT_W`
pub const BREAKPOINT_WRITE: u32 = 2;
/// `HW_BREAKPOINT_X`
pub const BREAKPOINT_EXECUTE: u32 = 4;

/// `precise_ip` as a bit field of two bits; all others before it, and those after it, have one.
const FLAG_WIDTHS: [u32; 16] = [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2];
const PRECISE_IP: u64 = 0b11 << 15;

/// The description of an event to be counted and sampled (`perf_event_open(2)`, "struct perf_event_attr").
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Attr {
    /// `PERF_TYPE_*`, or the number of a dynamic PMU.
    pub kind: u32,
    /// Bytes of the structure; fields behind it are 0. Written as 64 if 0.
    pub size: u32,
    /// The number of the event within its type.
    pub config: u64,
    /// Events per sample, or samples per second with [`AttrFlags::FREQ`].
    pub sample_period: u64,
    /// The fields of a sample.
    pub sample_format: SampleFormat,
    /// The layout of counter values.
    pub read_format: ReadFormat,
    /// The one-bit fields.
    pub flags: AttrFlags,
    /// 0 any skid, 1 constant, 2 asked for none, 3 must have none.
    pub precise_ip: u8,
    /// `wakeup_events`, or `wakeup_watermark` in bytes with [`AttrFlags::WATERMARK`].
    pub wakeup: u32,
    /// `HW_BREAKPOINT_*` for breakpoints.
    pub bp_type: u32,
    /// `config1`, `bp_addr`, `kprobe_func`, `uprobe_path`.
    pub config1: u64,
    /// `config2`, `bp_len`, `kprobe_addr`, `probe_offset`.
    pub config2: u64,
    /// The kinds of branches to record, and their layout.
    pub branch_sample_format: BranchSampleFormat,
    /// The user registers to record: bits of the architecture's `asm/perf_regs.h`.
    pub sample_regs_user: u64,
    /// Bytes of user stack to copy.
    pub sample_stack_user: u32,
    /// The clock of timestamps with [`AttrFlags::USE_CLOCKID`] (`CLOCK_*`).
    pub clockid: i32,
    /// The registers at the interrupt to record.
    pub sample_regs_intr: u64,
    /// Bytes in the AUX area that bring a record.
    pub aux_watermark: u32,
    /// The most addresses in a call chain.
    pub sample_max_stack: u16,
    /// Bytes of AUX area in a sample.
    pub aux_sample_size: u32,
    /// `aux_start_paused`, `aux_pause`, `aux_resume` in bits 0, 1, 2.
    pub aux_action: u32,
    /// The data for a SIGTRAP handler.
    pub sig_data: u64,
    /// `config3`
    pub config3: u64,
    /// `config4`
    pub config4: u64,
    /// The bytes that a newer version has behind `config4`.
    pub unknown_tail: Box<[u8]>,
}

impl Attr {
    /// Reads an attr from the start of `bytes`, as long as its own size field says.
    ///
    /// # Errors
    /// [`DecodeError::AttrSize`] where that size is below the first version's or more than `bytes` has.
    pub fn parse(bytes: &[u8], endian: Endian) -> Result<Self, DecodeError> {
        let size_field = |bytes: &[u8]| Some(endian.u32(*bytes.get(4..)?.first_chunk()?));
        let stated = size_field(bytes).unwrap_or(0);
        // The kernel takes 0 for the first version (`perf_copy_attr()`).
        let size = if stated == 0 { SIZE_VER0 } else { stated };
        let attr_bytes = usize::try_from(size).ok().and_then(|size| bytes.get(..size));
        let Some(attr_bytes) = attr_bytes.filter(|_| size >= SIZE_VER0) else {
            return Err(DecodeError::AttrSize { size: stated, available: bytes.len() });
        };
        // Fields that an older version does not have read as 0.
        let fields = Fields { bytes: attr_bytes, endian };
        let flags = endian.load_fields(fields.u64(40), &FLAG_WIDTHS);
        let tail = attr_bytes.get(SIZE_NEWEST as usize..).unwrap_or(&[]);
        Ok(Self {
            kind: fields.u32(0),
            size,
            config: fields.u64(8),
            sample_period: fields.u64(16),
            sample_format: SampleFormat::from_bits_retain(fields.u64(24)),
            read_format: ReadFormat::from_bits_retain(fields.u64(32)),
            flags: AttrFlags::from_bits_retain(flags & !PRECISE_IP),
            precise_ip: ((flags & PRECISE_IP) >> 15) as u8,
            wakeup: fields.u32(48),
            bp_type: fields.u32(52),
            config1: fields.u64(56),
            config2: fields.u64(64),
            branch_sample_format: BranchSampleFormat::from_bits_retain(fields.u64(72)),
            sample_regs_user: fields.u64(80),
            sample_stack_user: fields.u32(88),
            clockid: fields.u32(92) as i32,
            sample_regs_intr: fields.u64(96),
            aux_watermark: fields.u32(104),
            sample_max_stack: fields.u16(108),
            aux_sample_size: fields.u32(112),
            aux_action: match endian {
                Endian::Little => fields.u32(116),
                Endian::Big => fields.u32(116).reverse_bits(),
            },
            sig_data: fields.u64(120),
            config3: fields.u64(128),
            config4: fields.u64(136),
            unknown_tail: Box::from(tail),
        })
    }

    /// The structure's bytes, `size` of them (64 if that is 0), but no more than [`SIZE_LARGEST`].
    pub fn to_bytes(&self, endian: Endian) -> Vec<u8> {
        let size = if self.size == 0 { SIZE_VER0 } else { self.size.min(SIZE_LARGEST) };
        let flags = (self.flags.bits() & !PRECISE_IP) | (u64::from(self.precise_ip & 3) << 15);
        let aux_action = match endian {
            Endian::Little => self.aux_action,
            Endian::Big => self.aux_action.reverse_bits(),
        };
        let mut bytes = Vec::with_capacity(SIZE_NEWEST as usize + self.unknown_tail.len());
        let mut u64s =
            |values: &[u64]| values.iter().for_each(|&value| bytes.extend(endian.u64_bytes(value)));
        // Two u32 in one word, the first at the lower address.
        let pair = |first: u32, second: u32| match endian {
            Endian::Little => u64::from(first) | u64::from(second) << 32,
            Endian::Big => u64::from(second) | u64::from(first) << 32,
        };
        let quarter = match endian {
            Endian::Little => u32::from(self.sample_max_stack),
            Endian::Big => u32::from(self.sample_max_stack) << 16,
        };
        u64s(&[
            pair(self.kind, size),
            self.config,
            self.sample_period,
            self.sample_format.bits(),
            self.read_format.bits(),
            endian.store_fields(flags, &FLAG_WIDTHS),
            pair(self.wakeup, self.bp_type),
            self.config1,
            self.config2,
            self.branch_sample_format.bits(),
            self.sample_regs_user,
            pair(self.sample_stack_user, self.clockid as u32),
            self.sample_regs_intr,
            pair(self.aux_watermark, quarter),
            pair(self.aux_sample_size, aux_action),
            self.sig_data,
            self.config3,
            self.config4,
        ]);
        bytes.extend_from_slice(&self.unknown_tail);
        bytes.resize(size as usize, 0);
        bytes
    }

    /// Returns true if the event counts nanoseconds of CPU time: `cpu-clock` or `task-clock`.
    pub fn is_cpu_clock(&self) -> bool {
        const TASK_CLOCK: u64 = 1;
        self.kind == TYPE_SOFTWARE && self.config <= TASK_CLOCK
    }

    /// Returns true if the event counts nothing, and has no samples of its own: [`SW_DUMMY`].
    pub fn is_dummy(&self) -> bool {
        self.kind == TYPE_SOFTWARE && self.config == SW_DUMMY
    }

    /// Returns true if the event counts as long as a program runs: a clock, or the processor's cycles (checklist E1).
    pub fn runs_with_time(&self) -> bool {
        /// `PERF_COUNT_HW_CPU_CYCLES` and `PERF_COUNT_HW_REF_CPU_CYCLES`; above them is the PMU's type (hybrid processors).
        const CYCLES: [u64; 2] = [0, 9];
        let config = self.config & u64::from(u32::MAX);
        self.is_cpu_clock() || self.kind == TYPE_HARDWARE && CYCLES.contains(&config)
    }

    /// Returns true if the event happens in the kernel only: a tracepoint, a context switch, a migration, a switch of cgroups
    /// (checklist E4).
    pub fn occurs_in_kernel_only(&self) -> bool {
        const SOFTWARE: [u64; 3] = [SW_CONTEXT_SWITCHES, SW_CPU_MIGRATIONS, SW_CGROUP_SWITCHES];
        self.kind == TYPE_TRACEPOINT || self.kind == TYPE_SOFTWARE && SOFTWARE.contains(&self.config)
    }

    /// Returns true if the event is a breakpoint at an address of the kernel: in the upper half of the addresses.
    pub fn is_kernel_breakpoint(&self) -> bool {
        self.kind == TYPE_BREAKPOINT && self.config1 >> 63 == 1
    }

    /// Returns the number of the PMU that counts the event: `kind`, or for hardware and cache events the PMU that `config` names on
    /// a machine with several kinds of cores (0 elsewhere).
    pub fn pmu(&self) -> u32 {
        if self.can_name_pmu() { (self.config >> PMU_TYPE_SHIFT) as u32 } else { self.kind }
    }

    /// Lets the PMU of this number count a hardware, cache or raw event, which else any kind of core counts. Raw events, whose
    /// numbers are the PMU's own, are of its type; the others name it in `config`. Other events stay as they are.
    pub fn set_pmu(&mut self, pmu: u32) {
        if self.kind == TYPE_RAW {
            self.kind = pmu;
        } else if self.can_name_pmu() {
            self.config |= u64::from(pmu) << PMU_TYPE_SHIFT;
        }
    }

    /// Removes the PMU from the `config` of a hardware or cache event, for kernels that know one kind of core only (before Linux 5.13;
    /// on ARM 6.6). Returns false where there is none.
    pub fn remove_pmu(&mut self) -> bool {
        let names_pmu = self.can_name_pmu() && self.pmu() != 0;
        if names_pmu {
            self.config &= u64::from(u32::MAX);
        }
        names_pmu
    }

    fn can_name_pmu(&self) -> bool {
        matches!(self.kind, TYPE_HARDWARE | TYPE_HW_CACHE)
    }

    /// Returns true if the event samples by frequency rather than by a fixed period.
    pub fn is_frequency(&self) -> bool {
        self.flags.contains(AttrFlags::FREQ)
    }
}

struct Fields<'a> {
    bytes: &'a [u8],
    endian: Endian,
}

impl Fields<'_> {
    fn array<const N: usize>(&self, offset: usize) -> [u8; N] {
        self.bytes.get(offset..).and_then(|rest| rest.first_chunk()).copied().unwrap_or([0; N])
    }

    fn u16(&self, offset: usize) -> u16 {
        self.endian.u16(self.array(offset))
    }

    fn u32(&self, offset: usize) -> u32 {
        self.endian.u32(self.array(offset))
    }

    fn u64(&self, offset: usize) -> u64 {
        self.endian.u64(self.array(offset))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn precise_ip_survives_both_byte_orders() {
        for endian in [Endian::Little, Endian::Big] {
            for precise_ip in 0..4 {
                let attr = Attr {
                    size: SIZE_VER7,
                    precise_ip,
                    flags: AttrFlags::WATERMARK | AttrFlags::MMAP_DATA | AttrFlags::SAMPLE_ID_ALL,
                    aux_action: 0b10,
                    ..Attr::default()
                };
                assert_eq!(Attr::parse(&attr.to_bytes(endian), endian), Ok(attr));
            }
        }
    }

    #[test]
    fn sizes_are_checked() {
        let mut bytes = Attr { size: 64, ..Attr::default() }.to_bytes(Endian::Little);
        assert!(Attr::parse(&bytes[..63], Endian::Little).is_err());
        bytes[4] = 63;
        assert_eq!(
            Attr::parse(&bytes, Endian::Little),
            Err(DecodeError::AttrSize { size: 63, available: 64 })
        );
        bytes[4] = 72;
        assert!(Attr::parse(&bytes, Endian::Little).is_err());
        bytes[4] = 0;
        assert_eq!(Attr::parse(&bytes, Endian::Little).map(|attr| attr.size), Ok(64));
    }

    #[test]
    fn a_size_that_lies_takes_no_memory() {
        for size in [SIZE_LARGEST, SIZE_LARGEST + 1, u32::MAX] {
            let attr = Attr { size, unknown_tail: Box::from([7; 16]), ..Attr::default() };
            assert_eq!(attr.to_bytes(Endian::Little).len(), SIZE_LARGEST as usize);
        }
    }

    #[test]
    fn a_newer_version_keeps_its_tail() {
        let attr = Attr { size: 160, unknown_tail: Box::from([7; 16]), ..Attr::default() };
        assert_eq!(Attr::parse(&attr.to_bytes(Endian::Big), Endian::Big), Ok(attr));
    }
}
