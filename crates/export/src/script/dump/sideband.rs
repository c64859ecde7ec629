//! The fields of the kernel's records other than samples (`tools/perf/util/event.c`, `perf_event__fprintf_*`).

use decoder::Record;
use decoder::record::{Mmap, MmapIdentity, SampleId, Switch, Task, Throttle};
use model::Name;

use super::super::address::display;
use super::sample::counters;

pub(super) fn sideband(out: &mut Vec<u8>, record: &Record<'_>) {
    match record {
        Record::Sample(_) => {}
        Record::Mmap(mmap) => self::mmap(out, mmap),
        Record::Lost(lost) => display(out, format_args!(" id:{:#x}: lost:{}", lost.id, lost.lost)),
        Record::LostSamples(lost) => {
            display(
                out,
                format_args!(" lost:{}{}", lost.lost, if lost.filtered_by_bpf { " (BPF)" } else { "" }),
            );
        }
        Record::Comm(comm) => {
            let exec = if comm.exec { " exec" } else { "" };
            display(out, format_args!("{exec}: {}:{}/{}", Name::new(comm.comm), comm.pid, comm.tid));
        }
        Record::Fork(task) | Record::Exit(task) => self::task(out, task),
        Record::Throttle(throttle) | Record::Unthrottle(throttle) => self::throttle(out, throttle),
        Record::Read(read) => {
            display(out, format_args!(" {}/{}", read.pid, read.tid));
            counters(out, &read.values);
        }
        Record::Aux(aux) => {
            display(
                out,
                format_args!(" offset: {:#x} size: {:#x} flags: {:#x}", aux.offset, aux.size, aux.flags),
            );
            let flags =
                [(1, "T"), (2, "O"), (4, "P"), (8, "C")].into_iter().filter(|(bit, _)| aux.flags & bit != 0);
            let letters: String = flags.map(|(_, letter)| letter).collect();
            display(out, format_args!(" [{letters}]"));
        }
        Record::ItraceStart(start) => display(out, format_args!(" pid: {} tid: {}", start.pid, start.tid)),
        Record::Switch(switch) => self::switch(out, switch),
        Record::Namespaces(namespaces) => {
            let links = namespaces.links;
            display(out, format_args!(" {}/{}", namespaces.pid, namespaces.tid));
            display(out, format_args!(" - nr_namespaces: {}\n\t\t[", links.len() / 2));
            const NAMES: [&str; 7] = ["net", "uts", "ipc", "pid", "user", "mnt", "cgroup"];
            for index in 0..links.len() / 2 {
                let name = NAMES.get(index).copied().unwrap_or("unknown");
                let (device, inode) =
                    (links.get(index * 2).unwrap_or(0), links.get(index * 2 + 1).unwrap_or(0));
                let separator = if index > 0 { ", " } else { "" };
                display(out, format_args!("{separator}{index}/{name}: {device}/{inode:#x}"));
            }
            out.push(b']');
        }
        Record::Ksymbol(symbol) => {
            display(out, format_args!(" addr {:x} len {} type {}", symbol.start, symbol.len, symbol.kind));
            display(
                out,
                format_args!(" flags {:#x} name {}", u8::from(symbol.unregister), Name::new(symbol.name)),
            );
        }
        Record::BpfEvent(event) => {
            display(out, format_args!(" type {}, flags {}, id {} tag ", event.kind, event.flags, event.id));
            event.tag.iter().for_each(|byte| display(out, format_args!("{byte:02x}")));
        }
        Record::Cgroup(cgroup) => {
            display(out, format_args!(" cgroup: {} {}", cgroup.id, Name::new(cgroup.path)))
        }
        Record::TextPoke(poke) => {
            display(
                out,
                format_args!(
                    " addr {:#x} old len {} new len {}",
                    poke.address,
                    poke.old.len(),
                    poke.new.len()
                ),
            );
            for (name, bytes) in [("old", poke.old), ("new", poke.new)] {
                display(out, format_args!("\n            {name} bytes:"));
                bytes.iter().for_each(|byte| display(out, format_args!(" {byte:02x}")));
            }
        }
        Record::AuxOutputHwId(id) => display(out, format_args!(" hw_id: {:#x}", id.hw_id)),
        Record::CallchainDeferred(chain) => {
            display(out, format_args!(" cookie: {:#x} nr:{}", chain.cookie, chain.ips.len()));
            for (index, ip) in chain.ips.iter().enumerate() {
                display(out, format_args!("\n..... {index:2}: {ip:016x}"));
            }
        }
        // Records of newer kernels get the heading alone.
        _ => {}
    }
}

/// Appends ` 8017/8017: [0x7ff29b5c9000(0x156000) @ 0x26000 fe:00 326279 0]: r-xp /usr/lib/…`
fn mmap(out: &mut Vec<u8>, mmap: &Mmap<'_>) {
    display(out, format_args!(" {}/{}: [{:#x}({:#x}) @ ", mmap.pid, mmap.tid, mmap.start, mmap.len));
    // As C's `%#x`: zero without a prefix.
    if mmap.page_offset == 0 {
        out.push(b'0');
    } else {
        display(out, format_args!("{:#x}", mmap.page_offset));
    }
    let Some(extended) = &mmap.extended else {
        let kind = if mmap.data { 'r' } else { 'x' };
        return display(out, format_args!("]: {kind} {}", Name::new(mmap.path)));
    };
    match &extended.identity {
        MmapIdentity::File(file) => {
            let (major, minor) = (file.major, file.minor);
            display(out, format_args!(" {major:02x}:{minor:02x} {} {}]: ", file.inode, file.generation));
        }
        MmapIdentity::BuildId(Some(id)) => display(out, format_args!(" <{id}>]: ")),
        MmapIdentity::BuildId(None) => display(out, format_args!(" <>]: ")),
    }
    // PROT_READ, PROT_WRITE, PROT_EXEC, MAP_SHARED
    for (bit, letter) in [(1, b'r'), (2, b'w'), (4, b'x')] {
        out.push(if extended.protection & bit != 0 { letter } else { b'-' });
    }
    out.push(if extended.flags & 1 != 0 { b's' } else { b'p' });
    display(out, format_args!(" {}", Name::new(mmap.path)));
}

fn task(out: &mut Vec<u8>, task: &Task) {
    display(out, format_args!("({}:{}):({}:{})", task.pid, task.tid, task.parent_pid, task.parent_tid));
}

fn throttle(out: &mut Vec<u8>, throttle: &Throttle) {
    display(
        out,
        format_args!(" time: {} id: {:#x} stream_id: {:#x}", throttle.time, throttle.id, throttle.stream_id),
    );
}

fn switch(out: &mut Vec<u8>, switch: &Switch) {
    let direction = match (switch.out, switch.preempted) {
        (false, _) => "IN         ",
        (true, false) => "OUT        ",
        (true, true) => "OUT preempt",
    };
    display(out, format_args!(" {direction}"));
    match (switch.other, trailer_thread(&switch.sample_id)) {
        (Some((pid, tid)), _) => {
            let which = if switch.out { "next" } else { "prev" };
            display(out, format_args!("  {which} pid/tid: {:5}/{:<5}", pid.0, tid.0));
        }
        (None, Some((pid, tid))) => display(out, format_args!("  pid/tid: {pid}/{tid}")),
        (None, None) => {}
    }
}

fn trailer_thread(id: &SampleId) -> Option<(i32, i32)> {
    id.thread.map(|(pid, tid)| (pid.0, tid.0))
}
