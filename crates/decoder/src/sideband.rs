//! All records but SAMPLE.

use model::{BuildId, FileIdentity, Pid, Tid, Timestamp};

use crate::cursor::Cursor;
use crate::error::DecodeError;
use crate::layout::{RecordLayout, thread};
use crate::raw::{RawRecord, kind, misc};
use crate::record::{
    Aux, AuxOutputHwId, BpfEvent, CallchainDeferred, Cgroup, Comm, ItraceStart, Ksymbol, Lost, LostSamples,
    Mmap, MmapExtended, MmapIdentity, Namespaces, Read, Record, Switch, Task, TextPoke, Throttle,
};

/// Bytes of the fields that every record of a type has, before its strings, lists and the trailer.
pub(crate) fn fixed_len(kind: u32) -> Option<usize> {
    Some(match kind {
        kind::SWITCH => 0,
        kind::COMM
        | kind::ITRACE_START
        | kind::LOST_SAMPLES
        | kind::SWITCH_CPU_WIDE
        | kind::CGROUP
        | kind::AUX_OUTPUT_HW_ID => 8,
        kind::TEXT_POKE => 12,
        kind::LOST
        | kind::READ
        | kind::NAMESPACES
        | kind::KSYMBOL
        | kind::BPF_EVENT
        | kind::CALLCHAIN_DEFERRED => 16,
        kind::EXIT | kind::FORK | kind::THROTTLE | kind::UNTHROTTLE | kind::AUX => 24,
        kind::MMAP => 32,
        kind::MMAP2 => 64,
        _ => return None,
    })
}

pub(crate) fn decode<'a>(layout: &RecordLayout, raw: &RawRecord<'a>) -> Result<Record<'a>, DecodeError> {
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
            Record::Read(Read { pid, tid, values: layout.counter_values(cursor)?, sample_id })
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
