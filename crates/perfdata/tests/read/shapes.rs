//! Files, pipes, folders, compressed pieces; both byte orders.

use std::io::Read;

use decoder::Endian;
use model::Timestamp;
use prof_perfdata::{EntryKind, Notice, Reader, Source};

use crate::recording::{Recording, kernel_records, tool_record};

const BOTH: [Endian; 2] = [Endian::Little, Endian::Big];

fn file(bytes: Vec<u8>) -> Reader {
    Reader::open(Source::File(Box::new(bytes))).unwrap()
}

/// A pipe that gives a few bytes at a time.
struct Trickle(std::io::Cursor<Vec<u8>>);

impl Read for Trickle {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let len = buffer.len().min(7);
        self.0.read(&mut buffer[..len])
    }
}

fn stream(bytes: Vec<u8>) -> Reader {
    Reader::open(Source::Stream(Box::new(Trickle(std::io::Cursor::new(bytes))))).unwrap()
}

fn check(reader: &mut Reader, recording: &Recording) {
    assert_eq!(reader.endian(), recording.endian);
    let attrs: Vec<_> = reader.events().iter().map(|event| (event.attr.clone(), event.ids.clone())).collect();
    assert_eq!(attrs, recording.attrs);
    let found = kernel_records(reader);
    let bytes: Vec<_> = found.iter().map(|(_, bytes)| bytes.clone()).collect();
    assert_eq!(bytes, recording.records);
    // COMM has id 0; samples take ids 11, 12, 21 in turn.
    let events: Vec<_> = found.iter().take(6).map(|(event, _)| *event).collect();
    assert_eq!(events, [Some(0), Some(0), Some(0), Some(0), Some(1), Some(0)]);
    assert!(reader.loss().is_none(), "{:?}", reader.loss());
}

#[test]
fn files_and_pipes_of_both_byte_orders() {
    for endian in BOTH {
        let recording = Recording::new(endian, 5000);
        check(&mut file(recording.file()), &recording);
        check(&mut file(recording.pipe_with(&recording.data())), &recording);
        check(&mut stream(recording.pipe_with(&recording.data())), &recording);
    }
}

#[test]
fn compressed_records_may_be_cut_by_a_pieces_end() {
    for endian in BOTH {
        let recording = Recording::new(endian, 6000);
        for (piece, kind) in [(1000, 81), (40_001, 81), (4096, 83)] {
            let data = recording.compressed(piece, kind);
            check(&mut file(recording.file_with(&data)), &recording);
            check(&mut stream(recording.pipe_with(&data)), &recording);
        }
    }
}

#[test]
fn a_folder_has_its_records_in_parts_without_rounds() {
    let recording = Recording::new(Endian::Little, 100);
    let mut data = recording.records[..2].concat();
    data.extend(tool_record(68, &[], Endian::Little));
    let parts: Vec<Box<dyn prof_perfdata::ReadAt>> =
        vec![Box::new(recording.records[2..50].concat()), Box::new(recording.records[50..].concat())];
    let source = Source::Directory { data: Box::new(recording.file_with(&data)), parts };
    let mut reader = Reader::open(source).unwrap();
    assert!(!reader.has_rounds());
    check(&mut reader, &recording);
}

#[test]
fn times_and_rounds_come_with_the_entries() {
    let recording = Recording::new(Endian::Big, 3);
    let mut data = recording.data();
    data.extend(tool_record(68, &[], Endian::Big));
    data.extend(tool_record(82, &[], Endian::Big));
    data.extend(tool_record(200, &[0; 8], Endian::Big));
    let mut reader = file(recording.file_with(&data));
    let mut entries = Vec::new();
    while let Some(entry) = reader.next_entry().unwrap() {
        entries.push((entry.kind, entry.time));
    }
    let kernel = |time| (EntryKind::Kernel, Some(Timestamp(time)));
    assert_eq!(
        entries,
        [
            kernel(0),
            kernel(5),
            kernel(1000),
            kernel(1001),
            kernel(1002),
            kernel(9999),
            (EntryKind::RoundEnd, None),
            (EntryKind::Tool, None),
            (EntryKind::Unknown, None),
        ]
    );
    assert_eq!(reader.loss().unknown_records, 1);
}

#[test]
fn records_come_in_the_order_of_time() {
    for endian in BOTH {
        // The newest first, as rings that are emptied one after the other have them.
        let recording = Recording::new(endian, 50);
        let backwards: Vec<u8> = recording.records.iter().rev().flatten().copied().collect();
        for data in [backwards.clone(), [backwards, tool_record(68, &[], endian)].concat()] {
            for reader in [file(recording.file_with(&data)), stream(recording.pipe_with(&data))] {
                let mut records = reader.in_time_order();
                let mut times = Vec::new();
                while let Some(record) = records.next_record().unwrap() {
                    assert!(record.decode().is_ok());
                    times.push(record.time.0);
                }
                assert_eq!(times.len(), recording.records.len());
                assert!(times.is_sorted(), "{times:?}");
                assert!(records.loss().is_none());
            }
        }
    }
}

#[test]
fn features_of_a_recorder_with_32_bits_are_found_in_both_byte_orders() {
    for endian in BOTH {
        let mut recording = Recording::new(endian, 3);
        recording.features.hostname = Some("router".into());
        recording.features.arch = Some("mips".into());
        recording.features.command_line = vec!["perf".into()];
        let mut bytes = recording.file();
        // The bitmap is made of words of 32 bits there: the lower of two comes first.
        if endian == Endian::Big {
            bytes[72..104].chunks_exact_mut(8).for_each(|word| word.rotate_left(4));
        }
        let reader = file(bytes);
        assert!(reader.notices().is_empty(), "{:?}", reader.notices());
        assert_eq!(reader.features().hostname, recording.features.hostname);
        assert_eq!(reader.features().arch, recording.features.arch);
        assert_eq!(reader.features().command_line, recording.features.command_line);
    }
}

#[test]
fn a_recording_that_was_never_finished_is_read_to_its_last_whole_record() {
    let recording = Recording::new(Endian::Little, 10);
    let mut bytes = recording.file();
    // A killed perf leaves a size of 0; prof one that covers what its last checkpoint saw.
    let record_sizes: Vec<usize> = recording.records.iter().map(Vec::len).collect();
    for stated in [0_u64, record_sizes[0] as u64] {
        bytes[48..56].copy_from_slice(&stated.to_le_bytes());
        let mut reader = file(bytes[..bytes.len() - 1].to_vec());
        assert_eq!(kernel_records(&mut reader).len(), recording.records.len() - 1);
        assert!(matches!(reader.notices(), [Notice::NeverFinished]));
        assert_eq!(reader.loss().cut_bytes, *record_sizes.last().unwrap() as u64 - 1);
    }
}

#[test]
fn trace_data_outside_of_records_are_stepped_over() {
    let recording = Recording::new(Endian::Little, 4);
    let mut data = recording.records[..3].concat();
    // HEADER_TRACING_DATA of 5 bytes, which take 8; AUXTRACE of 24 bytes.
    data.extend(tool_record(66, &[5, 0, 0, 0, 0, 0, 0, 0], Endian::Little));
    data.extend(b"trace\0\0\0");
    data.extend(&recording.records[3]);
    let mut auxtrace = vec![0; 40];
    auxtrace[0] = 24;
    data.extend(tool_record(71, &auxtrace, Endian::Little));
    data.extend([0xee; 24]);
    data.extend(recording.records[4..].concat());
    for mut reader in [file(recording.file_with(&data)), stream(recording.pipe_with(&data))] {
        check(&mut reader, &recording);
        assert_eq!(reader.features().tracing_data.as_deref(), Some(&b"trace"[..]));
    }
}

/// A TRACING_DATA section of so many bytes with one tracepoint of the id 7.
fn tracing_data(size: usize) -> Vec<u8> {
    let format = b"name: sched_switch\nID: 7\nformat:\n";
    let mut bytes = b"\x17\x08\x44tracing0.6\0\0\x08\0\x10\0\0".to_vec();
    for name in [&b"header_page\0"[..], b"header_event\0"] {
        bytes.extend(name);
        bytes.extend([0; 8]);
    }
    bytes.extend([0, 0, 0, 0, 1, 0, 0, 0]);
    bytes.extend(b"sched\0\x01\0\0\0");
    bytes.extend((format.len() as u64).to_le_bytes());
    bytes.extend(format);
    bytes.resize(size, 0);
    bytes
}

#[test]
fn tracepoints_are_named_by_their_descriptions_wherever_these_lie() {
    let mut recording = Recording::new(Endian::Little, 4);
    recording.attrs[0].0.kind = 2;
    recording.attrs[0].0.config = 7;
    let section = tracing_data(200);
    let size = (section.len() as u32).to_le_bytes();
    let perf = [tool_record(66, &size, Endian::Little), section.clone()].concat();
    let inside = [&size[..], &section].concat();
    let simpleperf = tool_record(66, &inside, Endian::Little);
    let newer = tool_record(32777, &inside, Endian::Little);
    // A size of 32 bits, the high half of which lies where others have `misc`.
    let large = tracing_data(0x2_0000);
    let mut body = (large.len() as u32).to_le_bytes().to_vec();
    body.extend(&large);
    body.resize(body.len().next_multiple_of(8), 0);
    let total = body.len() as u32 + 8;
    let header = [32777_u32.to_le_bytes(), total.rotate_left(16).to_le_bytes()].concat();
    let large_record = [header, body].concat();
    for (described, section) in
        [(perf, &section), (simpleperf, &section), (newer, &section), (large_record, &large)]
    {
        let data = [described, recording.data()].concat();
        for mut reader in [file(recording.file_with(&data)), stream(recording.pipe_with(&data))] {
            assert_eq!(reader.events()[0].name.as_bytes(), b"sched:sched_switch");
            check(&mut reader, &recording);
            assert_eq!(reader.features().tracing_data.as_ref(), Some(section));
            assert_eq!(reader.loss().unknown_records, 0);
        }
    }
}
