//! `PERF_RECORD_SAMPLE`, typed.

use model::{CpuId, Pid, Tid, Timestamp};

use crate::header::CpuMode;
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
