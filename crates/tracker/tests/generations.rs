//! Whatever the records say: nothing panics, and equal generations mean equal places.

use std::collections::HashMap;

use decoder::record::{Comm, Ksymbol, Mmap, MmapExtended, MmapIdentity, Record, Task};
use decoder::{CpuMode, SampleId, context};
use model::{FileIdentity, Pid, Tid, Timestamp};
use prof_tracker::{RawStack, Tracker};
use proptest::prelude::*;

const PATHS: [&[u8]; 8] =
    [b"/bin/a", b"/bin/b", b"//anon", b"[vdso]", b"/memfd:x", b"", b"[kernel.kallsyms]_text", b"[module]"];
const ADDRESSES: [u64; 12] = [
    0,
    1,
    2,
    3,
    4,
    5,
    6,
    7,
    0xffff_ffff_8100_0000,
    0xffff_ffff_ffff_e000,
    0x8000_0000_0000_0001,
    0xffff_8000_0000_0000,
];

fn address() -> impl Strategy<Value = u64> {
    prop_oneof![4 => prop::sample::select(&ADDRESSES[..]), 1 => any::<u64>()]
}

fn record() -> impl Strategy<Value = Record<'static>> {
    let sample_id = SampleId::default();
    let id = || -1_i32..4;
    let task =
        (id(), id(), id(), id(), 0_u64..2).prop_map(move |(pid, tid, parent_pid, parent_tid, time)| Task {
            pid: Pid(pid),
            tid: Tid(tid),
            parent_pid: Pid(parent_pid),
            parent_tid: Tid(parent_tid),
            time: Timestamp(time),
            sample_id,
        });
    let comm = (id(), id(), any::<bool>()).prop_map(move |(pid, tid, exec)| {
        Record::Comm(Comm { pid: Pid(pid), tid: Tid(tid), comm: b"name", exec, sample_id })
    });
    let mmap = (
        (id(), address(), prop_oneof![0_u64..6, any::<u64>()], any::<u64>()),
        (prop::sample::select(&PATHS[..]), any::<bool>(), any::<bool>(), any::<bool>()),
    )
        .prop_map(move |((pid, start, len, page_offset), (path, data, kernel, long))| {
            let file = FileIdentity { major: 0, minor: 0, inode: 0, generation: 0 };
            Record::Mmap(Mmap {
                pid: Pid(pid),
                tid: Tid(pid),
                start,
                len,
                page_offset,
                path,
                extended: long.then_some(MmapExtended {
                    identity: MmapIdentity::File(file),
                    protection: if data { 1 } else { 5 },
                    flags: 0,
                }),
                data,
                mode: if kernel { CpuMode::Kernel } else { CpuMode::User },
                scan_cut_short: false,
                sample_id,
            })
        });
    let symbol = (address(), any::<u32>(), any::<bool>()).prop_map(move |(start, len, unregister)| {
        Record::Ksymbol(Ksymbol { start, len, kind: 1, unregister, name: b"bpf_prog", sample_id })
    });
    prop_oneof![
        1 => task.clone().prop_map(Record::Fork),
        1 => task.prop_map(Record::Exit),
        2 => comm,
        4 => mmap,
        1 => symbol,
    ]
}

proptest! {
    #[test]
    fn equal_generations_mean_equal_places(records in prop::collection::vec(record(), 0..60)) {
        let mut tracker = Tracker::new();
        let mut known = HashMap::new();
        for record in &records {
            tracker.apply(record);
            for pid in (-1..4).map(Pid) {
                for address in ADDRESSES {
                    let generation = tracker.generation(pid);
                    let chain = [context::KERNEL, address, context::USER, address];
                    let mut entries = Vec::new();
                    let stack = RawStack { pid, mode: CpuMode::User, ip: None, chain: Some(chain.into_iter()) };
                    prop_assert_eq!(tracker.map_callchain(stack, &mut entries), None);
                    let first = known.entry((generation, address)).or_insert_with(|| entries.clone());
                    prop_assert_eq!(&*first, &entries, "{:?} of {:?} at {:#x}", generation, pid, address);
                }
                prop_assert!(!tracker.comm(pid, Tid(pid.0)).is_empty());
            }
        }
    }
}

#[test]
fn a_generation_is_another_number_after_each_change() {
    let mut tracker = Tracker::new();
    let pid = Pid(1);
    assert!(!tracker.knows(pid));
    let mut seen = Vec::new();
    for tid in [1, 2] {
        let sample_id = SampleId::default();
        let comm = Comm { pid, tid: Tid(tid), comm: b"name", exec: tid == 1, sample_id };
        tracker.apply(&Record::Comm(comm));
        seen.push(tracker.generation(pid).as_u64());
    }
    assert!(tracker.knows(pid) && !tracker.knows(Pid(2)));
    assert_eq!(seen[0], seen[1], "the name of a thread maps nothing");
    assert_ne!(seen[0], tracker.generation(Pid(2)).as_u64());
}
