//! Who lives, in which container, and when mappings are new ones.

#![allow(clippy::unwrap_used, reason = "functions of a test file are not seen as tests by clippy")]

use decoder::record::{Cgroup, Mmap, Record, Task};
use decoder::{CpuMode, SampleId};
use model::{Avma, Name, Pid, Tid, Timestamp};
use prof_tracker::Tracker;

fn task(pid: i32, tid: i32, parent: i32, time: u64) -> Task {
    Task {
        pid: Pid(pid),
        parent_pid: Pid(parent),
        tid: Tid(tid),
        parent_tid: Tid(parent),
        time: Timestamp(time),
        sample_id: SampleId::default(),
    }
}

fn mmap(pid: i32, start: u64, path: &'static [u8]) -> Mmap<'static> {
    Mmap {
        pid: Pid(pid),
        tid: Tid(pid),
        start,
        len: 0x1000,
        page_offset: 0,
        path,
        extended: None,
        data: false,
        mode: CpuMode::User,
        scan_cut_short: false,
        sample_id: SampleId::default(),
    }
}

#[test]
fn a_process_lives_until_its_last_thread_has_ended() {
    let mut tracker = Tracker::new();
    tracker.apply(&Record::Fork(task(1, 1, 9, 1)));
    tracker.apply(&Record::Fork(task(1, 2, 1, 2)));
    assert!(tracker.is_alive(Pid(1)) && !tracker.is_alive(Pid(2)));
    tracker.apply(&Record::Exit(task(1, 1, 9, 3)));
    tracker.apply(&Record::Exit(task(1, 1, 9, 4)));
    assert!(tracker.is_alive(Pid(1)), "the second end of a thread is no other thread's");
    tracker.apply(&Record::Exit(task(1, 2, 1, 5)));
    assert!(!tracker.is_alive(Pid(1)) && tracker.knows(Pid(1)), "records of it may be under way");
    // What has ended is forgotten after many others have, and not before.
    for pid in 100..10_000 {
        tracker.apply(&Record::Fork(task(pid, pid, 9, 6)));
        tracker.apply(&Record::Exit(task(pid, pid, 9, 7)));
    }
    assert!(!tracker.knows(Pid(1)) && tracker.knows(Pid(9_999)));
    assert!(tracker.processes() < 9_000);
}

#[test]
fn a_program_with_more_rights_lives_after_the_exit_record_of_its_exec() {
    let mut tracker = Tracker::new();
    let others = |tracker: &mut Tracker, first: i32| {
        for pid in first..first + 9_000 {
            tracker.apply(&Record::Fork(task(pid, pid, 9, 6)));
            tracker.apply(&Record::Exit(task(pid, pid, 9, 7)));
        }
    };
    tracker.apply(&Record::Fork(task(1, 1, 9, 1)));
    tracker.apply(&Record::Exit(task(1, 1, 9, 3)));
    assert!(!tracker.is_alive(Pid(1)));
    tracker.apply(&Record::Mmap(mmap(1, 0x1000, b"/usr/bin/sudo")));
    tracker.apply(&Record::Mmap(mmap(1, 0x2000, b"/usr/lib/libc.so.6")));
    assert!(tracker.is_alive(Pid(1)));
    others(&mut tracker, 100);
    assert!(tracker.mapping(Pid(1), Avma(0x1800)).is_some(), "it is not forgotten among those that ended");
    tracker.apply(&Record::Exit(task(1, 1, 9, 9)));
    assert!(!tracker.is_alive(Pid(1)), "now it has ended");
    others(&mut tracker, 10_000);
    assert!(!tracker.knows(Pid(1)));
}

#[test]
fn a_container_is_inherited_and_a_cgroup_of_the_sample_says_it_better() {
    let docker =
        b"/system.slice/docker-0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef.scope";
    let mut tracker = Tracker::new();
    let container = Name::from("web");
    tracker.set_container(Pid(1), Some(container.clone()));
    tracker.apply(&Record::Fork(task(2, 2, 1, 5)));
    // A list of processes tells parents, too: not that the child is as they are.
    tracker.apply(&Record::Fork(task(3, 3, 1, 0)));
    assert_eq!(tracker.container(Pid(2), None), Some(&container));
    assert_eq!(tracker.container(Pid(3), None), None);
    for (id, path) in [(7, &docker[..]), (8, b"/user.slice")] {
        tracker.apply(&Record::Cgroup(Cgroup { id, path, sample_id: SampleId::default() }));
    }
    let by_cgroup = |id| tracker.container(Pid(2), Some(id)).cloned();
    let of_docker = by_cgroup(7).unwrap();
    assert!(of_docker.to_string().contains("0123456789ab"), "{of_docker}");
    assert_eq!(by_cgroup(8), None, "it is known to be in none");
    assert_eq!(by_cgroup(9), Some(container), "nothing is known of that one");
}

#[test]
fn scans_that_were_cut_short_are_counted() {
    let mut tracker = Tracker::new();
    tracker.apply(&Record::Mmap(mmap(1, 0x1000, b"/bin/a")));
    assert_eq!(tracker.scans_cut_short(), 0);
    for _ in 0..2 {
        tracker.apply(&Record::Mmap(Mmap { scan_cut_short: true, ..mmap(1, 0x1000, b"/bin/a") }));
    }
    assert_eq!(tracker.scans_cut_short(), 2);
}

#[test]
fn the_kernel_is_part_of_what_a_process_sees() {
    let mut tracker = Tracker::new();
    tracker.apply(&Record::Mmap(mmap(1, 0x1000, b"/bin/a")));
    let before = tracker.generation(Pid(1)).as_u64();
    assert_eq!(tracker.generation(Pid(1)).as_u64(), before);
    let module = Mmap { pid: Pid::NONE, mode: CpuMode::Kernel, ..mmap(-1, 0xffff_ffff_8100_0000, b"[x]") };
    tracker.apply(&Record::Mmap(module));
    let after = tracker.generation(Pid(1)).as_u64();
    tracker.apply(&Record::Mmap(Mmap { start: 0xffff_ffff_8200_0000, ..module }));
    let last = tracker.generation(Pid(1)).as_u64();
    assert!(before != after && after != last && before != last);
}
