//! How large a stack copy may be beside the other parts of its sample: a record says its size in 16 bits.

use decoder::{Attr, BranchSampleFormat, ReadFormat, SAMPLE_HEAD, SampleFormat};

/// The largest record, bytes: the largest multiple of 8 below 2^16.
const MAX_RECORD_BYTES: usize = 65_528;
/// The largest copy that the kernel accepts, bytes (`perf_copy_attr()`: below `USHRT_MAX`, and a multiple of 8).
pub(super) const MAX_COPY_BYTES: u32 = 65_528;
const WORD_BYTES: usize = 8;
/// `struct perf_event_header`, bytes.
const HEADER_BYTES: usize = 8;
/// The fields of a tracepoint, bytes (`PERF_MAX_TRACE_SIZE` in include/linux/trace_events.h).
const MAX_TRACEPOINT_BYTES: usize = 8192;
/// Branches that a processor remembers: 32 on Intel, 16 on AMD, 64 on ARM (BRBE).
const MAX_BRANCHES: usize = 64;
/// `struct perf_branch_entry`, bytes.
const BRANCH_BYTES: usize = 24;

/// The longest call chains that the kernel records.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChainLimits {
    /// `kernel.perf_event_max_stack`: addresses, where the attr has no limit of its own.
    pub(crate) addresses: usize,
    /// `kernel.perf_event_max_contexts_per_stack`: markers between them.
    pub(crate) markers: usize,
}

/// The largest stack copy that samples of `attr` have room for, bytes. `members` is how many events their group has.
///
/// The kernel shortens a copy by the parts before it (`perf_sample_ustack_size()` in kernel/events/core.c), but does not
/// look at those behind it: registers and AUX data. With these, all parts have to fit at their largest, or the size wraps
/// and the record is garbage.
pub(crate) fn room_for_copy(attr: &Attr, members: usize, limits: ChainLimits) -> u32 {
    if !attr.sample_format.intersects(SampleFormat::REGS_INTR | SampleFormat::AUX) {
        return MAX_COPY_BYTES;
    }
    let room = MAX_RECORD_BYTES.saturating_sub(other_parts(attr, members, limits)) & !(WORD_BYTES - 1);
    u32::try_from(room).map_or(MAX_COPY_BYTES, |room| room.clamp(WORD_BYTES as u32, MAX_COPY_BYTES))
}

/// The longest call chain that samples of `attr` have room for, addresses, beside a copy of `sample_stack_user` bytes.
pub(super) fn room_for_chain(attr: &Attr, members: usize) -> usize {
    let none = ChainLimits { addresses: 0, markers: 0 };
    let others = other_parts(&Attr { sample_max_stack: 0, ..attr.clone() }, members, none);
    MAX_RECORD_BYTES.saturating_sub(others + attr.sample_stack_user as usize) / WORD_BYTES
}

/// Bytes of a record with everything but the copied stack, each part at its largest (`perf_prepare_sample()`).
fn other_parts(attr: &Attr, members: usize, limits: ChainLimits) -> usize {
    let format = attr.sample_format;
    let part = |bit: SampleFormat, bytes: usize| if format.intersects(bit) { bytes } else { 0 };
    let addresses = match attr.sample_max_stack {
        0 => limits.addresses,
        most => usize::from(most),
    };
    let words_of_branch = BRANCH_BYTES + if has_counters(attr) { WORD_BYTES } else { 0 };
    let registers = |mask: u64| WORD_BYTES + WORD_BYTES * mask.count_ones() as usize;
    let head = SAMPLE_HEAD.into_iter().filter(|&bit| format.contains(bit)).count() * WORD_BYTES;
    let singles = [
        SampleFormat::WEIGHT | SampleFormat::WEIGHT_STRUCT,
        SampleFormat::DATA_SRC,
        SampleFormat::TRANSACTION,
        SampleFormat::PHYS_ADDR,
        SampleFormat::CGROUP,
        SampleFormat::DATA_PAGE_SIZE,
        SampleFormat::CODE_PAGE_SIZE,
    ];
    HEADER_BYTES
        + head
        + singles.into_iter().map(|bit| part(bit, WORD_BYTES)).sum::<usize>()
        + part(SampleFormat::READ, counters(attr.read_format, members))
        + part(SampleFormat::CALLCHAIN, WORD_BYTES * (1 + addresses + limits.markers))
        + part(SampleFormat::RAW, WORD_BYTES + MAX_TRACEPOINT_BYTES)
        // Their number, and the index of the newest.
        + part(SampleFormat::BRANCH_STACK, 2 * WORD_BYTES + MAX_BRANCHES * words_of_branch)
        + part(SampleFormat::REGS_USER, registers(attr.sample_regs_user))
        // The size asked for, and how much of it was filled.
        + part(SampleFormat::STACK_USER, 2 * WORD_BYTES)
        + part(SampleFormat::REGS_INTR, registers(attr.sample_regs_intr))
        + part(SampleFormat::AUX, WORD_BYTES + attr.aux_sample_size as usize)
}

/// Bytes of the counters of a group with so many members (`perf_event_open(2)`, "Reading results").
fn counters(format: ReadFormat, members: usize) -> usize {
    let has = |bit| usize::from(format.contains(bit));
    let times = has(ReadFormat::TOTAL_TIME_ENABLED) + has(ReadFormat::TOTAL_TIME_RUNNING);
    let each = 1 + has(ReadFormat::ID) + has(ReadFormat::LOST);
    WORD_BYTES * if format.contains(ReadFormat::GROUP) { 1 + times + members * each } else { times + each }
}

fn has_counters(attr: &Attr) -> bool {
    attr.branch_sample_format.contains(BranchSampleFormat::COUNTERS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use decoder::values::{CounterValues, Registers, U64s};
    use decoder::{Endian, Record, RecordLayout, Sample};

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
        let copy = vec![0_u8; room_for_copy(&attr, members, LIMITS) as usize];
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
        let addresses = room_for_chain(&attr, 600);
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
        assert_eq!(room_for_copy(&without, 5, LIMITS), MAX_COPY_BYTES);
        let aux = Attr {
            sample_format: without.sample_format | SampleFormat::AUX,
            aux_sample_size: 16 << 10,
            ..without
        };
        let room = room_for_copy(&aux, 5, LIMITS);
        assert!((32 << 10..48 << 10).contains(&room) && room.is_multiple_of(8), "{room}");
        let branches = Attr { sample_format: attr().sample_format | SampleFormat::BRANCH_STACK, ..attr() };
        assert_eq!(room_for_copy(&attr(), 5, LIMITS) - room_for_copy(&branches, 5, LIMITS), 16 + 64 * 24);
        let long_chains = ChainLimits { addresses: 100_000, markers: 8 };
        assert_eq!(room_for_copy(&attr(), 5, long_chains), 8);
    }
}
