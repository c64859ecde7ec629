use super::*;

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::thread;
use std::time::Duration;

use decoder::{Attr, CpuMode, Endian, RecordLayout, SampleId, kind, misc};

/// A mapping of a file by a process that has ended.
fn map(path: &Path, inode: u64, time: u64) -> Mmap<'_> {
    let identity = MmapIdentity::File(FileIdentity { major: 8, minor: 1, inode, generation: 3 });
    Mmap {
        pid: Pid(i32::MAX),
        tid: model::Tid(i32::MAX),
        start: 0x1000,
        len: 0x1000,
        page_offset: 0,
        path: path.as_os_str().as_bytes(),
        extended: Some(MmapExtended { identity, protection: 5, flags: 2 }),
        data: false,
        mode: CpuMode::User,
        scan_cut_short: false,
        sample_id: SampleId { time: Some(Timestamp(time)), ..SampleId::default() },
    }
}

/// `CLOCK_MONOTONIC`
const MONOTONIC: i32 = 1;

#[test]
fn a_file_that_is_written_in_place_has_two_build_ids() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("program");
    fs::copy(std::env::current_exe().unwrap(), &path).unwrap();
    let inode = fs::metadata(&path).unwrap().ino();
    let files = MappedFiles::start(Some(MONOTONIC)).unwrap();
    let first = map(&path, inode, 1);
    let file = mapped_file(&first).unwrap();
    files.request(&first);
    files.finish();
    let states = files.states(&file);
    assert!(states.len() == 1 && states[0].build_id.is_some() && states[0].since == Timestamp(0));
    // Times of files have the resolution of the kernel's tick.
    thread::sleep(Duration::from_millis(20));
    let before = host::sys::clock::now(MONOTONIC).unwrap();
    thread::sleep(Duration::from_millis(20));
    fs::write(&path, "no object").unwrap();
    let after = host::sys::clock::now(MONOTONIC).unwrap();
    // Within a second of the first reading nobody looks again; the end does.
    let again = map(&path, inode, after);
    files.request(&again);
    files.note_use(file, &again);
    files.finish();
    let states = files.states(&file);
    assert_eq!((states.len(), states[1].build_id, states[1].size), (2, None, 9));
    assert!((before..=after).contains(&states[1].since.0), "{before} {states:?} {after}");

    let mut tracker = Tracker::new();
    files.add_to(&mut tracker, &Record::Mmap(again));
    assert_eq!(tracker.files(), 1);
    let mut cursor = 0;
    assert_eq!(files.read_since(&mut cursor), [file, file]);
    assert_eq!(files.read_since(&mut cursor), []);
}

#[test]
fn a_mapping_that_was_seen_when_the_file_was_read_is_no_reason_to_look_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("program");
    fs::write(&path, "no object").unwrap();
    let inode = fs::metadata(&path).unwrap().ino();
    let files = MappedFiles::start(None).unwrap();
    let first = map(&path, inode, 5);
    let file = mapped_file(&first).unwrap();
    files.request(&first);
    files.finish();
    files.note_use(file, &first);
    assert!(files.lock().take_used().is_empty());
    files.note_use(file, &map(&path, inode, 6));
    assert_eq!(files.lock().take_used().len(), 1);
}

#[test]
fn a_file_that_cannot_be_read_is_tried_through_some_mappings() {
    let files = MappedFiles::start(None).unwrap();
    let gone = map(Path::new("/nowhere"), 7, 1);
    let file = mapped_file(&gone).unwrap();
    for _ in 0..8 {
        assert!(files.lock().needs_reading(&file, gone.path, Instant::now()));
        files.request(&gone);
        files.finish();
    }
    assert!(!files.lock().needs_reading(&file, gone.path, Instant::now()));
    assert_eq!(files.states(&file), []);
}

#[test]
fn a_file_that_was_foreign_by_one_path_is_foreign_by_all() {
    let path = |path| map(Path::new(path), 7, 1);
    let (own, other) = (path("/home/stranger/evil"), path("/usr/bin/victim"));
    let file = mapped_file(&own).unwrap();
    let state = |is_foreign| FileState { build_id: None, size: 9, modified: 0, changed: 0, is_foreign };
    for order in [[false, true], [true, false]] {
        let files = MappedFiles::default();
        let mut cursor = 0;
        for (record, is_foreign) in [&own, &other].into_iter().zip(order) {
            assert!(order[0] || files.lock().needs_reading(&file, record.path, Instant::now()));
            files.lock().insert(&request_of(file, record), Some(state(is_foreign)), Timestamp(5));
        }
        let states = files.states(&file);
        assert!(matches!(states[..], [MappedFile { is_foreign: true, .. }]), "{states:?}");
        assert_eq!(files.read_since(&mut cursor).len(), if order[0] { 1 } else { 2 }, "who has it is told");
        assert!(!files.lock().needs_reading(&file, b"/another", Instant::now()));
    }
}

#[test]
fn marks_of_other_events_are_taken_back() {
    let layout = RecordLayout::new(&Attr::default(), Endian::NATIVE);
    let mut records = Vec::new();
    // Its bytes are those of a build id of eight bytes.
    layout.encode(&Record::Mmap(map(Path::new("/nowhere"), 7, 1)), &mut records).unwrap();
    let unmarked = records.clone();
    let mark = |records: &mut [u8], bit: u16| {
        let misc = u16::from_ne_bytes([records[4], records[5]]) | bit;
        records[4..6].copy_from_slice(&misc.to_ne_bytes());
    };
    mark(&mut records, misc::MMAP_BUILD_ID);
    // The same bit of another record means something else.
    let mut other = [kind::COMM.to_ne_bytes().as_slice(), &[0, 0, 16, 0], &[0; 8]].concat();
    mark(&mut other, misc::MMAP_BUILD_ID);
    let mut all = [records, other.clone()].concat();
    MappingObserver::new(MappedFiles::default(), layout).observe_all(&mut all);
    assert_eq!(all, [unmarked, other].concat());
}
