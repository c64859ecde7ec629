//! `PERF_RECORD_SAMPLE`, typed.

use model::{CpuId, Pid, Tid, Timestamp};

use crate::cursor::Cursor;
use crate::error::DecodeError;
use crate::flags::{BranchSampleFormat, ReadFormat, SampleFormat};
use crate::layout::{RecordLayout, cpu, thread};
use crate::raw::{RawRecord, misc};
use crate::record::CpuMode;
use crate::values::{BranchStack, CounterValues, Registers, U64s};

/// A sample: each part is there if the event's `sample_type` has its bit. In the order of the bytes, which is
/// that of `perf_output_sample()` in `kernel/events/core.c` (checklist row L).
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub struct Sample<'a> {
    /// The privilege level of `ip`.
    pub mode: CpuMode,
    /// `PERF_RECORD_MISC_EXACT_IP`: `ip` is the very instruction that caused the event.
    pub exact_ip: bool,
    /// The event's id, at the first place of every sample.
    pub identifier: Option<u64>,
    /// The instruction pointer.
    pub ip: Option<u64>,
    /// The process and thread.
    pub thread: Option<(Pid, Tid)>,
    /// The time.
    pub time: Option<Timestamp>,
    /// The data address, where the event has one.
    pub addr: Option<u64>,
    /// The event's id.
    pub id: Option<u64>,
    /// The id of the very event instance.
    pub stream_id: Option<u64>,
    /// The CPU.
    pub cpu: Option<CpuId>,
    /// The number of events that this sample stands for.
    pub period: Option<u64>,
    /// Counter values of the group.
    pub read: Option<CounterValues<'a>>,
    /// The call chain, innermost first, with context markers (`PERF_CONTEXT_*`).
    pub callchain: Option<U64s<'a>>,
    /// The raw data of a tracepoint and others, with its padding.
    pub raw: Option<&'a [u8]>,
    /// The last branches taken, newest first.
    pub branch_stack: Option<BranchStack<'a>>,
    /// The user registers.
    pub user_registers: Option<Registers<'a>>,
    /// The copy of the user stack, from the stack pointer upwards, cut to what the kernel could copy (`dyn_size`).
    pub user_stack: Option<&'a [u8]>,
    /// `PERF_SAMPLE_WEIGHT`, or the full word of `PERF_SAMPLE_WEIGHT_STRUCT` (var1 in the low 32 bits).
    pub weight: Option<u64>,
    /// `union perf_mem_data_src`.
    pub data_source: Option<u64>,
    /// `PERF_TXN_*`.
    pub transaction: Option<u64>,
    /// The registers at the interrupt.
    pub interrupt_registers: Option<Registers<'a>>,
    /// The physical data address.
    pub physical_address: Option<u64>,
    /// The id of the cgroup.
    pub cgroup: Option<u64>,
    /// The page size of `addr`.
    pub data_page_size: Option<u64>,
    /// The page size of `ip`.
    pub code_page_size: Option<u64>,
    /// A snapshot of the AUX area.
    pub aux: Option<&'a [u8]>,
}

impl RecordLayout {
    /// Decodes a SAMPLE record of this event: [`RecordLayout::decode`] without the way through [`crate::Record`].
    ///
    /// # Errors
    /// [`DecodeError::UnknownFormat`] where the layout is not known ([`RecordLayout::refusal`]), else
    /// [`DecodeError::FieldCut`] or [`DecodeError::Count`].
    #[inline]
    pub fn decode_sample<'a>(&self, raw: &RawRecord<'a>) -> Result<Sample<'a>, DecodeError> {
        if let Some(refusal) = self.refusal {
            return Err(refusal);
        }
        let format = self.sample_format;
        let cursor = &mut Cursor::new(raw, self.endian);
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
            read: part!(READ, self.counter_values(cursor)?),
            callchain: part!(CALLCHAIN, {
                let count = cursor.u64("callchain nr")?;
                cursor.words("callchain nr", count, 1)?
            }),
            raw: part!(RAW, {
                let size = cursor.u32("raw size")?;
                cursor.bytes("raw data", size.into())?
            }),
            branch_stack: part!(BRANCH_STACK, self.branch_stack(cursor)?),
            user_registers: part!(REGS_USER, registers(cursor, self.regs_user, "regs_user")?),
            user_stack: part!(STACK_USER, user_stack(cursor)?),
            weight: part!(WEIGHT | WEIGHT_STRUCT, cursor.u64("weight")?),
            data_source: part!(DATA_SRC, cursor.u64("data_src")?),
            transaction: part!(TRANSACTION, cursor.u64("transaction")?),
            interrupt_registers: part!(REGS_INTR, registers(cursor, self.regs_intr, "regs_intr")?),
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
    pub(crate) fn counter_values<'a>(
        &self,
        cursor: &mut Cursor<'a>,
    ) -> Result<CounterValues<'a>, DecodeError> {
        let format = self.read_format;
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

    fn branch_stack<'a>(&self, cursor: &mut Cursor<'a>) -> Result<BranchStack<'a>, DecodeError> {
        let count = cursor.u64("bnr")?;
        let hw_index = if self.branch_format.contains(BranchSampleFormat::HW_INDEX) {
            Some(cursor.u64("hw_idx")?)
        } else {
            None
        };
        let entries = cursor.words("bnr", count, 3)?;
        let counters = if self.branch_format.contains(BranchSampleFormat::COUNTERS) {
            Some(cursor.words("bnr", count, 1)?)
        } else {
            None
        };
        Ok(BranchStack { hw_index, entries, counters })
    }
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
