//! Typed records to bytes: for the recorder's own records and for tests.

use alloc::vec::Vec;

use model::{CpuId, Pid, Tid, Timestamp};
use thiserror::Error;

use super::RecordLayout;
use crate::endian::Endian;
use crate::error::DecodeError;
use crate::flags::{BranchSampleFormat, ReadFormat, SampleFormat};
use crate::header::{CpuMode, HEADER_SIZE, kind, misc};
use crate::raw::RawRecord;
use crate::record::{Mmap, MmapIdentity, Record, SampleId};
use crate::sample::Sample;
use crate::values::{BRANCH_FLAG_WIDTHS, CounterValues, Registers, U64s};

/// The reason why a record cannot be written.
#[derive(Clone, Copy, PartialEq, Eq, Error, Debug)]
#[non_exhaustive]
pub enum EncodeError {
    /// The size field of a record has 16 bits.
    #[error("a record of {size} bytes does not fit into the 65535 of its size field")]
    TooLong {
        /// Bytes of the whole record.
        size: usize,
    },
    /// The layout of this event's samples is not known.
    #[error(transparent)]
    Layout(DecodeError),
}

impl RawRecord<'_> {
    /// Appends the record to `out`, header included.
    ///
    /// # Errors
    /// [`EncodeError::TooLong`] above 65535 bytes; nothing is appended.
    pub fn encode(&self, endian: Endian, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        let size = u16::try_from(self.size()).map_err(|_| EncodeError::TooLong { size: self.size() })?;
        let mut writer = Writer { out, endian };
        writer.u32(self.kind);
        writer.u16(self.misc);
        writer.u16(size);
        writer.bytes(self.body);
        Ok(())
    }
}

/// Appends a record with its header and trailer ([`RecordLayout::encode`]).
pub(super) fn record(
    layout: &RecordLayout,
    record: &Record<'_>,
    out: &mut Vec<u8>,
) -> Result<(), EncodeError> {
    let start = out.len();
    out.extend_from_slice(&[0; HEADER_SIZE]);
    let mut writer = Writer { out, endian: layout.endian };
    let written = match record {
        Record::Sample(sample) => encode_sample(layout, sample, &mut writer),
        other => Ok(encode_sideband(layout, other, &mut writer)),
    };
    let size = out.len() - start;
    let size_field = u16::try_from(size).map_err(|_| EncodeError::TooLong { size });
    match written.and_then(|(kind, misc)| Ok((kind, misc, size_field?))) {
        Ok((kind, misc, size)) => {
            let mut header = out.iter_mut().skip(start);
            let bytes = layout.endian.u32_bytes(kind).into_iter();
            let bytes = bytes.chain(layout.endian.u16_bytes(misc)).chain(layout.endian.u16_bytes(size));
            bytes.for_each(|byte| {
                if let Some(slot) = header.next() {
                    *slot = byte;
                }
            });
            Ok(())
        }
        Err(error) => {
            out.truncate(start);
            Err(error)
        }
    }
}

fn encode_sample(
    layout: &RecordLayout,
    sample: &Sample<'_>,
    w: &mut Writer<'_>,
) -> Result<(u32, u16), EncodeError> {
    if let Some(refusal) = layout.refusal {
        return Err(EncodeError::Layout(refusal));
    }
    let has = |part| layout.sample_format.intersects(part);
    let mut word = |part, value: Option<u64>| {
        if has(part) {
            w.u64(value.unwrap_or(0));
        }
    };
    word(SampleFormat::IDENTIFIER, sample.identifier);
    word(SampleFormat::IP, sample.ip);
    if has(SampleFormat::TID) {
        w.thread(sample.thread);
    }
    let mut word = |part, value: Option<u64>| {
        if has(part) {
            w.u64(value.unwrap_or(0));
        }
    };
    word(SampleFormat::TIME, sample.time.map(|time| time.0));
    word(SampleFormat::ADDR, sample.addr);
    word(SampleFormat::ID, sample.id);
    word(SampleFormat::STREAM_ID, sample.stream_id);
    if has(SampleFormat::CPU) {
        w.cpu(sample.cpu);
    }
    if has(SampleFormat::PERIOD) {
        w.u64(sample.period.unwrap_or(0));
    }
    if has(SampleFormat::READ) {
        encode_counters(layout, sample.read.as_ref(), w);
    }
    if has(SampleFormat::CALLCHAIN) {
        w.counted(sample.callchain);
    }
    if has(SampleFormat::RAW) {
        let raw = sample.raw.unwrap_or(&[]);
        w.u32(u32::try_from(raw.len()).map_err(|_| EncodeError::TooLong { size: raw.len() })?);
        w.bytes(raw);
    }
    if has(SampleFormat::BRANCH_STACK) {
        encode_branches(layout, sample, w);
    }
    if has(SampleFormat::REGS_USER) {
        w.registers(sample.user_registers.as_ref(), layout.regs_user);
    }
    if has(SampleFormat::STACK_USER) {
        let stack = sample.user_stack.unwrap_or(&[]);
        let padded = stack.len().next_multiple_of(8);
        w.u64(padded as u64);
        w.bytes(stack);
        w.zeros(padded - stack.len());
        if padded != 0 {
            w.u64(stack.len() as u64);
        }
    }
    let mut word = |part, value: Option<u64>| {
        if has(part) {
            w.u64(value.unwrap_or(0));
        }
    };
    word(SampleFormat::WEIGHT | SampleFormat::WEIGHT_STRUCT, sample.weight);
    word(SampleFormat::DATA_SRC, sample.data_source);
    word(SampleFormat::TRANSACTION, sample.transaction);
    if has(SampleFormat::REGS_INTR) {
        w.registers(sample.interrupt_registers.as_ref(), layout.regs_intr);
    }
    let mut word = |part, value: Option<u64>| {
        if has(part) {
            w.u64(value.unwrap_or(0));
        }
    };
    word(SampleFormat::PHYS_ADDR, sample.physical_address);
    word(SampleFormat::CGROUP, sample.cgroup);
    word(SampleFormat::DATA_PAGE_SIZE, sample.data_page_size);
    word(SampleFormat::CODE_PAGE_SIZE, sample.code_page_size);
    if has(SampleFormat::AUX) {
        let aux = sample.aux.unwrap_or(&[]);
        w.u64(aux.len() as u64);
        w.bytes(aux);
    }
    let exact = if sample.exact_ip { misc::EXACT_IP } else { 0 };
    Ok((kind::SAMPLE, mode_bits(sample.mode) | exact))
}

fn encode_counters(layout: &RecordLayout, values: Option<&CounterValues<'_>>, w: &mut Writer<'_>) {
    let format = layout.read_format;
    let group = format.contains(ReadFormat::GROUP);
    let count = values.map_or(0, |values| values.iter().count());
    let first = values.and_then(|values| values.iter().next());
    w.u64(if group { count as u64 } else { first.map_or(0, |first| first.value) });
    if format.contains(ReadFormat::TOTAL_TIME_ENABLED) {
        w.u64(values.and_then(|values| values.time_enabled).unwrap_or(0));
    }
    if format.contains(ReadFormat::TOTAL_TIME_RUNNING) {
        w.u64(values.and_then(|values| values.time_running).unwrap_or(0));
    }
    let wanted = if group { count } else { 1 };
    let mut counters = values.into_iter().flat_map(CounterValues::iter);
    for _ in 0..wanted {
        let counter = counters.next();
        if group {
            w.u64(counter.map_or(0, |counter| counter.value));
        }
        if format.contains(ReadFormat::ID) {
            w.u64(counter.and_then(|counter| counter.id).unwrap_or(0));
        }
        if format.contains(ReadFormat::LOST) {
            w.u64(counter.and_then(|counter| counter.lost).unwrap_or(0));
        }
    }
}

fn encode_branches(layout: &RecordLayout, sample: &Sample<'_>, w: &mut Writer<'_>) {
    let stack = sample.branch_stack.as_ref();
    let count = stack.map_or(0, |stack| stack.len());
    w.u64(count as u64);
    if layout.branch_format.contains(BranchSampleFormat::HW_INDEX) {
        w.u64(stack.and_then(|stack| stack.hw_index).unwrap_or(0));
    }
    for branch in stack.into_iter().flat_map(|stack| stack.iter()) {
        w.u64(branch.from);
        w.u64(branch.to);
        w.u64(w.endian.store_fields(branch.flags.0, &BRANCH_FLAG_WIDTHS));
    }
    if layout.branch_format.contains(BranchSampleFormat::COUNTERS) {
        let counters = stack.and_then(|stack| stack.counters);
        (0..count).for_each(|index| w.u64(counters.and_then(|words| words.get(index)).unwrap_or(0)));
    }
}

fn encode_sideband(layout: &RecordLayout, record: &Record<'_>, w: &mut Writer<'_>) -> (u32, u16) {
    let flag = |set: bool, bit: u16| if set { bit } else { 0 };
    let (kind, misc, sample_id) = match record {
        // Written by `encode_sample`.
        Record::Sample(_) => return (kind::SAMPLE, 0),
        Record::Mmap(mmap) => {
            let (kind, misc) = encode_mmap(layout, mmap, w);
            (kind, misc, &mmap.sample_id)
        }
        Record::Lost(lost) => {
            w.u64(lost.id);
            w.u64(lost.lost);
            (kind::LOST, 0, &lost.sample_id)
        }
        Record::Comm(comm) => {
            w.thread(Some((comm.pid, comm.tid)));
            w.string(comm.comm);
            (kind::COMM, flag(comm.exec, misc::COMM_EXEC), &comm.sample_id)
        }
        Record::Exit(task) | Record::Fork(task) => {
            w.thread(Some((task.pid, Tid(task.parent_pid.0))));
            w.thread(Some((Pid(task.tid.0), task.parent_tid)));
            w.u64(task.time.0);
            let kind = if matches!(record, Record::Fork(_)) { kind::FORK } else { kind::EXIT };
            (kind, 0, &task.sample_id)
        }
        Record::Throttle(throttle) | Record::Unthrottle(throttle) => {
            w.u64(throttle.time.0);
            w.u64(throttle.id);
            w.u64(throttle.stream_id);
            let goes_on = matches!(record, Record::Unthrottle(_));
            (if goes_on { kind::UNTHROTTLE } else { kind::THROTTLE }, 0, &throttle.sample_id)
        }
        Record::Read(read) => {
            w.thread(Some((read.pid, read.tid)));
            encode_counters(layout, Some(&read.values), w);
            (kind::READ, 0, &read.sample_id)
        }
        Record::Aux(aux) => {
            w.u64(aux.offset);
            w.u64(aux.size);
            w.u64(aux.flags);
            (kind::AUX, 0, &aux.sample_id)
        }
        Record::ItraceStart(start) => {
            w.thread(Some((start.pid, start.tid)));
            (kind::ITRACE_START, 0, &start.sample_id)
        }
        Record::LostSamples(lost) => {
            w.u64(lost.lost);
            (kind::LOST_SAMPLES, flag(lost.filtered_by_bpf, misc::LOST_SAMPLES_BPF), &lost.sample_id)
        }
        Record::Switch(switch) => {
            if switch.other.is_some() {
                w.thread(switch.other);
            }
            let kind = if switch.other.is_some() { kind::SWITCH_CPU_WIDE } else { kind::SWITCH };
            let out = flag(switch.out, misc::SWITCH_OUT);
            (kind, out | flag(switch.preempted, misc::SWITCH_OUT_PREEMPT), &switch.sample_id)
        }
        Record::Namespaces(namespaces) => {
            w.thread(Some((namespaces.pid, namespaces.tid)));
            w.u64(namespaces.links.len() as u64 / 2);
            (0..namespaces.links.len() & !1)
                .filter_map(|index| namespaces.links.get(index))
                .for_each(|v| w.u64(v));
            (kind::NAMESPACES, 0, &namespaces.sample_id)
        }
        Record::Ksymbol(ksymbol) => {
            w.u64(ksymbol.start);
            w.u32(ksymbol.len);
            w.u16(ksymbol.kind);
            w.u16(u16::from(ksymbol.unregister));
            w.string(ksymbol.name);
            (kind::KSYMBOL, 0, &ksymbol.sample_id)
        }
        Record::BpfEvent(event) => {
            w.u16(event.kind);
            w.u16(event.flags);
            w.u32(event.id);
            w.bytes(&event.tag);
            (kind::BPF_EVENT, 0, &event.sample_id)
        }
        Record::Cgroup(cgroup) => {
            w.u64(cgroup.id);
            w.string(cgroup.path);
            (kind::CGROUP, 0, &cgroup.sample_id)
        }
        Record::TextPoke(poke) => {
            // Lengths above 16 bits make the record too long as well, which `encode` then reports.
            w.u64(poke.address);
            w.u16(poke.old.len() as u16);
            w.u16(poke.new.len() as u16);
            w.bytes(poke.old);
            w.bytes(poke.new);
            let len = 12 + poke.old.len() + poke.new.len();
            w.zeros(len.next_multiple_of(8) - len);
            (kind::TEXT_POKE, 0, &poke.sample_id)
        }
        Record::AuxOutputHwId(id) => {
            w.u64(id.hw_id);
            (kind::AUX_OUTPUT_HW_ID, 0, &id.sample_id)
        }
        Record::CallchainDeferred(deferred) => {
            w.u64(deferred.cookie);
            w.counted(Some(deferred.ips));
            (kind::CALLCHAIN_DEFERRED, 0, &deferred.sample_id)
        }
    };
    encode_trailer(layout, sample_id, w);
    (kind, misc)
}

fn encode_mmap(layout: &RecordLayout, mmap: &Mmap<'_>, w: &mut Writer<'_>) -> (u32, u16) {
    let mut bits = mode_bits(mmap.mode);
    if mmap.data {
        bits |= misc::MMAP_DATA;
    }
    if mmap.scan_cut_short {
        bits |= misc::PROC_MAP_PARSE_TIMEOUT;
    }
    w.thread(Some((mmap.pid, mmap.tid)));
    w.u64(mmap.start);
    w.u64(mmap.len);
    w.u64(mmap.page_offset);
    if let Some(extended) = &mmap.extended {
        match &extended.identity {
            MmapIdentity::File(file) => {
                w.u32(file.major);
                w.u32(file.minor);
                w.u64(file.inode);
                w.u64(file.generation);
            }
            // Without the attr's bit, readers take the 24 bytes for a file, whatever the mark says.
            MmapIdentity::BuildId(_) if !layout.has_build_ids => w.zeros(24),
            MmapIdentity::BuildId(id) => {
                bits |= misc::MMAP_BUILD_ID;
                let id = id.as_ref().map_or(&[][..], |id| id.as_bytes());
                w.bytes(&[id.len() as u8, 0, 0, 0]);
                w.bytes(id);
                w.zeros(20 - id.len());
            }
        }
        w.u32(extended.protection);
        w.u32(extended.flags);
    }
    w.string(mmap.path);
    (if mmap.extended.is_some() { kind::MMAP2 } else { kind::MMAP }, bits)
}

fn encode_trailer(layout: &RecordLayout, id: &SampleId, w: &mut Writer<'_>) {
    if !layout.writes_trailer() {
        return;
    }
    let has = |part| layout.sample_format.contains(part);
    if has(SampleFormat::TID) {
        w.thread(id.thread);
    }
    if has(SampleFormat::TIME) {
        w.u64(id.time.unwrap_or(Timestamp(0)).0);
    }
    if has(SampleFormat::ID) {
        w.u64(id.id.unwrap_or(0));
    }
    if has(SampleFormat::STREAM_ID) {
        w.u64(id.stream_id.unwrap_or(0));
    }
    if has(SampleFormat::CPU) {
        w.cpu(id.cpu);
    }
    if has(SampleFormat::IDENTIFIER) {
        w.u64(id.identifier.unwrap_or(0));
    }
}

fn mode_bits(mode: CpuMode) -> u16 {
    match mode {
        CpuMode::Unknown => 0,
        CpuMode::Kernel => 1,
        CpuMode::User => 2,
        CpuMode::Hypervisor => 3,
        CpuMode::GuestKernel => 4,
        CpuMode::GuestUser => 5,
    }
}

struct Writer<'a> {
    out: &'a mut Vec<u8>,
    endian: Endian,
}

impl Writer<'_> {
    fn bytes(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    fn zeros(&mut self, count: usize) {
        self.out.resize(self.out.len() + count, 0);
    }

    fn u16(&mut self, value: u16) {
        self.bytes(&self.endian.u16_bytes(value));
    }

    fn u32(&mut self, value: u32) {
        self.bytes(&self.endian.u32_bytes(value));
    }

    fn u64(&mut self, value: u64) {
        self.bytes(&self.endian.u64_bytes(value));
    }

    fn thread(&mut self, thread: Option<(Pid, Tid)>) {
        let (pid, tid) = thread.unwrap_or((Pid(0), Tid(0)));
        self.u32(pid.0 as u32);
        self.u32(tid.0 as u32);
    }

    fn cpu(&mut self, cpu: Option<CpuId>) {
        self.u32(cpu.unwrap_or(CpuId(0)).0);
        self.u32(0);
    }

    /// The count, then the values.
    fn counted(&mut self, values: Option<U64s<'_>>) {
        self.u64(values.map_or(0, |values| values.len() as u64));
        values.into_iter().flat_map(|values| values.iter()).for_each(|value| self.u64(value));
    }

    /// With its NUL, padded to eight bytes.
    fn string(&mut self, text: &[u8]) {
        self.bytes(text);
        self.zeros((text.len() + 1).next_multiple_of(8) - text.len());
    }

    fn registers(&mut self, registers: Option<&Registers<'_>>, mask: u64) {
        let abi = registers.map_or(0, |registers| registers.abi);
        self.u64(abi);
        if abi == 0 {
            return;
        }
        for number in (0..64).filter(|number| mask & (1 << number) != 0) {
            self.u64(registers.and_then(|registers| registers.get(number)).unwrap_or(0));
        }
    }
}
