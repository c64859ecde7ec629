//! Damaged and hostile recordings.

use std::io::Write;

use decoder::Endian;
use model::Name;
use prof_perfdata::features::{BuildIdEntry, Features};
use prof_perfdata::{Error, Notice, Reader, Source};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

use crate::recording::{Recording, kernel_records, tool_record};

fn open(bytes: Vec<u8>) -> Result<Reader, Error> {
    Reader::open(Source::File(Box::new(bytes)))
}

fn open_stream(bytes: Vec<u8>) -> Result<Reader, Error> {
    Reader::open(Source::Stream(Box::new(std::io::Cursor::new(bytes))))
}

/// Reads to the end, decoding everything. More records than bytes would be a loop.
fn read_all(mut reader: Reader, bytes: usize) {
    let mut records = 0;
    while let Ok(Some(entry)) = reader.next_entry() {
        if let Ok((raw, layout)) = reader.record_and_layout(entry.record) {
            let _ = layout.decode(&raw);
        }
        reader.release(entry.record);
        records += 1;
        assert!(records <= bytes * 130, "more records than the bytes can hold");
    }
}

fn small() -> Recording {
    let features = Features {
        hostname: Some(Name::from("here")),
        command_line: vec![Name::from("prof"), Name::from("record")],
        build_ids: vec![BuildIdEntry {
            pid: model::Pid(-1),
            misc: 2,
            build_id: model::BuildId::from_hex("0123456789abcdef").unwrap(),
            path: Name::from("/usr/bin/burn"),
        }],
        ..Features::default()
    };
    Recording { features, ..Recording::new(Endian::Little, 20) }
}

#[test]
fn cut_at_every_byte() {
    let recording = small();
    let file = recording.file();
    let pipe = recording.pipe_with(&recording.data());
    for len in 0..file.len() {
        match open(file[..len].to_vec()) {
            Ok(mut reader) => {
                let found = kernel_records(&mut reader);
                let whole: Vec<_> = found.iter().map(|(_, bytes)| bytes.clone()).collect();
                assert!(recording.records.starts_with(&whole));
                // Whatever is missing is told.
                assert!(!reader.notices().is_empty(), "{len} of {}", file.len());
            }
            // The header, the attrs or all records are gone.
            Err(error) => assert!(len < file.len() - recording.data().len(), "{len}: {error}"),
        }
    }
    for len in 0..pipe.len() {
        for open in [open, open_stream] {
            if let Ok(mut reader) = open(pipe[..len].to_vec()) {
                let found = kernel_records(&mut reader);
                let whole: Vec<_> = found.iter().map(|(_, bytes)| bytes.clone()).collect();
                assert!(recording.records.starts_with(&whole));
                let all = whole.len() as u64;
                let bytes: u64 = found.iter().map(|(_, bytes)| bytes.len() as u64).sum();
                let data_at = pipe.len() - recording.data().len();
                if len >= data_at {
                    assert_eq!(bytes + reader.loss().cut_bytes, (len - data_at) as u64, "{all} records");
                }
            }
        }
    }
}

#[test]
fn wrong_headers_name_the_field() {
    let file = small().file();
    let with = |at: usize, value: u64| {
        let mut bytes = file.clone();
        bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
        open(bytes)
    };
    let message = |at, value| with(at, value).err().map(|error| error.to_string()).unwrap_or_default();
    assert!(message(8, 105).starts_with("header: size at offset 0x8 is 0x69"), "{}", message(8, 105));
    assert!(message(16, 0).starts_with("header: attr_size at offset 0x10 is 0x0"));
    assert!(message(16, 1 << 63).starts_with("header: attr_size at offset 0x10 is 0x8000000000000000"));
    assert!(message(24, 1 << 63).starts_with("header: attrs.offset at offset 0x18 is 0x8000000000000000"));
    assert!(message(32, 1 << 63).starts_with("header: attrs.size at offset 0x20 is 0x8000000000000000"));
    assert!(message(32, 1).starts_with("header: attrs.size at offset 0x20 is 0x1, not a whole number"));
    assert!(message(40, 1 << 63).starts_with("header: data.offset at offset 0x28"));
    assert!(message(40, 3).starts_with("header: data.offset at offset 0x28 is 0x3"));
    assert!(matches!(with(32, 0), Err(Error::NoEvents)));
    // Records that reach past the end are read as far as there are any.
    let reader = with(48, 1 << 63).unwrap();
    assert!(matches!(reader.notices(), [Notice::DataCut { .. }]));
    assert!(matches!(open(Vec::new()), Err(Error::Empty)));
    assert!(matches!(open(b"#!/bin/sh".to_vec()), Err(Error::Magic { .. })));
    assert!(matches!(open(b"PERFFILE00000000".to_vec()), Err(Error::Version1)));
    assert!(open_stream(file).is_err());
}

#[test]
fn ids_and_features_outside_the_file_are_left_out_and_told() {
    let recording = small();
    let file = recording.file();
    // The ids section of the first attr; the sizes in the feature table behind the records.
    let ids_at = 104 + 24 + 128;
    let table = file.len()
        - recording.features.to_sections(Endian::Little).iter().map(|s| s.1.len() + 16).sum::<usize>();
    for at in [ids_at, ids_at + 8, table, table + 8, table + 16] {
        for value in [u64::MAX, 1 << 63, file.len() as u64 + 1] {
            let mut bytes = file.clone();
            bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
            let mut reader = open(bytes).unwrap();
            assert!(matches!(reader.notices(), [Notice::Skipped(_)]), "{:?}", reader.notices());
            let told = reader.notices()[0].to_string();
            assert!(at != ids_at || told.contains("ids.offset at offset"), "{told}");
            assert!(at != ids_at + 8 || told.contains("ids.size at offset"), "{told}");
            // The table has BUILD_ID, HOSTNAME and so on.
            for (field_at, field) in [
                (table, "BUILD_ID's offset"),
                (table + 8, "BUILD_ID's size"),
                (table + 16, "HOSTNAME's offset"),
            ] {
                let named = format!("{field} at offset {at:#x} of the file is {value:#x}");
                assert!(at != field_at || told.contains(&named), "{told}");
            }
            assert_eq!(kernel_records(&mut reader).len(), recording.records.len());
        }
    }
}

#[test]
fn a_zstd_bomb_is_stopped() {
    let recording = small();
    // A record of 8 bytes (SWITCH without a trailer), again and again: some hundred bytes for each 100 MB.
    let record = tool_record(14, &[], Endian::Little);
    let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 19).unwrap();
    let block = record.repeat(1 << 17);
    for _ in 0..300 {
        encoder.write_all(&block).unwrap();
    }
    let bomb = encoder.finish().unwrap();
    assert!(bomb.len() < 60_000, "{}", bomb.len());
    let data = tool_record(81, &bomb, Endian::Little);
    let mut reader = open(recording.file_with(&data)).unwrap();
    let found = kernel_records(&mut reader);
    assert!(found.len() < 4 << 20, "{} records", found.len());
    assert!(reader.notices().iter().any(|notice| notice.to_string().contains("not a recording")));
}

#[test]
fn a_damaged_record_of_a_tool_is_told_with_its_place() {
    let recording = small();
    let mut data = recording.records[..4].concat();
    let at = recording.file().len() as u64;
    // A BUILD_ID that promises more than it has.
    data.extend(tool_record(67, &[0; 6], Endian::Little));
    let file = recording.file_with(&data);
    let place = file.windows(6).position(|bytes| bytes == [67, 0, 0, 0, 0, 0]).unwrap();
    assert!((place as u64) < at);
    let mut reader = open(file).unwrap();
    kernel_records(&mut reader);
    let told = reader.notices()[0].to_string();
    assert!(told.starts_with(&format!("left out: the record at offset {place:#x}: ")), "{told}");
    // Compressed records that are none.
    let mut data = recording.records[..4].concat();
    data.extend(tool_record(81, b"no zstd frame at all", Endian::Little));
    let file = recording.file_with(&data);
    let place = file.windows(6).position(|bytes| bytes == [81, 0, 0, 0, 0, 0]).unwrap();
    let mut reader = open(file).unwrap();
    assert_eq!(kernel_records(&mut reader).len(), 4);
    let told = reader.notices()[0].to_string();
    assert!(told.starts_with(&format!("left out: the record at offset {place:#x}: compressed")), "{told}");
}

#[test]
fn pieces_inside_pieces_are_not_unpacked() {
    let recording = small();
    let inner = Recording { records: vec![recording.compressed(1 << 20, 81)], ..small() };
    let data = inner.compressed(1 << 20, 81);
    for open in [open, open_stream] {
        let mut reader = open(recording.pipe_with(&data)).unwrap();
        assert_eq!(kernel_records(&mut reader).len(), 0);
        assert!(matches!(reader.notices(), [Notice::Record { error: Error::Compressed { .. }, .. }]));
    }
}

#[test]
fn a_record_of_size_zero_ends_the_stream_and_not_the_program() {
    let recording = small();
    let mut data = recording.records[..4].concat();
    let at = data.len() as u64;
    data.extend([9, 0, 0, 0, 0, 0, 0, 0]);
    data.extend(recording.records[4..].concat());
    let mut reader = open(recording.file_with(&data)).unwrap();
    assert_eq!(kernel_records(&mut reader).len(), 4);
    assert_eq!(reader.loss().cut_bytes, data.len() as u64 - at);
    assert!(matches!(reader.notices(), [Notice::Stopped { .. }]));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn damaged_recordings_never_panic(
        shape in 0..4,
        big in any::<bool>(),
        bytes in vec((any::<Index>(), any::<u8>()), 0..12),
        words in vec((any::<Index>(), select(vec![0, 1, 1 << 61, 1 << 63, u64::MAX, 104, 4096])), 0..4),
        cut in any::<Index>(),
        is_cut in any::<bool>(),
    ) {
        let recording = small();
        let recording = if big { Recording { features: recording.features, ..Recording::new(Endian::Big, 20) } } else { recording };
        let mut file = match shape {
            0 => recording.file(),
            1 => recording.pipe_with(&recording.data()),
            2 => recording.file_with(&recording.compressed(700, 81)),
            _ => recording.pipe_with(&recording.compressed(700, 83)),
        };
        for (at, byte) in bytes {
            let at = at.index(file.len());
            file[at] = byte;
        }
        for (at, word) in words {
            let at = at.index(file.len() / 8) * 8;
            file[at..at + 8].copy_from_slice(&word.to_le_bytes());
        }
        if is_cut {
            file.truncate(cut.index(file.len()));
        }
        let len = file.len();
        if let Ok(reader) = open(file.clone()) {
            read_all(reader, len);
        }
        if let Ok(reader) = open_stream(file) {
            read_all(reader, len);
        }
    }
}
