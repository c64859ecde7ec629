//! What is written is what perf reads.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, and says what it skips"
)]

use std::io::{self, Cursor, Seek, SeekFrom, Write};
use std::process::Command;

use decoder::{Attr, AttrFlags, Endian, SampleFormat};
use model::{BuildId, Name, Pid};
use prof_perfdata::features::{BuildIdEntry, CpuCounts, EventDescription, Features};
use prof_perfdata::write::{Compressor, FileWriter, PipeWriter, RecordWriter};
use prof_perfdata::{Reader, Source};

/// `PERF_TYPE_SOFTWARE`, `PERF_COUNT_SW_CPU_CLOCK`.
fn cpu_clock() -> EventDescription {
    let attr = Attr {
        kind: 1,
        sample_period: 1_000_000,
        sample_format: SampleFormat::IDENTIFIER | SampleFormat::IP | SampleFormat::TID | SampleFormat::TIME,
        flags: AttrFlags::SAMPLE_ID_ALL,
        ..Attr::default()
    };
    EventDescription { attr, name: Name::from("cpu-clock"), ids: vec![17, 18] }
}

fn features() -> Features {
    Features {
        hostname: Some(Name::from("here")),
        os_release: Some(Name::from("6.18.0")),
        version: Some(Name::from("prof 0.1.0")),
        arch: Some(Name::from("x86_64")),
        cpus: Some(CpuCounts { available: 2, online: 2 }),
        command_line: vec![Name::from("prof"), Name::from("record")],
        events: vec![cpu_clock()],
        build_ids: vec![BuildIdEntry {
            pid: Pid(-1),
            misc: 2,
            build_id: BuildId::from_hex("0123456789abcdef0123456789abcdef01234567").unwrap(),
            path: Name::from("/bin/thing"),
        }],
        pmu_mappings: vec![(1, Name::from("software"))],
        sample_time: Some((1000, 2000)),
        sections: vec![(1, vec![7; 88]), (2, Vec::new()), (900, (0..200_000_u32).map(|n| n as u8).collect())],
        ..Features::default()
    }
}

fn words(values: &[u64]) -> Vec<u8> {
    values.iter().flat_map(|&value| Endian::NATIVE.u64_bytes(value)).collect()
}

fn header(kind: u32, misc: u16, size: u16) -> Vec<u8> {
    [&Endian::NATIVE.u32_bytes(kind)[..], &Endian::NATIVE.u16_bytes(misc), &Endian::NATIVE.u16_bytes(size)]
        .concat()
}

/// A COMM record of thread 42 and two samples.
fn records() -> Vec<u8> {
    let thread = 42 | 42 << 32;
    let mut bytes = header(3, 0, 48);
    bytes.extend(words(&[thread]));
    bytes.extend(b"thing\0\0\0");
    bytes.extend(words(&[thread, 0, 17]));
    for time in [1000, 2000] {
        bytes.extend(header(9, 2, 40));
        bytes.extend(words(&[17, 0x1234, thread, time]));
    }
    bytes
}

fn write(writer: &mut dyn RecordWriter) {
    writer.finished_init().unwrap();
    writer.append(&records()).unwrap();
    writer.finished_round().unwrap();
    writer.checkpoint().unwrap();
    writer.finish(&features()).unwrap();
}

fn perf(arguments: &[&str], file: &[u8]) -> Option<String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("written.data");
    std::fs::write(&path, file).unwrap();
    let output = Command::new("perf").args(arguments).arg("-i").arg(&path).output();
    let Ok(output) = output else {
        println!("skipped: perf is not installed");
        return None;
    };
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && errors.is_empty(), "perf {arguments:?} says: {errors}");
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn assert_perf_lists_both_samples(file: &[u8]) {
    if let Some(text) = perf(&["script", "-F", "comm,tid,time,ip,event"], file) {
        assert_eq!(text.matches("thing    42").count(), 2, "{text}");
        assert!(text.contains("cpu-clock"), "{text}");
    }
}

#[test]
fn perf_reads_a_file() {
    let mut file = Cursor::new(Vec::new());
    write(&mut FileWriter::create(&mut file, &[cpu_clock()]).unwrap());
    assert_perf_lists_both_samples(file.get_ref());
    if let Some(text) = perf(&["report", "--header-only"], file.get_ref()) {
        for fact in ["hostname : here", "perf version : prof 0.1.0", "nrcpus online : 2", "name = cpu-clock"]
        {
            assert!(text.contains(fact), "{fact} missing in {text}");
        }
    }
    if let Some(text) = perf(&["buildid-list"], file.get_ref()) {
        assert!(text.contains("0123456789abcdef0123456789abcdef01234567 /bin/thing"), "{text}");
    }
}

fn read(source: Source) -> Features {
    let mut reader = Reader::open(source).unwrap();
    while reader.next_entry().unwrap().is_some() {}
    assert!(reader.notices().is_empty(), "{:?}", reader.notices());
    reader.features().clone()
}

#[test]
fn our_own_sections_come_back_from_every_shape() {
    let mut plain = Cursor::new(Vec::new());
    write(&mut FileWriter::create(&mut plain, &[cpu_clock()]).unwrap());
    let mut packed = Cursor::new(Vec::new());
    let inner = FileWriter::create(&mut packed, &[cpu_clock()]).unwrap();
    write(&mut Compressor::new(inner, 1, 1 << 19).unwrap());
    for file in [plain.get_ref(), packed.get_ref()] {
        // perf takes the number of a bit for an index into its table of features, whatever it is.
        let bits = file[72..104].chunks_exact(8).map(|word| u64::from_ne_bytes(word.try_into().unwrap()));
        assert_eq!(bits.map(|word| word >> 31).collect::<Vec<_>>(), [0, 0, 0, 0]);
        assert_eq!(read(Source::File(Box::new(file.clone()))).sections, features().sections);
    }
    let mut stream = Vec::new();
    write(&mut PipeWriter::create(&mut stream, &[cpu_clock()], &features()).unwrap());
    assert_eq!(read(Source::Stream(Box::new(Cursor::new(stream)))).sections, features().sections);
}

#[test]
fn a_place_of_sections_that_lies_costs_the_sections_alone() {
    let mut file = Cursor::new(Vec::new());
    write(&mut FileWriter::create(&mut file, &[cpu_clock()]).unwrap());
    for (at, value) in [(112, 2), (120, u64::MAX), (120, 3), (128, u64::MAX), (128, 1 << 40), (128, 20)] {
        let mut bytes = file.get_ref().clone();
        bytes[at..at + 8].copy_from_slice(&u64::to_ne_bytes(value));
        let reader = Reader::open(Source::File(Box::new(bytes))).unwrap();
        assert_eq!(reader.features().hostname, Some(Name::from("here")));
        assert!(reader.features().sections.len() < 3, "{at} {value}");
        assert_eq!(reader.notices().len(), 1, "{at} {value}: {:?}", reader.notices());
    }
}

#[test]
fn perf_reads_a_file_that_was_never_finished() {
    let mut file = Cursor::new(Vec::new());
    let mut writer = FileWriter::create(&mut file, &[cpu_clock()]).unwrap();
    writer.append(&records()).unwrap();
    writer.checkpoint().unwrap();
    drop(writer);
    assert_perf_lists_both_samples(file.get_ref());
}

/// A disk that is full after so many bytes; what lies there already can be written anew.
struct FullDisk {
    bytes: Cursor<Vec<u8>>,
    room: usize,
}

impl Write for FullDisk {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let at = self.bytes.position() as usize;
        let length = bytes.len().min(self.room.saturating_sub(at));
        if length == 0 { Err(io::ErrorKind::StorageFull.into()) } else { self.bytes.write(&bytes[..length]) }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for FullDisk {
    fn seek(&mut self, position: SeekFrom) -> io::Result<u64> {
        self.bytes.seek(position)
    }
}

/// Wherever the disk is full, the header states the whole records that were written.
#[test]
fn a_full_disk_keeps_what_was_written() {
    let mut empty = Cursor::new(Vec::new());
    drop(FileWriter::create(&mut empty, &[cpu_clock()]).unwrap());
    let start = empty.get_ref().len();
    let (end, ends) = (start + records().len(), [0_u64, 48, 88, 128]);
    for room in start..end + 100 {
        let mut disk = FullDisk { bytes: Cursor::default(), room };
        let mut writer = FileWriter::create(&mut disk, &[cpu_clock()]).unwrap();
        let result = writer.append(&records()).and_then(|()| writer.finish(&features()));
        assert_eq!(result.unwrap_err().kind(), io::ErrorKind::StorageFull, "{room}");
        let file = disk.bytes.into_inner();
        let stated = u64::from_ne_bytes(file[48..56].try_into().unwrap());
        let whole = ends.iter().rfind(|&&end| end <= (room - start) as u64).unwrap();
        assert_eq!(stated, *whole, "{room}");
        assert_eq!(file[72..104], [0; 32], "no features");
    }
}

#[test]
fn perf_reads_a_compressed_file() {
    let mut file = Cursor::new(Vec::new());
    let inner = FileWriter::create(&mut file, &[cpu_clock()]).unwrap();
    write(&mut Compressor::new(inner, 1, 1 << 19).unwrap());
    assert_perf_lists_both_samples(file.get_ref());
}

#[test]
fn perf_reads_a_stream() {
    let mut stream = Vec::new();
    write(&mut PipeWriter::create(&mut stream, &[cpu_clock()], &features()).unwrap());
    assert_perf_lists_both_samples(&stream);
}

/// perf of Linux 7 stops at a record whose size is no multiple of eight, but for compressed ones.
#[test]
fn records_of_a_stream_end_at_multiples_of_eight() {
    let mut stream = Vec::new();
    write(&mut PipeWriter::create(&mut stream, &[cpu_clock()], &features()).unwrap());
    let mut rest = &stream[16..];
    let mut kinds = Vec::new();
    while let Some((header, _)) = rest.split_first_chunk::<8>() {
        let kind = u32::from_ne_bytes(header[..4].try_into().unwrap());
        let size = u16::from_ne_bytes([header[6], header[7]]);
        assert_eq!(size % 8, 0, "a record of type {kind} has {size} bytes");
        kinds.push(kind);
        rest = &rest[usize::from(size)..];
    }
    // HEADER_ATTR, HEADER_EVENT_TYPE, HEADER_BUILD_ID, HEADER_FEATURE
    assert!([64, 65, 67, 80].iter().all(|kind| kinds.contains(kind)), "{kinds:?}");
}
