//! What will be opened for counting: a pure function of the options and of facts, as for recordings (`crate::plan`).

use decoder::{Attr, AttrFlags, ReadFormat, SampleFormat};
use model::CpuId;

use super::CountedEvent;
use super::uncounted::Uncounted;
use crate::attr::{member, size_with};
use crate::error::{EACCES, EINVAL, ENODEV, ENOENT, EOPNOTSUPP, EPERM, ESRCH, Errno};
use crate::event::{Event, Pmu, dummy_event};
use crate::notice::Notice;
use crate::options::{Options, PrivilegeLevels, Target};
use crate::plan::{
    Descriptors, Facts, Fallback, PlannedEvent, Refusal, RefusedEvent, Site, Stop, counts_on, each, negotiate,
};

/// What is opened to count events.
#[derive(Debug)]
pub(super) struct CountingPlan {
    /// The events as they are opened. Those that are [`absent`](CountedEvent::absent) are not.
    pub(super) planned: Vec<PlannedEvent>,
    /// The events as they are reported.
    pub(super) events: Vec<CountedEvent>,
    /// The event of [`presence`], where threads are counted by CPU.
    pub(super) presence: Option<PlannedEvent>,
    /// The event that records FORKs while threads are opened: where there are enough descriptors, and it is permitted.
    pub(super) forks: Option<PlannedEvent>,
}

/// Returns how the `selected` events are counted on each of `cpus`, or on any CPU. Adds notices of the attrs, and of what was left out
/// and why. Nothing can be counted where a named event is refused, or all are.
pub(super) fn plan(
    options: &Options,
    selected: &[Event],
    cpus: &[Option<CpuId>],
    facts: &Facts,
    notices: &mut Vec<Notice>,
) -> Result<CountingPlan, Stop> {
    let threads = if options.target.is_cpu_wide() { 1 } else { facts.threads.len() };
    let descriptors =
        |threads, cpus| Descriptors { threads, siblings: 0, cpus, events: selected.len(), watched: threads };
    descriptors(threads, cpus.len()).check(facts)?;
    let mut first_refused = None;
    let planned = each(selected, |index, event| {
        let mut attr = counter(event, options);
        if let Some(probe) = &event.probe {
            attr.config1 = probe.config1();
        }
        let mut planned = PlannedEvent::new(event.name.clone(), attr.clone(), event.clone());
        let absent = match negotiate_counter(event, attr, site(event, options, cpus), facts)? {
            Ok((attr, fallbacks)) => {
                planned.attr = attr;
                report_fallbacks(&mut planned, fallbacks, facts, notices)
            }
            Err(refusal) => {
                notices.push(Notice::Refused { name: event.name.clone(), attr: refusal.attr.clone() });
                let (why, refused) = absence(event, refusal, facts)?;
                first_refused.get_or_insert(refused);
                Some(why)
            }
        };
        if event.leader.is_some_and(|leader| leader != index) {
            planned.attr = member(planned.attr);
        }
        Ok((planned, absent))
    })?;
    let (mut planned, absent): (Vec<PlannedEvent>, Vec<Option<Uncounted>>) = planned.into_iter().unzip();
    if let Some(refused) = first_refused.filter(|_| absent.iter().all(Option::is_some)) {
        return Err(Stop::Refused(refused));
    }
    name_kinds_of_cores(&mut planned, &facts.core_pmus);
    let user_only = planned.iter().all(|event| event.attr.flags.contains(AttrFlags::EXCLUDE_KERNEL));
    let presence =
        || PlannedEvent::new("dummy".to_owned(), presence(options, user_only), dummy_event("dummy"));
    let by_cpu = !options.target.is_cpu_wide() && cpus.iter().any(Option::is_some);
    // FORK records of the threads that are open already tell which new threads have inherited the counters.
    let attaches = matches!(options.target, Target::Processes(_) | Target::User(_)) && options.inherits();
    let instances = threads.saturating_mul(cpus.len());
    let with_forks = instances.saturating_add(instances.saturating_mul(facts.online_cpus.len()));
    let forks = match attaches && descriptors(with_forks, 1).are_allowed(facts)? {
        true => forks(&planned, options, facts)?,
        false => None,
    };
    let counted = |(event, absent): (&PlannedEvent, Option<Uncounted>)| CountedEvent {
        name: event.name.clone(),
        attr: event.attr.clone(),
        measure: event.selected.measure.clone(),
        leader: event.leader,
        absent,
    };
    let events = planned.iter().zip(absent).map(counted).collect();
    Ok(CountingPlan { events, planned, presence: by_cpu.then(presence), forks })
}

/// Returns the event that records FORKs beside these counters; `None` where it is not permitted.
fn forks(counters: &[PlannedEvent], options: &Options, facts: &Facts) -> Result<Option<PlannedEvent>, Stop> {
    let attrs: Vec<Attr> = counters.iter().map(|event| event.attr.clone()).collect();
    let attr = crate::attr::sideband(&attrs, options, 1 << 12);
    let site = Site::Thread(facts.online_cpus.first().copied());
    Ok(negotiate(attr, None, site, facts)?.ok().map(|(attr, _)| PlannedEvent::sideband(attr)))
}

/// Returns where `event` is tried: on the first of `cpus` on which it counts.
fn site(event: &Event, options: &Options, cpus: &[Option<CpuId>]) -> Site {
    let cpu = cpus.iter().find(|cpu| cpu.is_none_or(|cpu| counts_on(event, cpu))).copied().flatten();
    match (&options.target, cpu) {
        (Target::System, Some(cpu)) => Site::Cpu(cpu),
        (Target::Cgroup(_), Some(cpu)) => Site::Cgroup(cpu),
        _ => Site::Thread(cpu),
    }
}

/// Returns the attr of a counter that this kernel and user allow, and the fallbacks that led to it.
fn negotiate_counter(
    event: &Event,
    mut attr: Attr,
    site: Site,
    facts: &Facts,
) -> Result<Result<(Attr, Vec<Fallback>), Refusal>, Stop> {
    loop {
        match negotiate(attr.clone(), None, site, facts)? {
            Err(refusal) if refusal.errno.raw_os_error() == Some(EINVAL) && demand_less(&mut attr, event) => {
            }
            outcome => return Ok(outcome),
        }
    }
}

/// Removes a part of the attr that counting does not need and the user did not request. Returns false if there is none.
fn demand_less(attr: &mut Attr, event: &Event) -> bool {
    // Before Linux 4.13 inherited events cannot be read as a group (checklist K18).
    if attr.read_format.contains(ReadFormat::GROUP) && attr.flags.contains(AttrFlags::INHERIT) {
        attr.read_format.remove(ReadFormat::GROUP);
        return true;
    }
    // PMUs that do not know privilege levels refuse to exclude guests (checklist F4-6).
    let guests = AttrFlags::EXCLUDE_GUEST | AttrFlags::EXCLUDE_HOST;
    if attr.flags.intersects(guests) && !event.modifiers.guest && !event.modifiers.host {
        attr.flags.remove(guests);
        return true;
    }
    false
}

/// Sets the name of an event that is opened after fallbacks, and reports these; the exclusion of the kernel only once. Returns
/// the reason why it is not counted, if there is nothing left of it.
fn report_fallbacks(
    event: &mut PlannedEvent,
    fallbacks: Vec<Fallback>,
    facts: &Facts,
    notices: &mut Vec<Notice>,
) -> Option<Uncounted> {
    let is_user_only = fallbacks.contains(&Fallback::UserSpaceOnly);
    let is_forbidden = is_user_only && event.attr.occurs_in_kernel_only();
    if is_user_only && !is_forbidden && !event.name.contains(':') {
        event.name.push_str(":u");
    }
    let user_only = Notice::UserSpaceOnly { paranoid: facts.settings.paranoid };
    if is_user_only && !notices.contains(&user_only) {
        notices.push(user_only);
    }
    for fallback in fallbacks {
        if let Fallback::Without(feature) = fallback {
            notices.push(Notice::MissingFeature { event: event.name.clone(), feature });
        }
    }
    notices.push(Notice::Opened { name: event.name.clone(), attr: Box::new(event.attr.clone()) });
    is_forbidden.then_some(Uncounted::Forbidden)
}

/// Returns the reason why a refused event is not counted, and the refusal for the case that no other event is.
///
/// # Errors
/// That refusal where the event must not be missing: it was named by the user, and the machine has it.
fn absence(event: &Event, refusal: Refusal, facts: &Facts) -> Result<(Uncounted, Box<RefusedEvent>), Stop> {
    let Refusal { errno, attr } = refusal;
    let code = errno.raw_os_error();
    let not_here = matches!(code, Some(ENOENT | ENODEV | EOPNOTSUPP));
    let may_be_missing = event.is_default && !matches!(code, Some(ESRCH | EACCES | EPERM));
    let why = match not_here {
        true => Uncounted::NotHere { pmu: facts.core_pmu.clone() },
        false => Uncounted::Refused(format!("{}", Errno(&errno))),
    };
    let is_probe = event.probe.is_some();
    let refused = Box::new(RefusedEvent { name: event.name.clone(), errno, attr: *attr, is_probe });
    if not_here || may_be_missing { Ok((why, refused)) } else { Err(Stop::Refused(refused)) }
}

/// Adds the PMU to the names of events that are counted on several kinds of cores, and have been typed as one.
fn name_kinds_of_cores(events: &mut [PlannedEvent], pmus: &[Pmu]) {
    let of_cores: Vec<String> = events
        .iter()
        .map(|event| &event.selected)
        .filter(|event| event.core)
        .map(|event| event.name.clone())
        .collect();
    for event in events.iter_mut().filter(|event| event.selected.core) {
        let is_several = of_cores.iter().filter(|name| **name == event.selected.name).count() > 1;
        let pmu = pmus.iter().find(|pmu| is_several && pmu.kind == event.selected.attr.pmu());
        if let Some(pmu) = pmu {
            event.name = format!("{}/{}/", pmu.name, event.name);
        }
    }
}

/// The format of all counts: the times for which the event was enabled and running, its id, and its lost samples.
const FORMAT: ReadFormat = ReadFormat::TOTAL_TIME_ENABLED
    .union(ReadFormat::TOTAL_TIME_RUNNING)
    .union(ReadFormat::ID)
    .union(ReadFormat::LOST);

/// Returns the attr of an event that counts and takes no samples. Events of a group are read together (`PERF_FORMAT_GROUP`).
fn counter(event: &Event, options: &Options) -> Attr {
    let mut flags = event.modifiers.flags() | AttrFlags::DISABLED;
    match options.levels {
        PrivilegeLevels::AsSelected => {}
        PrivilegeLevels::User => flags |= AttrFlags::EXCLUDE_KERNEL | AttrFlags::EXCLUDE_HV,
        PrivilegeLevels::Kernel => flags |= AttrFlags::EXCLUDE_USER,
    }
    flags.set(AttrFlags::INHERIT, options.inherits());
    flags.set(AttrFlags::INHERIT_THREAD, options.inherits() && options.threads_only);
    flags.set(AttrFlags::ENABLE_ON_EXEC, options.target == Target::Command && options.delay.is_none());
    let mut read_format = FORMAT;
    read_format.set(ReadFormat::GROUP, event.leader.is_some());
    let sample_format = SampleFormat::empty();
    Attr { size: size_with(&event.attr), read_format, flags, sample_format, ..event.attr.clone() }
}

/// Returns the attr of an event that counts nothing, and whose running time is the time of a thread on a CPU. Where another event
/// there ran for less, it lacked a counter.
pub(super) fn presence(options: &Options, user_only: bool) -> Attr {
    let mut flags = AttrFlags::DISABLED | AttrFlags::EXCLUDE_GUEST;
    flags.set(AttrFlags::EXCLUDE_KERNEL | AttrFlags::EXCLUDE_HV, user_only);
    flags.set(AttrFlags::INHERIT, options.inherits());
    flags.set(AttrFlags::INHERIT_THREAD, options.inherits() && options.threads_only);
    flags.set(AttrFlags::ENABLE_ON_EXEC, options.target == Target::Command && options.delay.is_none());
    Attr { read_format: FORMAT, flags, ..crate::attr::dummy() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counting::default_events;
    use crate::event::select;
    use crate::plan::tests::tell;
    use decoder::attr::TYPE_HARDWARE;
    use host::survey::Settings;
    use model::{Pid, Tid};

    fn planned(
        options: &Options,
        events: &[Event],
        kernel: impl Fn(&Attr) -> Result<(), i32>,
    ) -> Result<(CountingPlan, Vec<Notice>), Stop> {
        let cpus = [CpuId(0), CpuId(1)];
        let mut notices = Vec::new();
        let mut facts = Facts {
            online_cpus: cpus.to_vec(),
            settings: Settings { paranoid: Some(2), ..Settings::default() },
            threads: vec![Tid(7)],
            ..Facts::default()
        };
        for _ in 0..100 {
            notices.clear();
            match plan(options, events, &[None], &facts, &mut notices) {
                Ok(plan) => return Ok((plan, notices)),
                Err(Stop::Ask(questions)) => tell(&mut facts, questions, &kernel),
                Err(stop) => return Err(stop),
            }
        }
        panic!("the questions have an end")
    }

    fn without_pmu(attr: &Attr) -> Result<(), i32> {
        if matches!(attr.kind, TYPE_HARDWARE | 3) { Err(ENOENT) } else { Ok(()) }
    }

    #[test]
    fn what_a_machine_does_not_count_is_left_out_unless_nothing_is_left() {
        let command = Options::new(Target::Command);
        let defaults = default_events(&Vec::new(), false).unwrap();
        let (plan, _) = planned(&command, &defaults, without_pmu).unwrap();
        let absent: Vec<bool> = plan.events.iter().map(|event| event.absent.is_some()).collect();
        assert_eq!(absent, [false, false, false, false, true, true, true, true]);
        let cycles = select("cycles,instructions", &Vec::new()).unwrap();
        match planned(&command, &cycles, without_pmu) {
            Err(Stop::Refused(refused)) => assert_eq!(refused.name, "cycles"),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_user_counts_user_space_and_is_told_so_once() {
        let user = |attr: &Attr| match attr.flags.contains(AttrFlags::EXCLUDE_KERNEL) {
            true => Ok(()),
            false => Err(EACCES),
        };
        let events = select("task-clock,cs,faults", &Vec::new()).unwrap();
        let (plan, notices) = planned(&Options::new(Target::Command), &events, user).unwrap();
        let shown: Vec<(&str, bool)> =
            plan.events.iter().map(|event| (event.name.as_str(), event.absent.is_some())).collect();
        assert_eq!(shown, [("task-clock:u", false), ("cs", true), ("faults:u", false)]);
        let is_user_only = |notice: &&Notice| matches!(notice, Notice::UserSpaceOnly { paranoid: Some(2) });
        assert_eq!(notices.iter().filter(is_user_only).count(), 1);
    }

    #[test]
    fn a_group_that_an_old_kernel_does_not_read_at_once_is_read_one_by_one() {
        let old = |attr: &Attr| {
            let is_read_at_once =
                attr.read_format.contains(ReadFormat::GROUP) && attr.flags.contains(AttrFlags::INHERIT);
            if is_read_at_once { Err(EINVAL) } else { Ok(()) }
        };
        let group = select("{task-clock,cs}", &Vec::new()).unwrap();
        let (plan, _) = planned(&Options::new(Target::Processes(vec![Pid(7)])), &group, old).unwrap();
        assert!(plan.planned.iter().all(|event| !event.attr.read_format.contains(ReadFormat::GROUP)));
        assert!(plan.forks.is_some(), "threads may begin while it is opened");
    }

    fn attr(list: &str, options: &Options) -> Attr {
        counter(&select(list, &Vec::new()).unwrap()[0], options)
    }

    #[test]
    fn a_counter_takes_no_samples() {
        let command = Options::new(Target::Command);
        let alone = attr("cycles:u", &command);
        assert_eq!(
            (alone.sample_period, alone.sample_format, alone.read_format),
            (0, SampleFormat::empty(), FORMAT)
        );
        assert!(
            alone.flags.contains(AttrFlags::INHERIT | AttrFlags::ENABLE_ON_EXEC | AttrFlags::EXCLUDE_KERNEL)
        );
        assert!(!alone.flags.intersects(AttrFlags::INHERIT_STAT | AttrFlags::FREQ));
        let group = attr("{cycles,instructions}", &command);
        assert!(group.read_format.contains(ReadFormat::GROUP));
        let whole = attr("cycles", &Options::new(Target::System));
        assert!(!whole.flags.intersects(AttrFlags::INHERIT | AttrFlags::ENABLE_ON_EXEC));
    }
}
