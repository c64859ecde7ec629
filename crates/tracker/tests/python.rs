//! Python functions, which are mappings at addresses that no processor has.

use decoder::record::{Mmap, MmapExtended, MmapIdentity, Record, Task};
use decoder::{CpuMode, SampleId};
use model::{
    AddressKind, Avma, FileIdentity, Name, PYTHON_CODE, Pid, Space, Tid, Timestamp, python_mapping_name,
};
use prof_tracker::Tracker;

const PID: Pid = Pid(7);
const CHILD: Pid = Pid(8);

fn function(path: &[u8], start: u64, first_line: u64, len: u64) -> Record<'_> {
    let file = FileIdentity { major: 0, minor: 0, inode: 0, generation: 0 };
    Record::Mmap(Mmap {
        pid: PID,
        tid: Tid(7),
        start: PYTHON_CODE.start.0 + start,
        len,
        page_offset: first_line,
        path,
        extended: Some(MmapExtended { identity: MmapIdentity::File(file), protection: 5, flags: 2 }),
        data: false,
        mode: CpuMode::User,
        scan_cut_short: false,
        sample_id: SampleId::default(),
    })
}

#[test]
fn addresses_are_lines_of_functions_and_children_have_them_too() {
    let mut tracker = Tracker::new();
    let before = tracker.recorded_generation(PID);
    let name = python_mapping_name("/app.py", "C.work");
    tracker.apply(&function(&name, 0x1000, 30, 12));
    assert_eq!(tracker.recorded_generation(PID), before, "nothing is mapped anew that code could run in");
    assert_eq!(tracker.recorded_mappings(PID).count(), 0);
    tracker.apply(&Record::Fork(Task {
        pid: CHILD,
        tid: Tid(8),
        parent_pid: PID,
        parent_tid: Tid(7),
        time: Timestamp(1),
        sample_id: SampleId::default(),
    }));
    let expected = Space::Python { file: Name::from("/app.py"), function: Name::from("C.work") };
    for pid in [PID, CHILD] {
        for (distance, kind) in [(4, AddressKind::InstructionPointer), (5, AddressKind::ReturnAddress)] {
            let address = Avma(PYTHON_CODE.start.0 + 0x1000 + distance);
            let entry = tracker.map_address(pid, None, address, kind);
            assert_eq!((entry.lookup_offset(), tracker.spaces().get(entry.space)), (34, &expected));
        }
    }
    let unknown = Avma(PYTHON_CODE.start.0 + 0x9000);
    let entry = tracker.map_address(PID, None, unknown, AddressKind::InstructionPointer);
    assert!(matches!(tracker.spaces().find(entry.space).unwrap(), Space::Unmapped { .. }));
}
