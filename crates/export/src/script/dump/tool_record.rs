//! The fields of records that tools write.

use model::Name;
use perfdata::tool::{CpuMap, EventUpdate, ToolRecord};

use super::super::address::display;

pub(super) fn tool_record(out: &mut Vec<u8>, record: &ToolRecord<'_>) {
    match record {
        ToolRecord::HeaderAttr { attr, ids } => {
            display(out, format_args!(" type: {} config: {:#x} size: {}", attr.kind, attr.config, attr.size));
            display(out, format_args!(" sample_type: {:#x} ids:", attr.sample_format.bits()));
            ids.iter().for_each(|id| display(out, format_args!(" {id}")));
        }
        ToolRecord::HeaderEventType { id, name } => {
            display(out, format_args!(" id: {id} {}", Name::new(name)))
        }
        ToolRecord::Section(piece) => {
            let end = piece.offset.saturating_add(piece.bytes.len() as u64);
            display(out, format_args!(" section: {} bytes: {}-{end}/{}", piece.id, piece.offset, piece.size));
        }
        ToolRecord::HeaderTracingData { size, .. } => display(out, format_args!(" size: {size}")),
        ToolRecord::HeaderBuildId(entry) => match entry {
            Some(entry) => {
                display(out, format_args!(" pid: {} {} {}", entry.pid, entry.build_id, entry.path))
            }
            None => display(out, format_args!(" none")),
        },
        ToolRecord::FinishedRound | ToolRecord::FinishedInit => {}
        ToolRecord::IdIndex(entries) => {
            display(out, format_args!(" nr: {}", entries.len()));
            for entry in entries {
                let (cpu, tid) = (entry.cpu as i64, entry.tid as i64);
                display(
                    out,
                    format_args!("\n ... id: {}  idx: {}  cpu: {cpu}  tid: {tid}", entry.id, entry.index),
                );
            }
        }
        ToolRecord::AuxtraceInfo { kind, private } => {
            display(out, format_args!(" type: {kind}"));
            private.iter().for_each(|word| display(out, format_args!(" {word:#x}")));
        }
        ToolRecord::Auxtrace { size, offset, reference, index, tid, cpu } => {
            display(out, format_args!(" size: {size:#x}  offset: {offset:#x}  ref: {reference:#x}"));
            display(out, format_args!("  idx: {index}  tid: {}  cpu: {}", *tid as i32, *cpu as i32));
        }
        ToolRecord::AuxtraceError(error) => {
            display(
                out,
                format_args!(" type: {} code: {} cpu: {}", error.kind, error.code, error.cpu as i32),
            );
            display(out, format_args!(" pid: {} tid: {}", error.pid as i32, error.tid as i32));
            display(out, format_args!(" ip: {:#x} time: {}", error.ip, error.time));
            display(out, format_args!(" {}", Name::new(error.message)));
        }
        ToolRecord::ThreadMap(threads) => {
            display(out, format_args!(" nr: {}", threads.len()));
            for (pid, name) in threads {
                display(out, format_args!(" thread: {} {}", *pid as i64, Name::new(name)));
            }
        }
        ToolRecord::CpuMap(map) => cpus(out, map),
        ToolRecord::StatConfig(pairs) => {
            pairs.iter().for_each(|(tag, value)| display(out, format_args!(" {tag}={value}")));
        }
        ToolRecord::Stat { id, cpu, thread, value, enabled, running } => {
            display(out, format_args!(" id: {id}, cpu: {cpu}, thread: {thread}"));
            display(out, format_args!(" value: {value}, enabled: {enabled}, running: {running}"));
        }
        ToolRecord::StatRound { kind, time } => {
            let name = if *kind == 1 { "FINAL" } else { "INTERVAL" };
            display(out, format_args!(" time: {time} {name}"));
        }
        ToolRecord::EventUpdate { id, update } => {
            display(out, format_args!(" id: {id}"));
            match update {
                EventUpdate::Unit(unit) => display(out, format_args!(" unit: {}", Name::new(unit))),
                EventUpdate::Scale(scale) => display(out, format_args!(" scale: {scale}")),
                EventUpdate::Name(name) => display(out, format_args!(" name: {}", Name::new(name))),
                EventUpdate::Cpus(map) => cpus(out, map),
                EventUpdate::Unknown(number) => display(out, format_args!(" unknown: {number}")),
                _ => display(out, format_args!(" unknown")),
            }
        }
        ToolRecord::TimeConv { shift, mult, zero, short } => {
            display(out, format_args!(" shift: {shift} mult: {mult} zero: {zero}"));
            if let Some((cycles, mask)) = short {
                display(out, format_args!(" cycles: {cycles:#x} mask: {mask:#x}"));
            }
        }
        ToolRecord::HeaderFeature { feature, body } => {
            display(out, format_args!(" feature: {feature} size: {}", body.len()));
        }
        ToolRecord::Compressed(piece) => display(out, format_args!(" packed: {}", piece.len())),
        ToolRecord::BpfMetadata { program, variables } => {
            display(out, format_args!(" prog {}", Name::new(program)));
            for (name, value) in variables {
                display(out, format_args!(" {}: {}", Name::new(name), Name::new(value)));
            }
        }
        ToolRecord::SchedstatCpu { timestamp, cpu, version, body } => {
            display(
                out,
                format_args!(" time: {timestamp} cpu: {cpu} version: {version} size: {}", body.len()),
            );
        }
        ToolRecord::SchedstatDomain { timestamp, cpu, version, domain, body } => {
            display(out, format_args!(" time: {timestamp} cpu: {cpu} version: {version} domain: {domain}"));
            display(out, format_args!(" size: {}", body.len()));
        }
        // Records of newer perf versions get the heading alone.
        _ => {}
    }
}

fn cpus(out: &mut Vec<u8>, map: &CpuMap) {
    display(out, format_args!(": {map}"));
}
