//! Sound inputs to begin with, made by the project's own writers.

use std::io::Cursor;

use decoder::record::{Comm, Lost, Mmap, Task};
use decoder::values::{BranchStack, CounterValues, Registers, U64s};
use decoder::{
    Attr, AttrFlags, BranchSampleFormat, CpuMode, Endian, RawRecord, ReadFormat, Record, RecordLayout,
    SampleFormat, SampleId,
};
use model::{BuildId, CpuId, Name, Pid, Tid, Timestamp};
use perfdata::features::{BuildIdEntry, CpuCounts, CpuTopology, EventDescription, Features, NumaNode};
use perfdata::write::{Compressor, FileWriter, PipeWriter, RecordWriter};

/// An attr with every part of a sample that can be had together.
pub fn attr(sample_format: SampleFormat) -> Attr {
    Attr {
        kind: 1,
        size: 128,
        sample_period: 1_000_000,
        sample_format,
        read_format: ReadFormat::all(),
        flags: AttrFlags::SAMPLE_ID_ALL
            | AttrFlags::MMAP
            | AttrFlags::MMAP2
            | AttrFlags::COMM
            | AttrFlags::TASK,
        branch_sample_format: BranchSampleFormat::all(),
        sample_regs_user: 0xff_0fff,
        sample_regs_intr: 0xff_0fff,
        sample_stack_user: 512,
        ..Attr::default()
    }
}

/// A record of each type that can be made from a few numbers, one after the other.
pub fn records(attr: &Attr, endian: Endian, count: u64) -> Vec<u8> {
    let layout = RecordLayout::new(attr, endian);
    let words: Vec<u8> = (1..100_u64).flat_map(|word| endian.u64_bytes(word * 0x1001)).collect();
    let list = |len: usize| U64s::new(words.get(..len * 8).unwrap_or(&words), endian);
    let mut out = Vec::new();
    let mut push = |record: &Record<'_>| {
        // Every record here is far below the size limit.
        let _ = layout.encode(record, &mut out);
    };
    for number in 0..count {
        let sample_id = SampleId {
            thread: Some((Pid(1), Tid(2))),
            time: Some(Timestamp(number)),
            id: Some(7),
            stream_id: Some(7),
            cpu: Some(CpuId(1)),
            identifier: Some(7),
        };
        push(&Record::Comm(Comm { pid: Pid(1), tid: Tid(2), comm: b"seed", exec: true, sample_id }));
        push(&Record::Lost(Lost { id: 7, lost: number, sample_id }));
        // The parts of a sample that no layout asks for are left out.
        let empty = RawRecord { kind: 9, misc: 2, body: &[0; 4096] };
        let all = Attr { branch_sample_format: BranchSampleFormat::empty(), ..attr.clone() };
        if let Ok(mut sample) = RecordLayout::new(&all, endian).decode_sample(&empty) {
            sample.mode = CpuMode::User;
            sample.time = Some(Timestamp(number));
            sample.identifier = Some(7);
            sample.id = Some(7);
            sample.thread = Some((Pid(1), Tid(2)));
            sample.read = Some(CounterValues::new(attr.read_format, (1, 1), Some(1), list(6)));
            sample.callchain = Some(list(1 + number as usize % 9));
            sample.raw = Some(words.get(..20).unwrap_or(&[]));
            sample.branch_stack = Some(BranchStack::new(Some(1), list(9), Some(list(3))));
            sample.user_registers = Some(Registers::new(2, attr.sample_regs_user, list(20)));
            sample.user_stack = words.get(..64);
            push(&Record::Sample(sample));
        }
    }
    out
}

fn events() -> Vec<EventDescription> {
    let format = SampleFormat::all() - SampleFormat::WEIGHT;
    vec![
        EventDescription { attr: attr(format), name: Name::from("cpu-clock"), ids: vec![7, 8] },
        EventDescription { attr: attr(format), name: Name::from("page-faults"), ids: vec![9] },
    ]
}

fn features() -> Features {
    let text = Name::from("text");
    Features {
        build_ids: BuildId::from_bytes(&[1; 20])
            .map(|build_id| BuildIdEntry { pid: Pid(-1), misc: 2, build_id, path: Name::from("/bin/true") })
            .into_iter()
            .collect(),
        hostname: Some(text.clone()),
        arch: Some(Name::from("x86_64")),
        cpus: Some(CpuCounts { available: 2, online: 2 }),
        command_line: vec![text.clone(), text.clone()],
        events: events(),
        cpu_topology: Some(CpuTopology {
            core_siblings: vec![text.clone()],
            thread_siblings: vec![text.clone()],
            cpus: vec![(0, 0), (1, 0)],
            die_siblings: vec![text.clone()],
            dies: vec![0, 0],
        }),
        numa_topology: vec![NumaNode { node: 0, total: 1, free: 1, cpus: text.clone() }],
        pmu_mappings: vec![(1, text.clone())],
        sample_time: Some((1, 2)),
        tracing_data: Some(tracing_data()),
        // simpleperf's files: one of fixed fields, one as a message.
        verbatim: vec![
            (128, b"\x1c\0\0\0/a\0\x02\0\0\0\0\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\0".to_vec()),
            (132, b"\x11\0\0\0\x0a\x02/a\x10\x02\x18\x80\x40\x22\x06\x10\x08\x1a\x02fo".to_vec()),
        ],
        ..Features::default()
    }
}

fn write(writer: &mut impl RecordWriter) -> std::io::Result<()> {
    let records = records(&events()[0].attr, Endian::NATIVE, 12);
    writer.append(&records)?;
    writer.finished_round()?;
    writer.append(&records)?;
    writer.finish(&features())?;
    Ok(())
}

/// A recording of a process that maps files where its samples lie, forks and ends.
pub fn mapped_file() -> Vec<u8> {
    let layout = RecordLayout::new(&events()[0].attr, Endian::NATIVE);
    let sample_id = |number| SampleId {
        thread: Some((Pid(1), Tid(2))),
        time: Some(Timestamp(number)),
        id: Some(7),
        stream_id: Some(7),
        cpu: Some(CpuId(1)),
        identifier: Some(7),
    };
    let map = |number: u64, path| Mmap {
        pid: Pid(1),
        tid: Tid(2),
        start: number * 0x4000,
        len: 0x4000,
        page_offset: 0x1000,
        path,
        extended: None,
        data: false,
        mode: CpuMode::User,
        scan_cut_short: false,
        sample_id: sample_id(number),
    };
    let task = |number| Task {
        pid: Pid(3),
        tid: Tid(3),
        parent_pid: Pid(1),
        parent_tid: Tid(2),
        time: Timestamp(number),
        sample_id: sample_id(number),
    };
    let mut bytes = Vec::new();
    let paths: [&[u8]; 5] = [b"/bin/a", b"/bin/bb", b"/bin/ccc", b"//anon", b"[vdso]"];
    for (number, path) in (0..).zip(paths) {
        // Every record here is far below the size limit.
        let _ = layout.encode(&Record::Mmap(map(number, path)), &mut bytes);
    }
    let _ = layout.encode(&Record::Fork(task(5)), &mut bytes);
    bytes.extend(records(&events()[0].attr, Endian::NATIVE, 12));
    let _ = layout.encode(&Record::Exit(task(20)), &mut bytes);
    let mut file = Cursor::new(Vec::new());
    // Writing to memory does not fail.
    let _ = FileWriter::create(&mut file, &events()).and_then(|mut writer| {
        writer.append(&bytes)?;
        writer.finish(&features())
    });
    file.into_inner()
}

/// A recording in the shape of a file.
pub fn file() -> Vec<u8> {
    let mut bytes = Cursor::new(Vec::new());
    // Writing to memory does not fail.
    let _ = FileWriter::create(&mut bytes, &events()).and_then(|mut writer| write(&mut writer));
    bytes.into_inner()
}

/// A recording in the shape of a pipe.
pub fn pipe() -> Vec<u8> {
    let mut bytes = Vec::new();
    let _ = PipeWriter::create(&mut bytes, &events(), &features()).and_then(|mut writer| write(&mut writer));
    bytes
}

/// A recording with compressed records.
pub fn compressed() -> Vec<u8> {
    let mut bytes = Cursor::new(Vec::new());
    let _ = FileWriter::create(&mut bytes, &events())
        .and_then(|writer| Compressor::new(writer, 3, 4096))
        .and_then(|mut writer| write(&mut writer));
    bytes.into_inner()
}

/// Lines of C as tracepoints have them.
const PRINT_FLAGS: &str = r#""comm=%s state=%s%s", REC->comm, (REC->state & ((1 | 2) - 1)) ? __print_flags(REC->state & 3, "|", { 1, "S" }, { 2, "D" }) : "R", REC->state & 4 ? "+" : """#;
const PRINT_ARRAYS: &str = r#""%-10s %08lx %p %pS %*d %llu", __get_str(name), (unsigned long)REC->state << 3, (void *)REC->state, (void *)REC->state, 5, REC->numbers[1], __print_symbolic(REC->state, { 0, "A" }, { 1, "B" }), __print_array(__get_dynamic_array(rest), __get_dynamic_array_len(rest) / 8, 8), __print_hex(REC->numbers, 8)"#;

/// The formats of two tracepoints.
pub fn tracing_data() -> Vec<u8> {
    tracing_data_printing(&[PRINT_FLAGS, PRINT_ARRAYS])
}

/// The formats of tracepoints with these lines of C.
pub fn tracing_data_printing(prints: &[&str]) -> Vec<u8> {
    let mut bytes = b"\x17\x08\x44tracing0.6\0\0\x08".to_vec();
    bytes.extend(4096_u32.to_le_bytes());
    let sized = |bytes: &mut Vec<u8>, text: &[u8]| {
        bytes.extend((text.len() as u64).to_le_bytes());
        bytes.extend_from_slice(text);
    };
    for header in ["header_page", "header_event"] {
        bytes.extend(header.as_bytes());
        bytes.push(0);
        sized(&mut bytes, b"\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n");
    }
    bytes.extend(0_u32.to_le_bytes());
    bytes.extend(1_u32.to_le_bytes());
    bytes.extend(b"sched\0");
    bytes.extend((prints.len() as u32).to_le_bytes());
    let format = |id: u32, print: &str| {
        format!(
            "name: event{id}\nID: {id}\nformat:\n\
             \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\n\
             \tfield:char comm[16];\toffset:2;\tsize:16;\tsigned:0;\n\
             \tfield:__data_loc char[] name;\toffset:18;\tsize:4;\tsigned:0;\n\
             \tfield:__rel_loc u64[] rest;\toffset:22;\tsize:4;\tsigned:1;\n\
             \tfield:u32 numbers[2];\toffset:26;\tsize:8;\tsigned:1;\n\
             \tfield:long state;\toffset:34;\tsize:8;\tsigned:1;\n\nprint fmt: {print}\n"
        )
    };
    for (id, print) in (314..).zip(prints) {
        sized(&mut bytes, format(id, print).as_bytes());
    }
    bytes.extend(0_u32.to_le_bytes());
    bytes.extend(0_u32.to_le_bytes());
    sized(&mut bytes, b"1 init\n");
    bytes
}
