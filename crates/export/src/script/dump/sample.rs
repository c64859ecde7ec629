//! The fields of SAMPLE records.

use decoder::registers::Architecture;
use decoder::values::{CounterValues, Registers};
use decoder::{Sample, SampleFormat};

use super::super::address::display;
use super::super::memory;

pub(super) fn sample(
    out: &mut Vec<u8>,
    sample: &Sample<'_>,
    misc: u16,
    format: SampleFormat,
    architecture: Architecture,
) {
    let (pid, tid) = sample.thread.map_or((-1, -1), |(pid, tid)| (pid.0, tid.0));
    display(out, format_args!("(IP, {misc:#x}): {pid}/{tid}: {:#x}", sample.ip.unwrap_or(0)));
    display(
        out,
        format_args!(" period: {} addr: {:#x}", sample.period.unwrap_or(0), sample.addr.unwrap_or(0)),
    );
    let mut field = |name: &str, value: Option<u64>| {
        if let Some(value) = value {
            display(out, format_args!(" {name}: {value:#x}"));
        }
    };
    field("identifier", sample.identifier);
    field("id", sample.id);
    field("stream_id", sample.stream_id);
    if let Some(cpu) = sample.cpu {
        display(out, format_args!(" cpu: {cpu}"));
    }
    if let Some(chain) = sample.callchain {
        display(out, format_args!("\n... FP chain: nr:{}", chain.len()));
        for (index, ip) in chain.iter().enumerate() {
            display(out, format_args!("\n..... {index:2}: {ip:016x}"));
        }
    }
    branches(out, sample);
    for (name, registers) in [("user", sample.user_registers), ("intr", sample.interrupt_registers)] {
        if let Some(registers) = registers {
            self::registers(out, name, &registers, architecture);
        }
    }
    if let Some(stack) = sample.user_stack {
        display(out, format_args!("\n... ustack: size {}", stack.len()));
    }
    if let Some(raw) = sample.raw {
        display(out, format_args!("\n... raw: size {}", raw.len()));
        for (index, line) in raw.chunks(16).enumerate() {
            display(out, format_args!("\n.....  {:04x}:", index * 16));
            line.iter().for_each(|byte| display(out, format_args!(" {byte:02x}")));
        }
    }
    if let Some(word) = sample.weight {
        if format.contains(SampleFormat::WEIGHT_STRUCT) {
            let parts = (word & 0xffff_ffff, word >> 32 & 0xffff, word >> 48);
            display(out, format_args!("\n... weight: {},{:#x},{:#x}", parts.0, parts.1, parts.2));
        } else {
            display(out, format_args!("\n... weight: {word}"));
        }
    }
    let numbers = [
        (" . data_src", sample.data_source),
        (" . transaction", sample.transaction),
        (" .. phys_addr", sample.physical_address),
        (" .. cgroup", sample.cgroup),
    ];
    for (name, value) in numbers {
        if let Some(value) = value {
            display(out, format_args!("\n{name}: {value:#x}"));
        }
    }
    for (name, size) in [("data", sample.data_page_size), ("code", sample.code_page_size)] {
        if let Some(size) = size {
            display(out, format_args!("\n .. {name} page size: "));
            memory::page_size(out, size);
        }
    }
    if let Some(values) = &sample.read {
        counters(out, values);
    }
    if let Some(aux) = sample.aux {
        display(out, format_args!("\n... AUX data: size {}", aux.len()));
    }
}

fn branches(out: &mut Vec<u8>, sample: &Sample<'_>) {
    let Some(stack) = sample.branch_stack else { return };
    display(out, format_args!("\n... branch stack: nr:{}", stack.len()));
    if let Some(index) = stack.hw_index {
        display(out, format_args!(" hw_idx: {index:#x}"));
    }
    for (index, branch) in stack.iter().enumerate() {
        let flags = branch.flags;
        let flag = |set: bool, letter: &'static str| if set { letter } else { " " };
        display(
            out,
            format_args!(
                "\n..... {index:2}: {:016x} -> {:016x} {} cycles {}{}{}{} {:x}",
                branch.from,
                branch.to,
                flags.cycles(),
                flag(flags.mispredicted(), "M"),
                flag(flags.predicted(), "P"),
                flag(flags.abort(), "A"),
                flag(flags.in_transaction(), "T"),
                flags.kind(),
            ),
        );
        if let Some(counter) = stack.counters.and_then(|counters| counters.get(index)) {
            display(out, format_args!(" counters: {counter:#x}"));
        }
    }
}

fn registers(out: &mut Vec<u8>, name: &str, registers: &Registers<'_>, architecture: Architecture) {
    let abi = match registers.abi {
        0 => "none",
        1 => "32-bit",
        2 => "64-bit",
        _ => "unknown",
    };
    display(out, format_args!("\n... {name} regs: mask {:#x} ABI {abi}", registers.mask));
    for (register, value) in registers.iter() {
        let name = architecture.register_name(register).unwrap_or("unknown");
        display(out, format_args!("\n.... {name:<5} {value:#018x}"));
    }
}

pub(super) fn counters(out: &mut Vec<u8>, values: &CounterValues<'_>) {
    out.extend_from_slice(b"\n... sample_read:");
    if let Some(time) = values.time_enabled {
        display(out, format_args!("\n...... time enabled {time:016x}"));
    }
    if let Some(time) = values.time_running {
        display(out, format_args!("\n...... time running {time:016x}"));
    }
    for counter in values.iter() {
        out.extend_from_slice(b"\n.....");
        if let Some(id) = counter.id {
            display(out, format_args!(" id {id:016x},"));
        }
        display(out, format_args!(" value {:016x}", counter.value));
        if let Some(lost) = counter.lost {
            display(out, format_args!(", lost {lost}"));
        }
    }
}
