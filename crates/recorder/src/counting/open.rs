//! Opens counters on threads and CPUs, after negotiating them with the kernel, and reads them.

use std::collections::{HashMap, HashSet};
use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;

use decoder::{Attr, AttrFlags, ReadFormat};
use host::sys::perf_event::{PerfEvent, Subject};
use host::{sysfs, topology};
use model::{CpuId, Pid, Tid};
use rustc_hash::FxBuildHasher;

use super::probes::TracefsProbe;
use super::sockets::first_of_sockets;
use super::tasks::TaskReports;
use super::uncounted::Uncounted;
use super::{Aggregation, Count, CountedEvent, Plan, Reading, attr, reading};
use crate::attr::member;
use crate::error::{EACCES, EINVAL, ENODEV, ENOENT, EOPNOTSUPP, EPERM, ESRCH, Errno, Error};
use crate::event::Event;
use crate::notice::Notice;
use crate::open::{
    Descriptors, Fallback, Kernel, Opened, Opener, Refusal, counts_on, explain, explain_probe,
    open_with_fallbacks, processes, selected_events,
};
use crate::options::{Options, Target};

/// The CPU or thread on which an event is open.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct CounterSite {
    pub(super) tid: Option<Tid>,
    pub(super) cpu: Option<CpuId>,
}

/// An event that is open on a thread, a CPU, or a thread while it is on a CPU.
pub(super) struct Instance {
    /// The index of the event in the list; its length for the event of [`Counters::presence`].
    pub(super) event: usize,
    pub(super) site: CounterSite,
    pub(super) counter: Arc<PerfEvent>,
    pub(super) id: u64,
    /// The index of the instance that leads its group: to enable it enables this one, and to read it reads this one where the format
    /// is that of groups.
    leader: Option<usize>,
    /// The index of the instance whose running time is the thread's CPU time, if that is counted.
    presence: Option<usize>,
}

/// Open counters, not enabled yet.
pub(super) struct Counters {
    pub(super) events: Vec<CountedEvent>,
    pub(super) instances: Vec<Instance>,
    pub(super) reports: Option<TaskReports>,
    /// The CPUs that are counted, where these are opened whole.
    pub(super) whole_cpus: Option<Vec<CpuId>>,
    selected: Vec<Event>,
    /// The attr of [`attr::presence`], where threads are counted by CPU.
    presence: Option<Attr>,
    aggregation: Aggregation,
    /// The probes that some of the events are. These have to be closed first: fields are dropped in their order.
    _probes: Vec<TracefsProbe>,
}

impl Counters {
    /// Opens the events of `options` on their target, which for a command is the waiting child.
    pub(super) fn open(
        options: &Options,
        plan: Plan,
        child: Option<Pid>,
        notices: &mut dyn FnMut(Notice),
    ) -> Result<Self, Error> {
        let online = sysfs::online_cpus()
            .map_err(|errno| Error::System { what: "cannot read which CPUs are online", errno })?;
        if let Some(offline) = options.cpus.iter().flatten().find(|cpu| !online.contains(cpu)) {
            return Err(Error::CpuOffline { cpu: offline.0 });
        }
        let cpus = options.cpus.clone().unwrap_or(online);
        let mut selected = selected_events(options, &cpus)?;
        let probes = match cpus.first() {
            Some(&cpu) if options.inherits() => super::probes::define_in_tracefs(&mut selected, cpu)?,
            _ => Vec::new(),
        };
        let mut counters = Self {
            events: Vec::new(),
            instances: Vec::new(),
            reports: None,
            whole_cpus: None,
            selected,
            presence: None,
            aggregation: plan.aggregation,
            _probes: probes,
        };
        if options.target.is_cpu_wide() {
            counters.open_cpus(&cpus, options, notices)?;
            counters.whole_cpus = Some(cpus);
            return Ok(counters);
        }
        let by_cpu = options.cpus.is_some() || plan.aggregation == Aggregation::PerCpu;
        let cpus = if by_cpu { cpus.into_iter().map(Some).collect() } else { vec![None] };
        counters.open_tasks(&cpus, options, child, notices)?;
        Ok(counters)
    }

    fn open_cpus(
        &mut self,
        cpus: &[CpuId],
        options: &Options,
        notices: &mut dyn FnMut(Notice),
    ) -> Result<(), Error> {
        let cgroup = match &options.target {
            Target::Cgroup(path) => Some(
                host::cgroup::open(path)
                    .map_err(|errno| Error::Cgroup { path: path.display().to_string(), errno })?,
            ),
            _ => None,
        };
        self.check_descriptors(1, cpus.len())?;
        let sites: Vec<CounterSite> =
            cpus.iter().map(|&cpu| CounterSite { tid: None, cpu: Some(cpu) }).collect();
        self.negotiate(&sites, cgroup.as_ref(), options, notices)?;
        let firsts = first_of_sockets(Path::new(topology::SYSTEM), cpus);
        for site in sites {
            let is_first = site.cpu.is_some_and(|cpu| firsts.contains(&cpu));
            self.open_site(site, is_first, cgroup.as_ref(), options)?;
        }
        Ok(())
    }

    fn open_tasks(
        &mut self,
        cpus: &[Option<CpuId>],
        options: &Options,
        child: Option<Pid>,
        notices: &mut dyn FnMut(Notice),
    ) -> Result<(), Error> {
        let threads = match (&options.target, child) {
            (Target::Command, Some(pid)) => vec![Tid(pid.0)],
            (Target::Threads(tids), _) => tids.clone(),
            _ => crate::open::all_threads(&processes(options)?),
        };
        if let (Target::Processes(pids), true) = (&options.target, threads.is_empty()) {
            return Err(Error::NoSuchProcess { pid: pids.first().map_or(0, |pid| pid.0) });
        }
        self.check_descriptors(threads.len(), cpus.len())?;
        let sites: Vec<CounterSite> = sites(&threads, cpus);
        self.negotiate(&sites, None, options, notices)?;
        if cpus.iter().any(Option::is_some) {
            let user_only =
                self.events.iter().all(|event| event.attr.flags.contains(AttrFlags::EXCLUDE_KERNEL));
            self.presence = Some(attr::presence(options, user_only));
        }
        if self.aggregation == Aggregation::PerTask && options.inherits() {
            self.reports = Some(TaskReports::default());
        }
        let attaches = matches!(options.target, Target::Processes(_) | Target::User(_));
        let mut gone = Vec::new();
        // FORK records of the threads that are open already tell which new threads have inherited the counters.
        let sideband = if attaches && options.inherits() { self.sideband(&sites, options) } else { None };
        match sideband {
            Some(mut sideband) => {
                sideband.attach_with(options, &mut |tid| self.open_thread(tid, cpus, options))?;
            }
            None => {
                for &tid in &threads {
                    if !self.open_thread(tid, cpus, options)? {
                        gone.push(tid);
                    }
                }
            }
        }
        if gone.len() == threads.len()
            && let Some(&Tid(pid)) = gone.first()
        {
            return Err(Error::NoSuchProcess { pid });
        }
        if matches!(options.target, Target::Threads(_)) {
            gone.iter().for_each(|tid| notices(Notice::ProcessGone { pid: tid.0 }));
        }
        if let Target::Processes(pids) = &options.target {
            for &pid in crate::open::ended_processes(pids)?.iter() {
                notices(Notice::ProcessGone { pid: pid.0 });
            }
        }
        if let Some(reason) = self.reports.as_ref().and_then(|reports| reports.refused) {
            notices(Notice::TasksUnreported(reason));
        }
        Ok(())
    }

    fn check_descriptors(&self, threads: usize, cpus: usize) -> Result<(), Error> {
        Descriptors { threads, siblings: 0, cpus, events: self.selected.len(), watched: threads }.check()
    }

    /// Returns the sideband event that records FORKs while threads are opened; `None` where there are too few descriptors, or it is
    /// not permitted.
    fn sideband(&self, sites: &[CounterSite], options: &Options) -> Option<Opened> {
        let cpus = sysfs::online_cpus().ok()?;
        let threads = sites.len().checked_mul(cpus.len())?;
        self.check_descriptors(sites.len().checked_add(threads)?, 1).ok()?;
        let attrs: Vec<Attr> = self.events.iter().map(|event| event.attr.clone()).collect();
        let subject = Subject::Thread(sites.first()?.tid?, cpus.first().copied());
        let attr = crate::attr::sideband(&attrs, options, 1 << 12);
        let (attr, _, _) = open_with_fallbacks(&Kernel, attr, None, subject, None).ok()?;
        Some(Opened::of_sideband(attr, cpus))
    }

    /// Negotiates all events, on the first of `sites` that there is. Fails if a named event is refused, or all are.
    fn negotiate(
        &mut self,
        sites: &[CounterSite],
        cgroup: Option<&File>,
        options: &Options,
        notices: &mut dyn FnMut(Notice),
    ) -> Result<(), Error> {
        let mut first_error = None;
        let mut is_user_only_reported = false;
        for (index, event) in self.selected.iter().enumerate() {
            let mut attr = attr::counter(event, options, self.aggregation);
            if let Some(probe) = &event.probe {
                attr.config1 = probe.config1();
            }
            let mut counted = CountedEvent {
                name: event.name.clone(),
                attr: attr.clone(),
                measure: event.measure.clone(),
                leader: event.leader,
                absent: None,
            };
            match negotiate_one(event, attr, sites, cgroup) {
                Ok((attr, fallbacks)) => {
                    counted.attr = attr;
                    report_fallbacks(&mut counted, fallbacks, &mut is_user_only_reported, notices);
                }
                Err(refusal) => {
                    notices(Notice::Refused { name: event.name.clone(), attr: refusal.attr.clone() });
                    let (absent, error) = absent_event(event, refusal, options)?;
                    counted.absent = Some(absent);
                    first_error.get_or_insert(error);
                }
            }
            if event.leader.is_some_and(|leader| leader != index) {
                counted.attr = member(counted.attr);
            }
            self.events.push(counted);
        }
        if self.aggregation == Aggregation::PerTask && options.inherits() {
            // One event records the names and FORKs of all tasks.
            let flags = AttrFlags::COMM | AttrFlags::COMM_EXEC | AttrFlags::TASK;
            let first = self.events.iter_mut().find(|event| event.absent.is_none());
            first.into_iter().for_each(|event| event.attr.flags |= flags);
        }
        name_kinds_of_cores(&mut self.events, &self.selected);
        match first_error {
            Some(error) if self.events.iter().all(|event| event.absent.is_some()) => Err(error),
            _ => Ok(()),
        }
    }

    /// Opens the events on a thread, on each of `cpus`, or on any CPU. Returns false where the thread has ended.
    fn open_thread(&mut self, tid: Tid, cpus: &[Option<CpuId>], options: &Options) -> Result<bool, Error> {
        let before = self.instances.len();
        for site in sites(&[tid], cpus) {
            if !self.open_site(site, true, None, options)? {
                self.instances.truncate(before);
                return Ok(false);
            }
        }
        if let Some(reports) = &mut self.reports {
            let opened = self.instances.get(before..).unwrap_or(&[]);
            reports.add_thread(tid, opened, &self.events);
        }
        Ok(true)
    }

    /// Opens the events that count in `site`. `is_first` is true if its CPU is the first of its socket. Returns false where the thread
    /// has ended.
    fn open_site(
        &mut self,
        site: CounterSite,
        is_first: bool,
        cgroup: Option<&File>,
        options: &Options,
    ) -> Result<bool, Error> {
        let start = self.instances.len();
        let mut opened: Vec<Instance> = Vec::new();
        if let Some(attr) = &self.presence {
            match Kernel
                .open(attr, subject(site, cgroup), None)
                .and_then(|counter| Ok((counter.id()?, counter)))
            {
                Ok((id, counter)) => {
                    let counter = Arc::new(counter);
                    let event = self.selected.len();
                    opened.push(Instance { event, site, counter, id, leader: None, presence: None });
                }
                Err(errno) if errno.raw_os_error() == Some(ESRCH) => return Ok(false),
                Err(errno) => return Err(explain(errno, "dummy", attr, options)),
            }
        }
        for (index, (event, wanted)) in self.selected.iter().zip(&self.events).enumerate() {
            let elsewhere = site.cpu.is_some_and(|cpu| !counts_on(event, cpu));
            let counted_elsewhere = wanted.measure.per_socket && event.cpus.is_none() && !is_first;
            if wanted.absent.is_some() || elsewhere || counted_elsewhere {
                continue;
            }
            let leads = |instance: &Instance| {
                wanted.leader.is_some()
                    && self.events.get(instance.event).is_some_and(|other| other.leader == wanted.leader)
            };
            let leader = opened.iter().position(leads);
            let mut attr = wanted.attr.clone();
            if leader.is_none() && wanted.leader.is_some() {
                // Where the leader is not counted, the first member becomes the leader.
                attr.flags |= AttrFlags::DISABLED;
                let by_exec = options.target == Target::Command && options.delay.is_none();
                attr.flags.set(AttrFlags::ENABLE_ON_EXEC, by_exec);
            }
            let group =
                leader.and_then(|leader| opened.get(leader)).map(|leader| Arc::clone(&leader.counter));
            let result = open_one(event, &attr, subject(site, cgroup), group.as_deref());
            match result {
                Ok((counter, id)) => {
                    let leader = leader.map(|leader| start + leader);
                    let presence = self.presence.is_some().then_some(start);
                    opened.push(Instance { event: index, site, counter, id, leader, presence });
                }
                Err(errno) if errno.raw_os_error() == Some(ESRCH) => return Ok(false),
                Err(errno) if leader.is_some() && errno.raw_os_error() == Some(EINVAL) => {
                    let advice =
                        "the PMU cannot count this group at once; try fewer events in the braces, or none"
                            .to_owned();
                    return Err(Error::Open { event: wanted.name.clone(), errno, advice });
                }
                Err(errno) => {
                    if let (Some(filter), true) = (&event.filter, errno.raw_os_error().is_none()) {
                        return Err(Error::Filter { filter: filter.clone() });
                    }
                    return Err(explain(errno, &wanted.name, &attr, options));
                }
            }
        }
        self.instances.extend(opened);
        Ok(true)
    }

    /// Starts counting, where the command's exec does not.
    pub(super) fn enable(&self) -> Result<(), Error> {
        let leaders = self.instances.iter().filter(|instance| instance.leader.is_none());
        for instance in leaders {
            instance
                .counter
                .enable()
                .map_err(|errno| Error::System { what: "cannot enable the events", errno })?;
        }
        Ok(())
    }

    /// Stops counting of all events. An event whose thread has ended is stopped already.
    pub(super) fn disable(&self) {
        for instance in self.instances.iter().filter(|instance| instance.leader.is_none()) {
            let _ = instance.counter.disable();
        }
    }

    /// Reads the count of each instance since it was enabled; `None` for an instance that cannot be read.
    pub(super) fn read(&self) -> Vec<Option<Reading>> {
        let mut readings: Vec<Option<Reading>> = vec![None; self.instances.len()];
        for (index, instance) in self.instances.iter().enumerate() {
            let Some(format) = self.format_of(instance) else { continue };
            let grouped = format.contains(ReadFormat::GROUP);
            if grouped && instance.leader.is_some() {
                continue; // Its leader reads it.
            }
            // The members of a group lie behind their leader, with other instances of the same thread and CPU between them.
            let here = self
                .instances
                .iter()
                .enumerate()
                .skip(index)
                .take_while(|(_, other)| other.site == instance.site);
            let group: Vec<usize> = here
                .filter(|(other_index, other)| *other_index == index || other.leader == Some(index))
                .map(|(other_index, _)| other_index)
                .collect();
            let members = if grouped { group.len() } else { 1 };
            let mut words = vec![0; format.read_words(members)];
            let Some(read) = instance
                .counter
                .read(&mut words)
                .ok()
                .and_then(|count| reading::parse(format, words.get(..count)?))
            else {
                continue;
            };
            for (id, reading) in read {
                let is_it = |slot: &&usize| self.instances.get(**slot).is_some_and(|other| other.id == id);
                let slot = if grouped { group.iter().find(is_it).copied() } else { Some(index) };
                if let Some(slot) = slot.and_then(|slot| readings.get_mut(slot)) {
                    *slot = Some(reading);
                }
            }
        }
        readings
    }

    fn format_of(&self, instance: &Instance) -> Option<ReadFormat> {
        match self.events.get(instance.event) {
            Some(event) => Some(event.attr.read_format),
            None => self.presence.as_ref().map(|attr| attr.read_format),
        }
    }

    /// Sums up `readings` by event, and by CPU or thread as the aggregation says. An event without an instance gets a count of zero.
    pub(super) fn counts(&self, readings: &[Option<Reading>]) -> Vec<Count> {
        let mut counts: Vec<Count> = Vec::new();
        let mut known: HashMap<(usize, Option<CpuId>, Option<Tid>), usize, FxBuildHasher> =
            HashMap::default();
        for (instance, reading) in self.instances.iter().zip(readings) {
            if instance.event >= self.events.len() {
                continue;
            }
            let cpu = instance.site.cpu.filter(|_| self.aggregation == Aggregation::PerCpu);
            let tid = instance.site.tid.filter(|_| self.aggregation == Aggregation::PerTask);
            let unreadable = reading.is_none();
            let mut reading = reading.unwrap_or_default();
            if let Some(present) = instance.presence {
                // The event could count only while the thread was on this CPU.
                let present = readings.get(present).copied().flatten().unwrap_or_default();
                reading.enabled_ns = present.running_ns.max(reading.running_ns);
            }
            let next = counts.len();
            let index = *known.entry((instance.event, cpu, tid)).or_insert(next);
            match counts.get_mut(index) {
                Some(count) => {
                    count.reading = count.reading.plus(&reading);
                    count.unreadable |= unreadable;
                }
                None => {
                    let task = tid.map(super::tasks::task);
                    counts.push(Count { event: instance.event, cpu, task, reading, unreadable });
                }
            }
        }
        let counted: HashSet<usize, FxBuildHasher> = counts.iter().map(|count| count.event).collect();
        for event in (0..self.events.len()).filter(|event| !counted.contains(event)) {
            let reading = Reading::default();
            counts.push(Count { event, cpu: None, task: None, reading, unreadable: false });
        }
        counts.sort_by_key(|count| count.event);
        counts
    }
}

impl Counters {
    /// Sends notices of the CPUs that went offline while they were counted.
    pub(super) fn report_offline_cpus(&self, notices: &mut dyn FnMut(Notice)) {
        let Some(counted) = &self.whole_cpus else { return };
        let Ok(online) = sysfs::online_cpus() else { return };
        let gone = counted.iter().filter(|cpu| !online.contains(cpu));
        gone.for_each(|cpu| notices(Notice::CountedCpuOffline { cpu: cpu.0 }));
    }
}

/// Sets name and reason of an event that was opened after fallbacks, and reports these; the exclusion of the kernel only once.
fn report_fallbacks(
    counted: &mut CountedEvent,
    fallbacks: Vec<Fallback>,
    is_user_only_reported: &mut bool,
    notices: &mut dyn FnMut(Notice),
) {
    if fallbacks.contains(&Fallback::UserSpaceOnly) {
        if counted.attr.occurs_in_kernel_only() {
            counted.absent = Some(Uncounted::Forbidden);
        } else if !counted.name.contains(':') {
            counted.name.push_str(":u");
        }
        if !std::mem::replace(is_user_only_reported, true) {
            notices(Notice::UserSpaceOnly { paranoid: host::sysctl::perf_event_paranoid() });
        }
    }
    for fallback in fallbacks {
        if let Fallback::Without(feature) = fallback {
            notices(Notice::MissingFeature { event: counted.name.clone(), feature });
        }
    }
    notices(Notice::Opened { name: counted.name.clone(), attr: Box::new(counted.attr.clone()) });
}

/// Returns the reason why a refused event is not counted, and the error for the case that no other event is. Fails with that error
/// where the event must not be missing: it was named by the user, and the machine has it.
fn absent_event(event: &Event, refusal: Refusal, options: &Options) -> Result<(Uncounted, Error), Error> {
    let Refusal { errno, attr } = refusal;
    let code = errno.raw_os_error();
    let not_here = matches!(code, Some(ENOENT | ENODEV | EOPNOTSUPP));
    let refused = Uncounted::Refused(format!("{}", Errno(&errno)));
    let explain = if event.probe.is_some() { explain_probe } else { explain };
    let error = explain(errno, &event.name, &attr, options);
    let may_be_missing = event.is_default && !matches!(code, Some(ESRCH | EACCES | EPERM));
    if !not_here && !may_be_missing {
        return Err(error);
    }
    Ok((if not_here { Uncounted::NotHere { pmu: crate::event::core_pmu_name() } } else { refused }, error))
}

fn sites(threads: &[Tid], cpus: &[Option<CpuId>]) -> Vec<CounterSite> {
    threads.iter().flat_map(|&tid| cpus.iter().map(move |&cpu| CounterSite { tid: Some(tid), cpu })).collect()
}

fn subject(site: CounterSite, cgroup: Option<&File>) -> Subject<'_> {
    match (site.tid, cgroup) {
        (Some(tid), _) => Subject::Thread(tid, site.cpu),
        (None, Some(cgroup)) => Subject::Cgroup(cgroup.as_fd(), site.cpu.unwrap_or_default()),
        (None, None) => Subject::Cpu(site.cpu.unwrap_or_default()),
    }
}

fn open_one(
    event: &Event,
    attr: &Attr,
    subject: Subject<'_>,
    leader: Option<&PerfEvent>,
) -> io::Result<(Arc<PerfEvent>, u64)> {
    let counter = Kernel.open(attr, subject, leader)?;
    if let Some(filter) = &event.filter {
        let refused = || io::Error::other("the filter was refused");
        let text = CString::new(filter.as_str()).map_err(|_| refused())?;
        counter.set_filter(&text).map_err(|_| refused())?;
    }
    let id = counter.id()?;
    Ok((Arc::new(counter), id))
}

/// Opens `event` in the first of `sites` that there is, with fallbacks, and closes it again. Returns the attr that was accepted.
fn negotiate_one(
    event: &Event,
    mut attr: Attr,
    sites: &[CounterSite],
    cgroup: Option<&File>,
) -> Result<(Attr, Vec<Fallback>), Refusal> {
    let on_its_cpus = |site: &&CounterSite| site.cpu.is_none_or(|cpu| counts_on(event, cpu));
    let mut gone = None;
    for site in sites.iter().filter(on_its_cpus) {
        loop {
            match open_with_fallbacks(&Kernel, attr.clone(), None, subject(*site, cgroup), None) {
                Ok((attr, _, steps)) => return Ok((attr, steps)),
                Err(refusal) if refusal.errno.raw_os_error() == Some(ESRCH) => {
                    gone = Some(refusal);
                    break;
                }
                Err(refusal) if refusal.errno.raw_os_error() == Some(EINVAL) => {
                    if !demand_less(&mut attr, event) {
                        return Err(refusal);
                    }
                }
                Err(refusal) => return Err(refusal),
            }
        }
    }
    let ended = || Refusal { errno: io::Error::from_raw_os_error(ESRCH), attr: Box::new(attr) };
    Err(gone.unwrap_or_else(ended))
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

/// Adds the PMU to the names of events that are counted on several kinds of cores, and have been typed as one.
fn name_kinds_of_cores(events: &mut [CountedEvent], selected: &[Event]) {
    let is_several =
        |name: &str| selected.iter().filter(|event| event.core && event.name == name).count() > 1;
    let pmus = crate::event::core_pmus();
    for (counted, event) in
        events.iter_mut().zip(selected).filter(|(_, event)| event.core && is_several(&event.name))
    {
        if let Some(pmu) = pmus.iter().find(|pmu| pmu.kind == event.attr.pmu()) {
            counted.name = format!("{}/{}/", pmu.name, counted.name);
        }
    }
}
