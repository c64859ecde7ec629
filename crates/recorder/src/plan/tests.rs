//! Plans for machines that we do not have.

use decoder::attr::TYPE_HARDWARE;
use decoder::{AttrFlags, ReadFormat};
use host::survey::Settings;
use model::{Pid, Tid};

use super::*;
use crate::error::{EACCES, EINVAL, ENOENT};
use crate::event::{Pmu, Rate, dummy_event, select};
use crate::options::CallChain;

/// Answers questions as `kernel` does, on a machine with 4,096 descriptors whose CPUs seldom switch.
pub(crate) fn tell(facts: &mut Facts, questions: Vec<Question>, kernel: impl Fn(&Attr) -> Result<(), i32>) {
    for question in questions {
        let answer = match &question {
            Question::Opens(attr, _) => kernel(attr).map(|()| 0),
            Question::Descriptors(_) => Ok(4096),
            Question::Switches => Ok(0),
        };
        facts.answers.push((question, answer));
    }
}

/// Asks a machine until there is a plan with its notices, or none.
fn planned(
    options: &Options,
    facts: &Facts,
    kernel: impl Fn(&Attr) -> Result<(), i32>,
) -> Result<(Plan, Vec<Notice>), Stop> {
    let (mut facts, mut notices) = (facts.clone(), Vec::new());
    for _ in 0..100 {
        notices.clear();
        match plan(options, &facts, &mut notices) {
            Ok(plan) => return Ok((plan, notices)),
            Err(Stop::Ask(questions)) => tell(&mut facts, questions, &kernel),
            Err(stop) => return Err(stop),
        }
    }
    panic!("the questions have an end")
}

fn cpus(count: u32) -> Vec<CpuId> {
    (0..count).map(CpuId).collect()
}

fn settings(paranoid: i32) -> Settings {
    Settings {
        paranoid: Some(paranoid),
        max_sample_rate: Some(100_000),
        max_stack: Some(127),
        max_contexts: Some(8),
        ..Settings::default()
    }
}

/// A machine with this many CPUs, on which this user may record everything.
fn machine(count: u32) -> Facts {
    Facts {
        online_cpus: cpus(count),
        allowed_cpus: cpus(count),
        settings: settings(-1),
        is_capable: true,
        memory_kb: Some(16 << 20),
        threads: vec![Tid(7)],
        ..Facts::default()
    }
}

/// The same for a user without rights, whom `kernel.perf_event_paranoid` 2 leaves user space.
fn for_user(facts: Facts) -> Facts {
    Facts { settings: settings(2), is_capable: false, ..facts }
}

fn everything(_: &Attr) -> Result<(), i32> {
    Ok(())
}

/// A kernel that forbids users what lies in it.
fn paranoid_2(attr: &Attr) -> Result<(), i32> {
    if attr.flags.contains(AttrFlags::EXCLUDE_KERNEL) { Ok(()) } else { Err(EACCES) }
}

fn named(plan: &Plan) -> Vec<(&str, bool)> {
    plan.events.iter().map(|event| (event.name.as_str(), event.is_whole())).collect()
}

fn with_frame_pointers(target: Target) -> Options {
    Options { call_chain: CallChain::FramePointers, ..Options::new(target) }
}

fn attached() -> Options {
    with_frame_pointers(Target::Processes(vec![Pid(7)]))
}

#[test]
fn a_command_is_sampled_on_whole_cpus_where_that_is_permitted_and_they_are_few() {
    let command = with_frame_pointers(Target::Command);
    let scope = |facts: &Facts| planned(&command, facts, everything).unwrap().0.scope;
    assert_eq!(scope(&machine(4)), Scope::CpusOfShortLives);
    assert_eq!(scope(&machine(256)), Scope::Target);
    assert_eq!(scope(&for_user(machine(4))), Scope::Target);
    let refused = Facts { refused_scopes: vec![Scope::CpusOfShortLives], ..machine(4) };
    assert_eq!(scope(&refused), Scope::Target);
    let (plan, _) = planned(&command, &machine(4), everything).unwrap();
    assert_eq!((plan.options.target, plan.options.cpus), (Target::System, Some(cpus(4))));
    // Where the kernel refuses whole CPUs alone, what it said of them is not held against threads.
    let forbids_cpus = |attr: &Attr| match attr.flags.contains(AttrFlags::INHERIT) {
        true => Ok(()),
        false => Err(EACCES),
    };
    assert_eq!(planned(&command, &machine(4), forbids_cpus).unwrap().0.scope, Scope::Target);
}

#[test]
fn processes_are_sampled_on_whole_cpus_at_low_rates() {
    let at = |hertz| {
        let options = Options { rate: Some(Rate::Frequency(hertz)), ..attached() };
        planned(&options, &machine(4), everything).unwrap().0.scope
    };
    assert_eq!([19, 100, 997].map(at), [Scope::CpusOfShortLives, Scope::CpusOfShortLives, Scope::Target]);
    let seldom = Options { rate: Some(Rate::Frequency(19)), ..attached() };
    assert_eq!(planned(&seldom, &for_user(machine(4)), everything).unwrap().0.scope, Scope::Target);
}

#[test]
fn a_user_gets_user_space_and_is_told_so_once() {
    let options = Options { events: select("cycles,instructions", &Vec::new()).unwrap(), ..attached() };
    let (plan, notices) = planned(&options, &for_user(machine(2)), paranoid_2).unwrap();
    assert_eq!(named(&plan), [("cycles:u", true), ("instructions:u", true)]);
    let user_only = Notice::UserSpaceOnly { paranoid: Some(2) };
    assert_eq!(notices.iter().filter(|notice| **notice == user_only).count(), 1);
    assert!(plan.sideband.attr.flags.contains(AttrFlags::EXCLUDE_KERNEL));
}

#[test]
fn at_paranoid_3_nothing_is_opened_and_the_first_event_is_named() {
    let options = Options { events: select("cycles,instructions", &Vec::new()).unwrap(), ..attached() };
    let facts = Facts { settings: settings(3), ..for_user(machine(2)) };
    match planned(&options, &facts, |_| Err(EACCES)) {
        Err(Stop::Refused(refused)) => {
            assert_eq!((refused.name.as_str(), refused.errno.raw_os_error()), ("cycles", Some(EACCES)));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn two_kinds_of_cores_are_one_event_and_one_clock() {
    let core = |name: &str, kind, cpus: std::ops::Range<u32>| Pmu {
        name: name.to_owned(),
        kind,
        cpus: Some(cpus.map(CpuId).collect()),
        core: true,
        ..Pmu::default()
    };
    let core_pmus = vec![core("cpu_core", 4, 0..4), core("cpu_atom", 10, 4..8)];
    let hybrid = Facts { core_pmus, ..machine(8) };
    let (plan, _) = planned(&attached(), &hybrid, everything).unwrap();
    assert_eq!(named(&plan), [("cycles:P", true), ("cycles:P", false)]);
    assert_eq!(plan.events[1].part_of, Some(0));
    let no_pmu = |attr: &Attr| if attr.kind == TYPE_HARDWARE { Err(ENOENT) } else { Ok(()) };
    let (plan, notices) = planned(&attached(), &hybrid, no_pmu).unwrap();
    assert_eq!(named(&plan), [("cpu-clock", true)]);
    assert!(notices.contains(&Notice::ClockInstead) && plan.task_clock.is_some());
}

#[test]
fn an_old_kernel_gets_what_it_knows_of_each_event() {
    // Linux 5.10 counts no lost samples.
    let old = |attr: &Attr| if attr.read_format.contains(ReadFormat::LOST) { Err(EINVAL) } else { Ok(()) };
    let options = Options { events: select("cpu-clock,page-faults", &Vec::new()).unwrap(), ..attached() };
    let (plan, notices) = planned(&options, &machine(2), old).unwrap();
    let all = plan.events.iter().chain([&plan.sideband]);
    assert!(all.clone().all(|event| !event.attr.read_format.contains(ReadFormat::LOST)));
    assert!(all.clone().all(|event| event.attr.flags.contains(AttrFlags::USE_CLOCKID)));
    let missing = |notice: &&Notice| matches!(notice, Notice::MissingFeature { .. });
    assert_eq!(notices.iter().filter(missing).count(), 3);
}

#[test]
fn tracepoints_that_are_not_there_are_refused_for_themselves() {
    let mut switches = dummy_event("sched:sched_switch");
    (switches.attr.kind, switches.attr.config) = (2, 308);
    let options = Options { events: vec![switches], ..attached() };
    match planned(&options, &machine(2), |attr| if attr.kind == 2 { Err(ENOENT) } else { Ok(()) }) {
        Err(Stop::Refused(refused)) => assert_eq!(refused.name, "sched:sched_switch"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn too_many_threads_are_sampled_on_whole_cpus() {
    let threads: Vec<Tid> = (0..100_000).map(Tid).collect();
    let many = Facts { threads, processes: vec![Pid(7)], ..machine(2) };
    let (plan, notices) = planned(&attached(), &many, everything).unwrap();
    assert_eq!(plan.scope, Scope::CpusOfThreads);
    assert!(matches!(notices.first(), Some(Notice::WholeCpus { limit: 4096, .. })));
    let refused = Facts { refused_scopes: vec![Scope::CpusOfThreads], ..many };
    let stop = planned(&attached(), &refused, everything).unwrap_err();
    assert!(matches!(stop, Stop::Fail(Error::Descriptors { limit: 4096, .. })));
}

#[test]
fn rings_are_as_large_as_the_machine_and_what_was_refused_allow() {
    let ring = |facts: &Facts| planned(&attached(), facts, everything).unwrap().0.ring;
    assert_eq!(ring(&machine(2)), 16 << 20);
    assert_eq!(ring(&machine(256)), 1 << 20);
    let limited = Facts { largest_ring: Some(128 << 10), ..machine(2) };
    let (plan, _) = planned(&attached(), &limited, everything).unwrap();
    assert_eq!((plan.ring, plan.wanted_ring), (128 << 10, 16 << 20));
    assert_eq!(plan.events[0].attr.wakeup, 32 << 10);
}

#[test]
fn a_cpu_that_is_offline_is_named() {
    let options = Options { cpus: Some(vec![CpuId(9)]), ..attached() };
    let stop = planned(&options, &machine(2), everything).unwrap_err();
    assert!(matches!(stop, Stop::Fail(Error::CpuOffline { cpu: 9 })));
}
