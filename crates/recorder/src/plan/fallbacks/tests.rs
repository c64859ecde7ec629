use super::*;
use crate::error::{EBUSY, EMFILE, ENOSPC, ENOSYS, EOVERFLOW, ESRCH};
use crate::event::{clock_event, default_events, select};
use crate::options::{CallChain, Options, Target};
use crate::plan::tests::tell;
use decoder::attr::TYPE_HARDWARE;
use std::cell::Cell;

/// A kernel that opens an event, or refuses it with an errno; and how often it was asked.
struct Fake<F: Fn(&Attr) -> Result<(), i32>>(F, Cell<u32>);

/// Asks `kernel` until the attr of an event is decided.
fn settle<F: Fn(&Attr) -> Result<(), i32>>(
    kernel: &Fake<F>,
    attr: Attr,
    clock: Option<&Attr>,
) -> Result<(Attr, Vec<Fallback>), Refusal> {
    let mut facts = Facts::default();
    loop {
        match negotiate(attr.clone(), clock, Site::Thread(None), &facts) {
            Ok(decided) => return decided,
            Err(Stop::Ask(questions)) => {
                kernel.1.set(kernel.1.get() + 1);
                tell(&mut facts, questions, &kernel.0);
            }
            Err(stop) => panic!("{stop:?}"),
        }
    }
}

fn opened_by(kernel: impl Fn(&Attr) -> Result<(), i32>) -> Result<(Attr, Vec<Fallback>), Option<i32>> {
    let options = Options::new(Target::Processes(vec![]));
    let attr = crate::attr::sampler(&default_events(&[])[0], &options, 0, 4096);
    let clock = crate::attr::sampler(&clock_event(), &options, 0, 4096);
    let fake = Fake(kernel, Cell::new(0));
    let result = settle(&fake, attr, Some(&clock));
    assert!(fake.1.get() < 20, "the fallbacks end");
    result.map_err(|refusal| refusal.errno.raw_os_error())
}

#[test]
fn a_machine_without_counters_gets_the_clock() {
    let no_pmu = |attr: &Attr| if attr.kind == TYPE_HARDWARE { Err(ENOENT) } else { Ok(()) };
    let (attr, steps) = opened_by(no_pmu).unwrap();
    assert_eq!((attr.kind, attr.config, attr.precise_ip), (1, 0, 0));
    assert_eq!(steps, [Fallback::Clock]);
}

#[test]
fn precision_is_given_up_before_the_counter() {
    let imprecise = |attr: &Attr| if attr.precise_ip > 1 { Err(EOPNOTSUPP) } else { Ok(()) };
    let (attr, steps) = opened_by(imprecise).unwrap();
    assert_eq!((attr.kind, attr.precise_ip), (0, 1));
    assert_eq!(steps, []);
}

#[test]
fn a_user_sees_user_space() {
    let strict = |attr: &Attr| {
        let all = AttrFlags::EXCLUDE_KERNEL | AttrFlags::EXCLUDE_HV;
        if attr.kind == TYPE_HARDWARE {
            Err(ENOENT)
        } else if attr.flags.contains(all) {
            Ok(())
        } else {
            Err(EACCES)
        }
    };
    let (attr, steps) = opened_by(strict).unwrap();
    assert!(attr.flags.contains(AttrFlags::EXCLUDE_KERNEL));
    assert_eq!(steps, [Fallback::Clock, Fallback::UserSpaceOnly]);
    assert_eq!(opened_by(|_| Err(EACCES)).unwrap_err(), Some(EACCES));
}

#[test]
fn a_counter_that_is_not_there_is_not_forbidden() {
    let options = Options::new(Target::Processes(vec![]));
    let event = select("instructions", &Vec::new()).unwrap().remove(0);
    let attr = crate::attr::sampler(&event, &options, 0, 4096);
    let strict =
        |attr: &Attr| Err(if attr.flags.contains(AttrFlags::EXCLUDE_KERNEL) { ENOENT } else { EACCES });
    let fake = Fake(strict, Cell::new(0));
    let refusal = settle(&fake, attr, None).unwrap_err();
    assert_eq!(refusal.errno.raw_os_error(), Some(ENOENT));
    assert!(refusal.attr.flags.contains(AttrFlags::EXCLUDE_KERNEL), "the attr that was refused");
    // The whole machine, where the clock is forbidden and there are no counters.
    let whole = |attr: &Attr| {
        let counter_of_users = attr.kind == TYPE_HARDWARE && attr.flags.contains(AttrFlags::EXCLUDE_KERNEL);
        Err(if counter_of_users { ENOENT } else { EACCES })
    };
    assert_eq!(opened_by(whole).unwrap_err(), Some(EACCES));
}

#[test]
fn only_the_kernel_is_not_replaced_by_user_space() {
    let options = Options::new(Target::Processes(vec![]));
    let event = select("cycles:k", &Vec::new()).unwrap().remove(0);
    let attr = crate::attr::sampler(&event, &options, 0, 4096);
    let fake = Fake(|_: &Attr| Err(EACCES), Cell::new(0));
    assert!(settle(&fake, attr, None).is_err());
    assert_eq!(fake.1.get(), 1);
}

#[test]
fn an_older_kernel_gets_what_it_knows() {
    // Linux 5.6: no lost counts, no records of cgroups.
    let mut options = Options::new(Target::Processes(vec![]));
    options.extras.cgroups = true;
    let sampler = crate::attr::sampler(&clock_event(), &options, 0, 4096);
    let attr = crate::attr::sideband(&[sampler], &options, 4096);
    let old = |attr: &Attr| {
        let new = attr.flags.contains(AttrFlags::CGROUP) || attr.read_format.contains(ReadFormat::LOST);
        if new { Err(EINVAL) } else { Ok(()) }
    };
    let fake = Fake(old, Cell::new(0));
    let (attr, steps) = settle(&fake, attr, None).unwrap();
    assert!(attr.flags.contains(AttrFlags::MMAP2 | AttrFlags::KSYMBOL | AttrFlags::COMM_EXEC));
    assert_eq!(steps.len(), 2);
}

#[test]
fn each_kernel_gets_all_that_it_knows() {
    // Features that an attr uses, and the first kernel that has each.
    let needs = |attr: &Attr| {
        let mut newest = (3, 12);
        let mut takes = |taken: bool, version| {
            if taken {
                newest = std::cmp::max(newest, version);
            }
        };
        let (flags, format) = (attr.flags, attr.sample_format);
        let reads = format.contains(SampleFormat::READ) && flags.contains(AttrFlags::INHERIT);
        takes(reads, (6, 12));
        takes(attr.read_format.contains(ReadFormat::LOST), (6, 0));
        takes(flags.contains(AttrFlags::CGROUP) || format.contains(SampleFormat::CGROUP), (5, 7));
        takes(flags.intersects(AttrFlags::KSYMBOL | AttrFlags::BPF_EVENT), (5, 1));
        takes(format.contains(SampleFormat::PHYS_ADDR), (4, 14));
        takes(flags.contains(AttrFlags::NAMESPACES), (4, 12));
        takes(attr.sample_max_stack != 0, (4, 8));
        takes(flags.contains(AttrFlags::CONTEXT_SWITCH), (4, 3));
        takes(flags.contains(AttrFlags::USE_CLOCKID), (4, 1));
        takes(flags.intersects(AttrFlags::COMM_EXEC | AttrFlags::MMAP2), (3, 16));
        newest
    };
    let mut options = Options::new(Target::Processes(vec![]));
    options.extras.cgroups = true;
    options.extras.physical_data = true;
    options.extras.namespaces = true;
    options.extras.switches = true;
    options.max_stack = Some(16);
    let event = select("{cpu-clock,page-faults}:S", &Vec::new()).unwrap().remove(0);
    let sampler = crate::attr::sampler(&event, &options, 4096, 4096);
    let sideband = crate::attr::sideband(std::slice::from_ref(&sampler), &options, 4096);
    for asked in [sampler, sideband] {
        assert!(needs(&asked) >= (6, 0));
        for version in [(3, 16), (4, 4), (4, 9), (4, 19), (5, 4), (5, 10), (5, 15), (6, 1), (6, 11), (6, 18)]
        {
            let fake =
                Fake(|attr: &Attr| if needs(attr) > version { Err(EINVAL) } else { Ok(()) }, Cell::new(0));
            let (attr, steps) = settle(&fake, asked.clone(), None).unwrap();
            // Only features that this kernel lacks are given up, one at each step.
            let mut expected = asked.clone();
            let mut given_up = 0;
            if version < (4, 1) {
                expected.flags.remove(AttrFlags::USE_CLOCKID);
                expected.clockid = 0;
                given_up += 1;
            }
            while needs(&expected) > version {
                assert!(remove_newest_part(&mut expected).is_some());
                given_up += 1;
            }
            assert_eq!((&attr, steps.len()), (&expected, given_up), "{version:?}");
            assert!(!steps.contains(&Fallback::Without("MMAP2 records (3.16)")), "{version:?}");
        }
    }
}

#[test]
fn a_refusal_without_a_fallback_is_returned_after_others_had_one() {
    // Chains longer than kernel.perf_event_max_stack, on a machine without counters.
    let long = |attr: &Attr| Err(if attr.kind == TYPE_HARDWARE { ENOENT } else { EOVERFLOW });
    assert_eq!(opened_by(long).unwrap_err(), Some(EOVERFLOW));
    let in_use = |attr: &Attr| Err(if attr.read_format.contains(ReadFormat::LOST) { EINVAL } else { ENOSPC });
    assert_eq!(opened_by(in_use).unwrap_err(), Some(ENOSPC));
}

#[test]
fn a_breakpoint_in_the_kernel_is_nothing_without_the_kernel() {
    let rights =
        |attr: &Attr| Err(if attr.flags.contains(AttrFlags::EXCLUDE_KERNEL) { EINVAL } else { EACCES });
    let as_is = |_: &mut Options| {};
    assert_eq!(opened_with("mem:0xffffffff81000000/8:w", as_is, rights).unwrap_err(), Some(EACCES));
    assert_eq!(opened_with("mem:0x401000/8:w", as_is, rights).unwrap_err(), Some(EINVAL));
}

#[test]
fn an_event_that_is_refused_for_something_else_keeps_the_clock() {
    // Refuses as a PMU does that lacks the precision: after all other checks.
    let has_tried = Cell::new(false);
    let picky = |attr: &Attr| {
        if *attr == (Attr { flags: attr.flags, clockid: attr.clockid, ..crate::attr::dummy() }) {
            // The attr that probes for the clock uses it, and nothing that needs rights.
            let excluded = AttrFlags::EXCLUDE_KERNEL | AttrFlags::EXCLUDE_HV;
            assert!(attr.flags.contains(AttrFlags::USE_CLOCKID | excluded) && attr.clockid == 1);
            has_tried.set(true);
        }
        if attr.precise_ip > 0 { Err(EINVAL) } else { Ok(()) }
    };
    let mut attr = crate::attr::sampler(&clock_event(), &Options::new(Target::System), 0, 4096);
    attr.precise_ip = 2;
    let fake = Fake(picky, Cell::new(0));
    let (attr, _) = settle(&fake, attr, None).unwrap();
    assert!(has_tried.get() && attr.flags.contains(AttrFlags::USE_CLOCKID));
    assert_eq!(attr.clockid, 1);
}

#[test]
fn chains_that_could_have_kernel_frames_are_asked_for_with_the_kernel_only() {
    // At perf_event_paranoid 2, as Linux 6.12.117 judges.
    let strict = |attr: &Attr| {
        let chains = attr.sample_format.contains(SampleFormat::CALLCHAIN);
        let all_levels = !attr.flags.contains(AttrFlags::EXCLUDE_KERNEL);
        let kernel_chains = chains && !attr.flags.contains(AttrFlags::EXCLUDE_CALLCHAIN_KERNEL);
        if all_levels || kernel_chains { Err(EACCES) } else { Ok(()) }
    };
    let as_is = |_: &mut Options| {};
    let user = |options: &mut Options| options.levels = crate::options::PrivilegeLevels::User;
    assert_eq!(opened_with("cpu-clock", as_is, strict).unwrap().1, [Fallback::UserSpaceOnly]);
    assert_eq!(opened_with("cpu-clock:u", as_is, strict).unwrap().1, []);
    assert_eq!(opened_with("cpu-clock", user, strict).unwrap().1, []);
    let without_pmu = |attr: &Attr| {
        if attr.kind == TYPE_HARDWARE { Err(ENOENT) } else { strict(attr) }
    };
    assert_eq!(opened_by(without_pmu).unwrap().1, [Fallback::Clock, Fallback::UserSpaceOnly]);
    let everything = opened_with("cpu-clock", as_is, |_| Ok(())).unwrap().0;
    assert!(!everything.flags.contains(AttrFlags::EXCLUDE_CALLCHAIN_KERNEL), "kernel frames are kept");
}

#[test]
fn the_first_refusal_is_returned() {
    assert_eq!(opened_by(|_| Err(EINVAL)).unwrap_err(), Some(EINVAL));
    assert_eq!(
        opened_by(|attr| Err(if attr.kind == TYPE_HARDWARE { ENOENT } else { EINVAL })).unwrap_err(),
        Some(ENOENT)
    );
}

/// Opens one event with these options, under this kernel.
fn opened_with(
    text: &str,
    change: impl Fn(&mut Options),
    kernel: impl Fn(&Attr) -> Result<(), i32>,
) -> Result<(Attr, Vec<Fallback>), Option<i32>> {
    let mut options = Options::new(Target::Processes(vec![]));
    change(&mut options);
    let event = select(text, &Vec::new()).unwrap().remove(0);
    let attr = crate::attr::sampler(&event, &options, 0, 4096);
    let fake = Fake(kernel, Cell::new(0));
    let result = settle(&fake, attr, None);
    assert!(fake.1.get() < 20, "the fallbacks end");
    result.map_err(|refusal| refusal.errno.raw_os_error())
}

#[test]
fn without_branches_the_kernel_walks_frame_pointers() {
    let lbr = |options: &mut Options| options.call_chain = CallChain::LastBranches;
    let none = |attr: &Attr| {
        let branches = attr.sample_format.contains(SampleFormat::BRANCH_STACK);
        if branches { Err(EOPNOTSUPP) } else { Ok(()) }
    };
    let (attr, steps) = opened_with("cycles:P", lbr, none).unwrap();
    assert_eq!(steps, [Fallback::FramePointers]);
    assert_eq!((attr.branch_sample_format.bits(), attr.precise_ip), (0, 3));
    assert!(attr.sample_format.contains(SampleFormat::CALLCHAIN));
    // Linux 5.4 has them, without an index.
    let old = |attr: &Attr| {
        let new = attr.branch_sample_format.contains(BranchSampleFormat::HW_INDEX)
            || attr.read_format.contains(ReadFormat::LOST);
        if new { Err(EINVAL) } else { Ok(()) }
    };
    let (attr, steps) = opened_with("cycles", lbr, old).unwrap();
    assert!(attr.branch_sample_format.contains(BranchSampleFormat::CALL_STACK));
    assert_eq!(steps.len(), 2, "{steps:?}");
}

#[test]
fn parts_without_rights_are_removed_and_reported() {
    let paranoid = |attr: &Attr| {
        let privileged = attr.flags.contains(AttrFlags::NAMESPACES)
            || attr.sample_format.intersects(SampleFormat::PHYS_ADDR | SampleFormat::RAW)
            || !attr.flags.contains(AttrFlags::EXCLUDE_KERNEL);
        if privileged { Err(EACCES) } else { Ok(()) }
    };
    let addresses = |options: &mut Options| options.extras.physical_data = true;
    let (attr, steps) = opened_with("cpu-clock", addresses, paranoid).unwrap();
    assert_eq!(steps, [Fallback::UserSpaceOnly, Fallback::Forbidden("physical addresses")]);
    assert!(attr.sample_format.contains(SampleFormat::ADDR));

    let mut options = Options::new(Target::Processes(vec![]));
    options.extras.namespaces = true;
    let sampler = crate::attr::sampler(&clock_event(), &options, 0, 4096);
    let attr = crate::attr::sideband(&[sampler], &options, 4096);
    let fake = Fake(
        |attr: &Attr| if attr.flags.contains(AttrFlags::NAMESPACES) { Err(EACCES) } else { Ok(()) },
        Cell::new(0),
    );
    let (attr, steps) = settle(&fake, attr, None).unwrap();
    assert_eq!(steps, [Fallback::Forbidden("the namespaces of processes")]);
    assert!(!attr.flags.contains(AttrFlags::EXCLUDE_KERNEL), "the kernel is not given up for it");
}

#[test]
fn each_refusal_has_its_fallback_or_none() {
    let as_is = |_: &mut Options| {};
    // Refusals without a fallback are returned as they are: too many breakpoints, a PMU in use, no such process, no descriptors.
    for errno in [ENOSPC, EBUSY, ESRCH, EMFILE, EOVERFLOW, ENOSYS, 4] {
        assert_eq!(opened_with("cycles:P", as_is, |_| Err(errno)).unwrap_err(), Some(errno));
    }
    // Precision goes down by one each time, and the event is kept.
    for most in 0..=2 {
        let kernel = |attr: &Attr| if attr.precise_ip > most { Err(EOPNOTSUPP) } else { Ok(()) };
        assert_eq!(opened_with("cycles:P", as_is, kernel).unwrap().0.precise_ip, most);
        let kernel = |attr: &Attr| if attr.precise_ip > most { Err(EINVAL) } else { Ok(()) };
        assert_eq!(opened_with("cycles:ppp", as_is, kernel).unwrap().0.precise_ip, most);
    }
    // E2BIG is of an attr that is too new, as EINVAL is.
    let old = |attr: &Attr| if attr.read_format.contains(ReadFormat::LOST) { Err(E2BIG) } else { Ok(()) };
    assert_eq!(opened_with("cs", as_is, old).unwrap().1.len(), 1);
}

#[test]
fn a_kernel_that_knows_one_kind_of_core_gets_the_plain_event() {
    let mut attr = crate::attr::sampler(&clock_event(), &Options::new(Target::System), 0, 4096);
    (attr.kind, attr.config) = (0, 10 << 32 | 1);
    let fake = Fake(|attr: &Attr| if attr.config >> 32 == 0 { Ok(()) } else { Err(ENOENT) }, Cell::new(0));
    let (attr, steps) = settle(&fake, attr, None).unwrap();
    assert_eq!((attr.kind, attr.config, steps), (0, 1, vec![]));
}

#[test]
fn the_length_of_vectors_is_asked_of_a_pmu_only() {
    let vectors = unwinder::Architecture::Aarch64.vector_perf_mask();
    let general = unwinder::Architecture::Aarch64.perf_mask();
    let asked = Attr { sample_regs_user: general | vectors, ..crate::attr::dummy() };
    for errno in [EINVAL, EOPNOTSUPP] {
        let refuse = |attr: &Attr| if attr.sample_regs_user & vectors != 0 { Err(errno) } else { Ok(()) };
        let opened = settle(&Fake(refuse, Cell::new(0)), asked.clone(), None);
        let (attr, fallbacks) = opened.unwrap();
        assert_eq!((attr.sample_regs_user, fallbacks), (general, Vec::new()));
    }
}
