//! Opens counters on threads and CPUs as planned, and reads them.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::os::fd::AsFd;
use std::path::Path;

use decoder::{Attr, AttrFlags, ReadFormat};
use host::sys::perf_event::Subject;
use host::{sysfs, topology};
use model::{CpuId, Pid, Tid};
use rustc_hash::FxBuildHasher;

use super::plan::{CountingPlan, plan};
use super::probes::TracefsProbe;
use super::{Count, CounterSite, Instance, Plan, Reading, reading};
use crate::error::{EINVAL, Error};
use crate::event::core_pmu_name;
use crate::notice::Notice;
use crate::open::{
    Opened, Unopened, attach, decide, ended_processes, explain, open_cgroup, open_events, open_threads,
    read_facts,
};
use crate::options::{Options, Target};
use crate::plan::{PlannedEvent, chosen_cpus, counts_on, selected_events};

/// Open counters, not enabled yet.
pub(super) struct Counters {
    pub(super) plan: CountingPlan,
    pub(super) instances: Vec<Instance>,
    /// The CPUs that are counted, where these are opened whole.
    pub(super) whole_cpus: Option<Vec<CpuId>>,
    by_cpu: bool,
    /// The probes that some of the events are. These have to be closed first: fields are dropped in their order.
    _probes: Vec<TracefsProbe>,
}

impl Counters {
    /// Opens the events of `options` on their target, which for a command is the waiting child.
    pub(super) fn open(
        options: &Options,
        counted_by: Plan,
        child: Option<Pid>,
        notices: &mut dyn FnMut(Notice),
    ) -> Result<Self, Error> {
        let mut facts = read_facts(options, child)?;
        facts.core_pmu = core_pmu_name();
        let cpus = chosen_cpus(options, &facts.online_cpus)?.to_vec();
        let mut selected = selected_events(options, &cpus, &facts.core_pmus)?;
        let probes = match cpus.first() {
            Some(&cpu) if options.inherits() => super::probes::define_in_tracefs(&mut selected, cpu)?,
            _ => Vec::new(),
        };
        let is_cpu_wide = options.target.is_cpu_wide();
        if let (Target::Processes(pids), true) = (&options.target, facts.threads.is_empty()) {
            return Err(Error::NoSuchProcess { pid: pids.first().map_or(0, |pid| pid.0) });
        }
        let by_cpu = is_cpu_wide || options.cpus.is_some() || counted_by.by_cpu;
        let places = if by_cpu { cpus.iter().copied().map(Some).collect() } else { vec![None] };
        let mut planning = Vec::new();
        let decided = decide(options, &mut facts, &mut planning, |facts, notices| {
            plan(options, &selected, &places, facts, notices)
        });
        planning.into_iter().for_each(&mut *notices);
        let mut plan = decided?;
        let forks = plan.forks.take();
        let mut counters = Self {
            instances: Vec::new(),
            whole_cpus: None,
            plan,
            by_cpu: counted_by.by_cpu,
            _probes: probes,
        };
        if is_cpu_wide {
            let cgroup = match &options.target {
                Target::Cgroup(path) => Some(open_cgroup(path)?),
                _ => None,
            };
            let firsts = first_of_sockets(Path::new(topology::SYSTEM), &cpus);
            for &cpu in &cpus {
                let site = CounterSite { tid: None, cpu: Some(cpu) };
                counters.open_site(site, firsts.contains(&cpu), cgroup.as_ref(), options)?;
            }
            counters.whole_cpus = Some(cpus);
        } else {
            let forks = forks.map(|forks| Opened::of_sideband(forks, facts.online_cpus));
            counters.open_tasks(&facts.threads, &places, forks, options, notices)?;
        }
        Ok(counters)
    }

    /// Opens the events on `threads`, and with `forks` on those that they start meanwhile.
    fn open_tasks(
        &mut self,
        threads: &[Tid],
        cpus: &[Option<CpuId>],
        forks: Option<Opened>,
        options: &Options,
        notices: &mut dyn FnMut(Notice),
    ) -> Result<(), Error> {
        let mut open = |tid| self.open_thread(tid, cpus, options);
        let gone = match forks {
            Some(mut forks) => attach(&mut forks, options, &mut open).map(|()| Vec::new())?,
            None => open_threads(threads, &mut open)?,
        };
        if matches!(options.target, Target::Threads(_)) {
            gone.iter().for_each(|pid| notices(Notice::ProcessGone { pid: pid.0 }));
        }
        if let Target::Processes(pids) = &options.target {
            for &pid in ended_processes(pids)?.iter() {
                notices(Notice::ProcessGone { pid: pid.0 });
            }
        }
        Ok(())
    }

    /// Opens the events on a thread, on each of `cpus`, or on any CPU. Returns false where the thread has ended.
    fn open_thread(&mut self, tid: Tid, cpus: &[Option<CpuId>], options: &Options) -> Result<bool, Error> {
        let before = self.instances.len();
        for &cpu in cpus {
            if !self.open_site(CounterSite { tid: Some(tid), cpu }, true, None, options)? {
                self.instances.truncate(before);
                return Ok(false);
            }
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
        let subject = match (site.tid, cgroup) {
            (Some(tid), _) => Subject::Thread(tid, site.cpu),
            (None, Some(cgroup)) => Subject::Cgroup(cgroup.as_fd(), site.cpu.unwrap_or_default()),
            (None, None) => Subject::Cpu(site.cpu.unwrap_or_default()),
        };
        // The event of presence comes first, if there is one.
        let planned: Vec<&PlannedEvent> = self.plan.presence.iter().chain(&self.plan.planned).collect();
        let first = planned.len() - self.plan.planned.len();
        let subject_of = |place: usize, event: &PlannedEvent| {
            let Some(index) = place.checked_sub(first) else { return Some(subject) };
            let counted = self.plan.events.get(index)?;
            let elsewhere = site.cpu.is_some_and(|cpu| !counts_on(&event.selected, cpu));
            let counted_elsewhere = counted.measure.per_socket && event.selected.cpus.is_none() && !is_first;
            (counted.absent.is_none() && !elsewhere && !counted_elsewhere).then_some(subject)
        };
        // Where the leader is not counted, the first member becomes the leader.
        let alone = |attr: &Attr| {
            let mut flags = attr.flags | AttrFlags::DISABLED;
            let by_exec = options.target == Target::Command && options.delay.is_none();
            flags.set(AttrFlags::ENABLE_ON_EXEC, by_exec);
            Attr { flags, ..attr.clone() }
        };
        let counters = match open_events(planned.iter().copied(), subject_of, alone) {
            Ok(counters) => counters,
            Err(unopened) if unopened.has_ended() => return Ok(false),
            Err(unopened) => {
                let event = planned.get(unopened.event).copied();
                return Err(refusal(unopened, event, options));
            }
        };
        let start = self.instances.len();
        let mut opened: Vec<Instance> = Vec::new();
        let mut groups: Vec<Option<usize>> = Vec::new();
        for (place, (event, counter)) in planned.iter().zip(counters).enumerate() {
            let Some(counter) = counter else { continue };
            let id = counter.id().map_err(|errno| explain(errno, &event.name, &event.attr, options))?;
            let leader = groups.iter().position(|group| group.is_some() && *group == event.leader);
            let leader = leader.map(|leader| start + leader);
            groups.push(event.leader);
            let (index, presence) = match place.checked_sub(first) {
                Some(index) => (index, (first > 0).then_some(start)),
                None => (self.plan.planned.len(), None),
            };
            opened.push(Instance { event: index, site, counter, id, leader, presence });
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
        match self.plan.events.get(instance.event) {
            Some(event) => Some(event.attr.read_format),
            None => self.plan.presence.as_ref().map(|event| event.attr.read_format),
        }
    }

    /// Sums up `readings` by event, and by CPU if these are counted apart. An event without an instance gets a count of zero.
    pub(super) fn counts(&self, readings: &[Option<Reading>]) -> Vec<Count> {
        let mut counts: Vec<Count> = Vec::new();
        let mut known: HashMap<(usize, Option<CpuId>), usize, FxBuildHasher> = HashMap::default();
        for (instance, reading) in self.instances.iter().zip(readings) {
            if instance.event >= self.plan.events.len() {
                continue;
            }
            let cpu = instance.site.cpu.filter(|_| self.by_cpu);
            let unreadable = reading.is_none();
            let mut reading = reading.unwrap_or_default();
            if let Some(present) = instance.presence {
                // The event could count only while the thread was on this CPU.
                let present = readings.get(present).copied().flatten().unwrap_or_default();
                reading.enabled_ns = present.running_ns.max(reading.running_ns);
            }
            let next = counts.len();
            let index = *known.entry((instance.event, cpu)).or_insert(next);
            match counts.get_mut(index) {
                Some(count) => {
                    count.reading = count.reading.plus(&reading);
                    count.unreadable |= unreadable;
                }
                None => counts.push(Count { event: instance.event, cpu, reading, unreadable }),
            }
        }
        let counted: HashSet<usize, FxBuildHasher> = counts.iter().map(|count| count.event).collect();
        for event in (0..self.plan.events.len()).filter(|event| !counted.contains(event)) {
            let reading = Reading::default();
            counts.push(Count { event, cpu: None, reading, unreadable: false });
        }
        counts.sort_by_key(|count| count.event);
        counts
    }

    /// Sends notices of the CPUs that went offline while they were counted.
    pub(super) fn report_offline_cpus(&self, notices: &mut dyn FnMut(Notice)) {
        let Some(counted) = &self.whole_cpus else { return };
        let Ok(online) = sysfs::online_cpus() else { return };
        let gone = counted.iter().filter(|cpu| !online.contains(cpu));
        gone.for_each(|cpu| notices(Notice::CountedCpuOffline { cpu: cpu.0 }));
    }
}

/// Returns the error for an event that was refused on a thread or CPU of the target.
fn refusal(unopened: Unopened, event: Option<&PlannedEvent>, options: &Options) -> Error {
    let Unopened { errno, in_group, filter, .. } = unopened;
    let (name, attr) = event.map(|event| (event.name.clone(), event.attr.clone())).unwrap_or_default();
    if let Some(filter) = filter {
        return Error::Filter { filter };
    }
    if in_group && errno.raw_os_error() == Some(EINVAL) {
        let advice =
            "the PMU cannot count this group at once; try fewer events in the braces, or none".to_owned();
        return Error::Open { event: name, errno, advice };
    }
    explain(errno, &name, &attr, options)
}

/// Returns the first of `cpus` of each socket; all of them where the machine does not show which CPU is in which socket.
fn first_of_sockets(system: &Path, cpus: &[CpuId]) -> Vec<CpuId> {
    let count = cpus.iter().map(|cpu| cpu.0 + 1).max().unwrap_or(0);
    let Some(processors) = topology::processors(system, count) else { return cpus.to_vec() };
    let mut seen = Vec::new();
    let is_first = |cpu: &&CpuId| {
        let socket = processors.locations.get(cpu.0 as usize).copied().flatten().map(|place| place.socket);
        let is_new = socket.is_none_or(|socket| !seen.contains(&socket));
        seen.extend(socket);
        is_new
    };
    cpus.iter().filter(is_first).copied().collect()
}
