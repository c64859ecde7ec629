//! Bytes to typed records. Nothing is copied: a record borrows from its bytes.

use model::{BuildId, FileIdentity, Pid, Tid, Timestamp};

use super::{RecordLayout, cpu, thread};
use crate::cursor::Cursor;
use crate::error::DecodeError;
use crate::flags::{BranchSampleFormat, ReadFormat, SampleFormat};
use crate::header::{kind, misc};
use crate::raw::RawRecord;
use crate::record::{
    Aux, AuxOutputHwId, BpfEvent, CallchainDeferred, Cgroup, Comm, ItraceStart, Ksymbol, Lost, LostSamples,
    Mmap, MmapExtended, MmapIdentity, Namespaces, Read, Record, Switch, Task, TextPoke, Throttle,
};
use crate::sample::Sample;
use crate::values::{BranchStack, CounterValues, Registers};

/// Decodes a record of any kind ([`RecordLayout::decode`]).
#[inline]
pub(super) fn record<'a>(layout: &RecordLayout, raw: &RawRecord<'a>) -> Result<Record<'a>, DecodeError> {
    if raw.kind == kind::SAMPLE {
        return sample(layout, raw).map(Record::Sample);
    }
    decode_sideband(layout, raw)
}

/// Decodes a SAMPLE record ([`RecordLayout::decode_sample`]).
#[inline]
pub(super) fn sample<'a>(layout: &RecordLayout, raw: &RawRecord<'a>) -> Result<Sample<'a>, DecodeError> {
    if let Some(refusal) = layout.refusal {
        return Err(refusal);
    }
    let format = layout.sample_format;
    let cursor = &mut Cursor::new(raw, layout.endian);
    // The fields are evaluated in the order in which they are written here, which is that of the bytes.
    macro_rules! part {
        ($($bit:ident)|+, $read:expr) => {
            if format.intersects($(SampleFormat::$bit)|+) { Some($read) } else { None }
        };
    }
    Ok(Sample {
        mode: raw.mode(),
        exact_ip: raw.has(misc::EXACT_IP),
        identifier: part!(IDENTIFIER, cursor.u64("sample_id")?),
        ip: part!(IP, cursor.u64("ip")?),
        thread: part!(TID, thread(cursor)?),
        time: part!(TIME, Timestamp(cursor.u64("time")?)),
        addr: part!(ADDR, cursor.u64("addr")?),
        id: part!(ID, cursor.u64("id")?),
        stream_id: part!(STREAM_ID, cursor.u64("stream_id")?),
        cpu: part!(CPU, cpu(cursor)?),
        period: part!(PERIOD, cursor.u64("period")?),
        read: part!(READ, counter_values(layout, cursor)?),
        callchain: part!(CALLCHAIN, {
            let count = cursor.u64("callchain nr")?;
            cursor.words("callchain nr", count, 1)?
        }),
        raw: part!(RAW, {
            let size = cursor.u32("raw size")?;
            cursor.bytes("raw data", size.into())?
        }),
        branch_stack: part!(BRANCH_STACK, branch_stack(layout, cursor)?),
        user_registers: part!(REGS_USER, registers(cursor, layout.regs_user, "regs_user")?),
        user_stack: part!(STACK_USER, user_stack(cursor)?),
        weight: part!(WEIGHT | WEIGHT_STRUCT, cursor.u64("weight")?),
        data_source: part!(DATA_SRC, cursor.u64("data_src")?),
        transaction: part!(TRANSACTION, cursor.u64("transaction")?),
        interrupt_registers: part!(REGS_INTR, registers(cursor, layout.regs_intr, "regs_intr")?),
        physical_address: part!(PHYS_ADDR, cursor.u64("phys_addr")?),
        cgroup: part!(CGROUP, cursor.u64("cgroup")?),
        data_page_size: part!(DATA_PAGE_SIZE, cursor.u64("data_page_size")?),
        code_page_size: part!(CODE_PAGE_SIZE, cursor.u64("code_page_size")?),
        aux: part!(AUX, {
            let size = cursor.u64("aux size")?;
            cursor.bytes("aux data", size)?
        }),
    })
}

/// Counter values: of a READ record, or of a sample.
fn counter_values<'a>(
    layout: &RecordLayout,
    cursor: &mut Cursor<'a>,
) -> Result<CounterValues<'a>, DecodeError> {
    let format = layout.read_format;
    let has_id = format.contains(ReadFormat::ID);
    let has_lost = format.contains(ReadFormat::LOST);
    // The group's values lie together behind the times, a single value lies before them.
    let group = format.contains(ReadFormat::GROUP);
    let first = cursor.u64(if group { "read nr" } else { "read value" })?;
    let time = |bit, field, cursor: &mut Cursor<'_>| {
        if format.contains(bit) { cursor.u64(field).map(Some) } else { Ok(None) }
    };
    let time_enabled = time(ReadFormat::TOTAL_TIME_ENABLED, "time_enabled", cursor)?;
    let time_running = time(ReadFormat::TOTAL_TIME_RUNNING, "time_running", cursor)?;
    let extra = u64::from(has_id) + u64::from(has_lost);
    let (single, values) = if group {
        (None, cursor.words("read nr", first, 1 + extra)?)
    } else {
        (Some(first), cursor.words("read values", extra, 1)?)
    };
    Ok(CounterValues { time_enabled, time_running, single, values, has_id, has_lost })
}

fn branch_stack<'a>(layout: &RecordLayout, cursor: &mut Cursor<'a>) -> Result<BranchStack<'a>, DecodeError> {
    let count = cursor.u64("bnr")?;
    let hw_index = if layout.branch_format.contains(BranchSampleFormat::HW_INDEX) {
        Some(cursor.u64("hw_idx")?)
    } else {
        None
    };
    let entries = cursor.words("bnr", count, 3)?;
    let counters = if layout.branch_format.contains(BranchSampleFormat::COUNTERS) {
        Some(cursor.words("bnr", count, 1)?)
    } else {
        None
    };
    Ok(BranchStack { hw_index, entries, counters })
}

fn registers<'a>(
    cursor: &mut Cursor<'a>,
    mask: u64,
    field: &'static str,
) -> Result<Registers<'a>, DecodeError> {
    let abi = cursor.u64(field)?;
    let count = if abi == 0 { 0 } else { u64::from(mask.count_ones()) };
    Ok(Registers { abi, mask, values: cursor.words(field, count, 1)? })
}

fn user_stack<'a>(cursor: &mut Cursor<'a>) -> Result<&'a [u8], DecodeError> {
    let size = cursor.u64("stack size")?;
    let stack = cursor.bytes("stack data", size)?;
    if size == 0 {
        // No dynamic size follows: a kernel thread, or no room in the record.
        return Ok(stack);
    }
    let dynamic_size = cursor.u64("stack dyn_size")?;
    usize::try_from(dynamic_size)
        .ok()
        .and_then(|len| stack.get(..len))
        .ok_or_else(|| cursor.count_error("stack dyn_size", dynamic_size))
}

fn decode_sideband<'a>(layout: &RecordLayout, raw: &RawRecord<'a>) -> Result<Record<'a>, DecodeError> {
    let cursor = &mut Cursor::new(raw, layout.endian);
    let sample_id = layout.take_trailer(raw, cursor)?;
    Ok(match raw.kind {
        kind::MMAP | kind::MMAP2 => {
            let mut mmap = mmap(layout, raw, cursor)?;
            mmap.sample_id = sample_id;
            Record::Mmap(mmap)
        }
        kind::LOST => Record::Lost(Lost { id: cursor.u64("id")?, lost: cursor.u64("lost")?, sample_id }),
        kind::COMM => {
            let (pid, tid) = thread(cursor)?;
            Record::Comm(Comm { pid, tid, comm: cursor.string(), exec: raw.has(misc::COMM_EXEC), sample_id })
        }
        kind::EXIT | kind::FORK => {
            let task = Task {
                pid: Pid(cursor.u32("pid")? as i32),
                parent_pid: Pid(cursor.u32("ppid")? as i32),
                tid: Tid(cursor.u32("tid")? as i32),
                parent_tid: Tid(cursor.u32("ptid")? as i32),
                time: Timestamp(cursor.u64("time")?),
                sample_id,
            };
            if raw.kind == kind::FORK { Record::Fork(task) } else { Record::Exit(task) }
        }
        kind::THROTTLE | kind::UNTHROTTLE => {
            let throttle = Throttle {
                time: Timestamp(cursor.u64("time")?),
                id: cursor.u64("id")?,
                stream_id: cursor.u64("stream_id")?,
                sample_id,
            };
            if raw.kind == kind::THROTTLE { Record::Throttle(throttle) } else { Record::Unthrottle(throttle) }
        }
        kind::READ => {
            let (pid, tid) = thread(cursor)?;
            Record::Read(Read { pid, tid, values: counter_values(layout, cursor)?, sample_id })
        }
        kind::AUX => Record::Aux(Aux {
            offset: cursor.u64("aux_offset")?,
            size: cursor.u64("aux_size")?,
            flags: cursor.u64("flags")?,
            sample_id,
        }),
        kind::ITRACE_START => {
            let (pid, tid) = thread(cursor)?;
            Record::ItraceStart(ItraceStart { pid, tid, sample_id })
        }
        kind::LOST_SAMPLES => Record::LostSamples(LostSamples {
            lost: cursor.u64("lost")?,
            filtered_by_bpf: raw.has(misc::LOST_SAMPLES_BPF),
            sample_id,
        }),
        kind::SWITCH | kind::SWITCH_CPU_WIDE => Record::Switch(Switch {
            out: raw.has(misc::SWITCH_OUT),
            preempted: raw.has(misc::SWITCH_OUT_PREEMPT),
            other: if raw.kind == kind::SWITCH_CPU_WIDE { Some(thread(cursor)?) } else { None },
            sample_id,
        }),
        kind::NAMESPACES => {
            let (pid, tid) = thread(cursor)?;
            let count = cursor.u64("nr_namespaces")?;
            Record::Namespaces(Namespaces {
                pid,
                tid,
                links: cursor.words("nr_namespaces", count, 2)?,
                sample_id,
            })
        }
        kind::KSYMBOL => Record::Ksymbol(Ksymbol {
            start: cursor.u64("addr")?,
            len: cursor.u32("len")?,
            kind: cursor.u16("ksym_type")?,
            unregister: cursor.u16("flags")? & 1 != 0,
            name: cursor.string(),
            sample_id,
        }),
        kind::BPF_EVENT => Record::BpfEvent(BpfEvent {
            kind: cursor.u16("type")?,
            flags: cursor.u16("flags")?,
            id: cursor.u32("id")?,
            tag: cursor.array("tag")?,
            sample_id,
        }),
        kind::CGROUP => Record::Cgroup(Cgroup { id: cursor.u64("id")?, path: cursor.string(), sample_id }),
        kind::TEXT_POKE => {
            let address = cursor.u64("addr")?;
            let old_len = cursor.u16("old_len")?;
            let new_len = cursor.u16("new_len")?;
            Record::TextPoke(TextPoke {
                address,
                old: cursor.bytes("old bytes", old_len.into())?,
                new: cursor.bytes("new bytes", new_len.into())?,
                sample_id,
            })
        }
        kind::AUX_OUTPUT_HW_ID => {
            Record::AuxOutputHwId(AuxOutputHwId { hw_id: cursor.u64("hw_id")?, sample_id })
        }
        kind::CALLCHAIN_DEFERRED => {
            let cookie = cursor.u64("cookie")?;
            let count = cursor.u64("nr")?;
            Record::CallchainDeferred(CallchainDeferred {
                cookie,
                ips: cursor.words("nr", count, 1)?,
                sample_id,
            })
        }
        unknown => return Err(DecodeError::UnknownKind(unknown)),
    })
}

fn mmap<'a>(
    layout: &RecordLayout,
    raw: &RawRecord<'a>,
    cursor: &mut Cursor<'a>,
) -> Result<Mmap<'a>, DecodeError> {
    let (pid, tid) = thread(cursor)?;
    let start = cursor.u64("addr")?;
    let len = cursor.u64("len")?;
    let page_offset = cursor.u64("pgoff")?;
    let extended = if raw.kind == kind::MMAP2 { Some(mmap_extended(layout, raw, cursor)?) } else { None };
    Ok(Mmap {
        pid,
        tid,
        start,
        len,
        page_offset,
        path: cursor.string(),
        extended,
        data: raw.has(misc::MMAP_DATA),
        mode: raw.mode(),
        scan_cut_short: raw.has(misc::PROC_MAP_PARSE_TIMEOUT),
        sample_id: Default::default(),
    })
}

fn mmap_extended(
    layout: &RecordLayout,
    raw: &RawRecord<'_>,
    cursor: &mut Cursor<'_>,
) -> Result<MmapExtended, DecodeError> {
    let identity = match recorded_build_id(layout, raw, cursor) {
        Some(build_id) => {
            cursor.array::<24>("build_id")?;
            MmapIdentity::BuildId(build_id)
        }
        None => MmapIdentity::File(FileIdentity {
            major: cursor.u32("maj")?,
            minor: cursor.u32("min")?,
            inode: cursor.u64("ino")?,
            generation: cursor.u64("ino_generation")?,
        }),
    };
    Ok(MmapExtended { identity, protection: cursor.u32("prot")?, flags: cursor.u32("flags")? })
}

/// The build id of an MMAP2 record, if that is what its 24 bytes hold: size, three zeros, and the id padded with zeros.
///
/// The mark alone does not tell. Once one event on the machine asks for build ids, the kernel leaves the mark in the records that it
/// then writes for others, with device and inode in them: `perf_event_mmap_output()` in kernel/events/core.c restores size and type
/// of the header between its readers, but not `misc`. So the mark counts only where the attr asks.
fn recorded_build_id(
    layout: &RecordLayout,
    raw: &RawRecord<'_>,
    cursor: &Cursor<'_>,
) -> Option<Option<BuildId>> {
    if !layout.has_build_ids || !raw.has(misc::MMAP_BUILD_ID) {
        return None;
    }
    let [len, 0, 0, 0, bytes @ ..] = cursor.clone().array::<24>("build_id").ok()? else { return None };
    let (id, padding) = bytes.split_at_checked(len.into())?;
    padding.iter().all(|byte| *byte == 0).then(|| BuildId::from_bytes(id))
}
