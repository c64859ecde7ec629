//! How large the parts of a sample can become: the size field of a record has 16 bits.

use crate::attr::Attr;
use crate::flags::{BranchSampleFormat, SampleFormat};
use crate::header::HEADER_SIZE;
use crate::layout::SAMPLE_HEAD;

/// Bytes of the largest record of the kernel: the largest multiple of 8 below 2^16.
pub const MAX_RECORD_BYTES: usize = 65_528;
/// The largest `sample_stack_user` that the kernel accepts (`perf_copy_attr()`: below `USHRT_MAX`, and a multiple of 8).
pub const MAX_STACK_COPY_BYTES: u32 = 65_528;
const WORD_BYTES: usize = 8;
/// The fields of a tracepoint (`PERF_MAX_TRACE_SIZE` in include/linux/trace_events.h).
const MAX_TRACEPOINT_BYTES: usize = 8192;
/// The largest number of branches that a processor records: 32 on Intel, 16 on AMD, 64 on ARM (BRBE).
const MAX_BRANCHES: usize = 64;
/// `struct perf_branch_entry`.
const BRANCH_BYTES: usize = 24;

/// The longest call chains that the kernel records.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ChainLimits {
    /// `kernel.perf_event_max_stack`: addresses, where the attr has no limit of its own.
    pub addresses: usize,
    /// `kernel.perf_event_max_contexts_per_stack`: context markers between them.
    pub markers: usize,
}

impl Attr {
    /// Returns the largest stack copy, in bytes, for which samples of this attr have room. `members` is the number of events in
    /// the group, whose counters are read with each sample.
    ///
    /// The kernel shortens a copy by the parts before it (`perf_sample_ustack_size()` in kernel/events/core.c), but not by
    /// those behind it: registers at the interrupt and AUX data. With these, all parts have to fit at their largest, or the
    /// size of the record wraps and the record is garbage.
    pub fn room_for_stack_copy(&self, members: usize, limits: ChainLimits) -> u32 {
        if !self.sample_format.intersects(SampleFormat::REGS_INTR | SampleFormat::AUX) {
            return MAX_STACK_COPY_BYTES;
        }
        let others = self.bytes_beside_stack_copy(members, limits);
        let room = MAX_RECORD_BYTES.saturating_sub(others) & !(WORD_BYTES - 1);
        u32::try_from(room)
            .map_or(MAX_STACK_COPY_BYTES, |room| room.clamp(WORD_BYTES as u32, MAX_STACK_COPY_BYTES))
    }

    /// Returns the number of addresses in the longest call chain for which samples of this attr have room, beside a stack copy
    /// of `sample_stack_user` bytes. `members` as in [`Attr::room_for_stack_copy`].
    pub fn room_for_call_chain(&self, members: usize) -> usize {
        let none = ChainLimits { addresses: 0, markers: 0 };
        let without_limit = Self { sample_max_stack: 0, ..self.clone() };
        let others = without_limit.bytes_beside_stack_copy(members, none);
        MAX_RECORD_BYTES.saturating_sub(others.saturating_add(self.sample_stack_user as usize)) / WORD_BYTES
    }

    /// Returns the number of bytes of a sample without its stack copy, each part at its largest (`perf_prepare_sample()`).
    fn bytes_beside_stack_copy(&self, members: usize, limits: ChainLimits) -> usize {
        let format = self.sample_format;
        let words = |words: usize| words.saturating_mul(WORD_BYTES);
        let addresses = match self.sample_max_stack {
            0 => limits.addresses,
            max => usize::from(max),
        };
        let has_counters = self.branch_sample_format.contains(BranchSampleFormat::COUNTERS);
        let branch = BRANCH_BYTES + if has_counters { WORD_BYTES } else { 0 };
        let registers = |mask: u64| words(1 + mask.count_ones() as usize);
        let head = SAMPLE_HEAD.into_iter().filter(|&bit| format.contains(bit)).count();
        let chain = limits.markers.saturating_add(addresses).saturating_add(1);
        let parts = [
            (SampleFormat::READ, words(self.read_format.read_words(members))),
            (SampleFormat::CALLCHAIN, words(chain)),
            (SampleFormat::RAW, WORD_BYTES + MAX_TRACEPOINT_BYTES),
            // The number of branches, and the index of the newest.
            (SampleFormat::BRANCH_STACK, words(2) + MAX_BRANCHES * branch),
            (SampleFormat::REGS_USER, registers(self.sample_regs_user)),
            // The reserved size, and how much of it is filled.
            (SampleFormat::STACK_USER, words(2)),
            (SampleFormat::WEIGHT | SampleFormat::WEIGHT_STRUCT, WORD_BYTES),
            (SampleFormat::DATA_SRC, WORD_BYTES),
            (SampleFormat::TRANSACTION, WORD_BYTES),
            (SampleFormat::REGS_INTR, registers(self.sample_regs_intr)),
            (SampleFormat::PHYS_ADDR, WORD_BYTES),
            (SampleFormat::CGROUP, WORD_BYTES),
            (SampleFormat::DATA_PAGE_SIZE, WORD_BYTES),
            (SampleFormat::CODE_PAGE_SIZE, WORD_BYTES),
            (SampleFormat::AUX, (self.aux_sample_size as usize).saturating_add(WORD_BYTES)),
        ];
        let present = parts.into_iter().filter(|(bits, _)| format.intersects(*bits));
        present.fold(HEADER_SIZE + words(head), |sum, (_, bytes)| sum.saturating_add(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::ReadFormat;
    use crate::values::{CounterValues, Registers, U64s};
    use crate::{Endian, Record, RecordLayout, Sample};
    use alloc::vec;
    use alloc::vec::Vec;

    const LIMITS: ChainLimits = ChainLimits { addresses: 127, markers: 8 };

    /// Every part that `prof record` can ask for beside a stack copy.
    fn attr() -> Attr {
        Attr {
            sample_format: SampleFormat::IDENTIFIER
                | SampleFormat::IP
                | SampleFormat::TID
                | SampleFormat::TIME
                | SampleFormat::ADDR
                | SampleFormat::CPU
                | SampleFormat::PERIOD
                | SampleFormat::READ
                | SampleFormat::CALLCHAIN
                | SampleFormat::RAW
                | SampleFormat::REGS_USER
                | SampleFormat::STACK_USER
                | SampleFormat::WEIGHT
                | SampleFormat::DATA_SRC
                | SampleFormat::REGS_INTR
                | SampleFormat::PHYS_ADDR
                | SampleFormat::CGROUP,
            read_format: ReadFormat::GROUP | ReadFormat::ID | ReadFormat::LOST,
            sample_regs_user: 0xff_0fff,
            sample_regs_intr: 0xff_0fff,
            ..Attr::default()
        }
    }

    #[test]
    fn the_largest_sample_fits_its_size_with_not_a_word_to_spare() {
        let (attr, members) = (attr(), 5);
        let copy = vec![0_u8; attr.room_for_stack_copy(members, LIMITS) as usize];
        let words = vec![0_u8; 8 * 1024];
        let u64s = |count: usize| U64s::new(&words[..8 * count], Endian::NATIVE);
        let registers = Registers::new(2, 0xff_0fff, u64s(20));
        let raw = vec![0_u8; MAX_TRACEPOINT_BYTES + 4];
        let largest = Sample {
            read: Some(CounterValues::new(attr.read_format, (0, 0), None, u64s(3 * members))),
            callchain: Some(u64s(127 + 8)),
            raw: Some(&raw),
            user_registers: Some(registers),
            user_stack: Some(&copy),
            interrupt_registers: Some(registers),
            ..Sample::default()
        };
        let mut record = Vec::new();
        RecordLayout::new(&attr, Endian::NATIVE).encode(&Record::Sample(largest), &mut record).unwrap();
        assert_eq!(record.len(), MAX_RECORD_BYTES);
        assert_eq!(u16::from_ne_bytes([record[6], record[7]]) as usize, MAX_RECORD_BYTES);
    }

    #[test]
    fn a_chain_has_the_room_that_the_other_parts_leave() {
        let attr = Attr { sample_format: attr().sample_format - SampleFormat::STACK_USER, ..attr() };
        let addresses = attr.room_for_call_chain(600);
        let chain = vec![0_u8; 8 * addresses];
        let counters = vec![0_u8; 8 * 3 * 600];
        let raw = vec![0_u8; MAX_TRACEPOINT_BYTES + 4];
        let registers = Registers::new(2, 0xff_0fff, U64s::new(&chain[..160], Endian::NATIVE));
        let values = U64s::new(&counters, Endian::NATIVE);
        let largest = Sample {
            read: Some(CounterValues::new(attr.read_format, (0, 0), None, values)),
            callchain: Some(U64s::new(&chain, Endian::NATIVE)),
            raw: Some(&raw),
            user_registers: Some(registers),
            interrupt_registers: Some(registers),
            ..Sample::default()
        };
        let mut record = Vec::new();
        RecordLayout::new(&attr, Endian::NATIVE).encode(&Record::Sample(largest), &mut record).unwrap();
        assert_eq!(record.len(), MAX_RECORD_BYTES);
    }

    #[test]
    fn only_parts_behind_the_copy_take_room_from_it() {
        let without = Attr { sample_format: attr().sample_format - SampleFormat::REGS_INTR, ..attr() };
        assert_eq!(without.room_for_stack_copy(5, LIMITS), MAX_STACK_COPY_BYTES);
        let aux = Attr {
            sample_format: without.sample_format | SampleFormat::AUX,
            aux_sample_size: 16 << 10,
            ..without
        };
        let room = aux.room_for_stack_copy(5, LIMITS);
        assert!((32 << 10..48 << 10).contains(&room) && room.is_multiple_of(8), "{room}");
        let branches = Attr { sample_format: attr().sample_format | SampleFormat::BRANCH_STACK, ..attr() };
        assert_eq!(
            attr().room_for_stack_copy(5, LIMITS) - branches.room_for_stack_copy(5, LIMITS),
            16 + 64 * 24
        );
        let long_chains = ChainLimits { addresses: 100_000, markers: 8 };
        assert_eq!(attr().room_for_stack_copy(5, long_chains), 8);
    }
}
