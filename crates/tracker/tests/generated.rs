//! Generated code of which a runtime tells, function by function.

use decoder::record::{Comm, Mmap, MmapExtended, MmapIdentity, Record, Task};
use decoder::{CpuMode, SampleId};
use model::{AddressKind, Avma, FileIdentity, Pid, Space, SpaceId, Tid, Timestamp};
use prof_tracker::Tracker;

const PID: Pid = Pid(7);
const CHILD: Pid = Pid(8);

fn map(path: &'static [u8], start: u64, len: u64) -> Record<'static> {
    let file = FileIdentity { major: 0, minor: 0, inode: 0, generation: 0 };
    Record::Mmap(Mmap {
        pid: PID,
        tid: Tid(7),
        start,
        len,
        page_offset: 0,
        path,
        extended: Some(MmapExtended { identity: MmapIdentity::File(file), protection: 5, flags: 2 }),
        data: false,
        mode: CpuMode::User,
        scan_cut_short: false,
        sample_id: SampleId::default(),
    })
}

/// A process with memory for code at 0x1000, and two functions in it: 0x1000 and, right behind it, 0x1010.
fn process() -> (Tracker, SpaceId) {
    let mut tracker = Tracker::new();
    tracker.apply(&map(b"//anon", 0x1000, 0x1000));
    let (dump, _) = tracker.begin_dump(PID, b"/tmp/jit-7.dump");
    tracker.map_generated(PID, dump, [(Avma(0x1000), Avma(0x100f), 100), (Avma(0x1010), Avma(0x101f), 500)]);
    (tracker, dump)
}

fn at(tracker: &mut Tracker, pid: Pid, address: u64, kind: AddressKind) -> (SpaceId, u64) {
    let entry = tracker.map_address(pid, None, Avma(address), kind);
    (entry.space, entry.offset)
}

fn running_at(tracker: &mut Tracker, address: u64) -> (SpaceId, u64) {
    at(tracker, PID, address, AddressKind::InstructionPointer)
}

#[test]
fn places_are_offsets_in_the_dump_and_newer_functions_win() {
    let (mut tracker, dump) = process();
    assert_eq!(running_at(&mut tracker, 0x1004), (dump, 104));
    assert_eq!(running_at(&mut tracker, 0x1010), (dump, 500));
    let (memory, _) = running_at(&mut tracker, 0x1020);
    assert!(matches!(tracker.spaces().get(memory), Space::Jit { .. }));
    let before = tracker.generation(PID);
    tracker.map_generated(PID, dump, [(Avma(0x1008), Avma(0x1017), 900)]);
    assert_ne!(tracker.generation(PID), before);
    let places = [0x1004, 0x1008, 0x1017, 0x1018].map(|address| running_at(&mut tracker, address).1);
    assert_eq!(places, [104, 900, 915, 508]);
}

#[test]
fn a_call_that_ends_a_function_is_in_that_function() {
    let (mut tracker, dump) = process();
    let returned = |tracker: &mut Tracker, address| at(tracker, PID, address, AddressKind::ReturnAddress);
    assert_eq!(returned(&mut tracker, 0x1010), (dump, 116));
    assert_eq!(returned(&mut tracker, 0x1011), (dump, 501));
    assert_eq!(returned(&mut tracker, 0x1020), (dump, 516));
}

#[test]
fn memory_that_is_announced_again_keeps_its_functions() {
    let (mut tracker, dump) = process();
    let before = tracker.generation(PID);
    tracker.apply(&map(b"//anon", 0x1000, 0x1000));
    assert_eq!(tracker.generation(PID), before, "nothing has changed");
    tracker.apply(&map(b"//anon", 0x0, 0x3000));
    assert_ne!(tracker.generation(PID), before);
    assert_eq!(running_at(&mut tracker, 0x1010), (dump, 500));
    for address in [0x0, 0xfff, 0x1020, 0x2fff] {
        assert_eq!(running_at(&mut tracker, address).1, address);
    }
    tracker.apply(&map(b"/lib/a.so", 0x1000, 0x1000));
    assert_eq!(running_at(&mut tracker, 0x1010).1, 0x10, "a file is there now");
}

#[test]
fn functions_go_with_their_program_and_on_to_children() {
    let (mut tracker, dump) = process();
    let program = tracker.program(PID);
    tracker.apply(&Record::Fork(Task {
        pid: CHILD,
        tid: Tid(8),
        parent_pid: PID,
        parent_tid: Tid(7),
        time: Timestamp(1),
        sample_id: SampleId::default(),
    }));
    assert_eq!(at(&mut tracker, CHILD, 0x1010, AddressKind::ReturnAddress), (dump, 116));
    let exec = Comm { pid: PID, tid: Tid(7), comm: b"other", exec: true, sample_id: SampleId::default() };
    tracker.apply(&Record::Comm(exec));
    assert_ne!(tracker.program(PID), program);
    tracker.apply(&map(b"//anon", 0x1000, 0x1000));
    let (memory, _) = running_at(&mut tracker, 0x1010);
    assert!(matches!(tracker.spaces().get(memory), Space::Jit { .. }));
    assert_eq!(at(&mut tracker, CHILD, 0x1010, AddressKind::InstructionPointer), (dump, 500));
    assert_ne!(tracker.begin_dump(PID, b"/tmp/jit-7.dump").0, dump, "another program's");
}

#[test]
fn what_records_tell_of_is_known_apart() {
    let (mut tracker, dump) = process();
    let (recorded, all) = (tracker.recorded_generation(PID), tracker.generation(PID));
    tracker.map_generated(PID, dump, [(Avma(0x1100), Avma(0x110f), 900)]);
    assert_eq!(tracker.recorded_generation(PID), recorded, "no record tells of a function");
    assert_ne!(tracker.generation(PID), all);
    let ranges: Vec<_> =
        tracker.recorded_mappings(PID).map(|mapping| (mapping.start, mapping.last)).collect();
    assert_eq!(ranges, [(Avma(0x1000), Avma(0x1fff))]);
    assert_eq!(tracker.mapping(PID, Avma(0x1104)).map(|mapping| mapping.space), Some(dump));
    assert_ne!(tracker.recorded_mapping(PID, Avma(0x1104)).map(|mapping| mapping.space), Some(dump));
    tracker.apply(&map(b"//anon", 0x8000, 0x1000));
    assert_ne!(tracker.recorded_generation(PID), recorded);
}

#[test]
fn functions_that_gave_way_to_a_file_do_not_come_back() {
    let (mut tracker, dump) = process();
    tracker.apply(&map(b"/lib/a.so", 0x1008, 0x100));
    tracker.apply(&map(b"//anon", 0x1000, 0x1000));
    assert_eq!(running_at(&mut tracker, 0x1004), (dump, 104), "beside the file");
    for address in [0x1008, 0x1010, 0x101f] {
        let (memory, offset) = running_at(&mut tracker, address);
        assert!(matches!(tracker.spaces().get(memory), Space::Jit { .. }));
        assert_eq!(offset, address);
    }
    tracker.map_generated(PID, dump, [(Avma(0x1010), Avma(0x101f), 700)]);
    assert_eq!(running_at(&mut tracker, 0x1010), (dump, 700));
}
