//! Opens planned events on the target, and gives them rings.

use std::collections::BTreeSet;
use std::ffi::CString;
use std::io;
use std::ops::Deref;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use decoder::{Attr, AttrFlags, ReadFormat, ReadValues};
use host::sys::perf_event::{PerfEvent, Subject};
use host::sys::system::page_size;
use model::{CpuId, Pid, Tid};

use super::advice::refusal;
use super::open_event;
use super::rings::{Instances, RingOwner, Rings};
use super::task_clock::TaskClocks;
use crate::error::{ESRCH, Error};
use crate::options::Options;
use crate::plan::{Plan, PlannedEvent, counts_on};
use crate::ring::{ExcludedProcesses, RingSource};

/// Open events with their rings, not enabled yet.
#[derive(Default)]
pub(crate) struct Opened {
    pub(crate) cpus: Vec<CpuId>,
    pub(crate) events: Vec<OpenEvent>,
    pub(crate) sideband: OpenEvent,
    pub(crate) rings: Rings,
    /// Sideband records that came while events were opened.
    pub(crate) early: Vec<u8>,
    /// True if an event may be open twice on a thread: see [`super::DuplicateFilter`].
    pub(crate) doubtful: bool,
    /// The number of running children of the targets that are no targets themselves.
    pub(crate) unrecorded_children: usize,
    /// The processes of the target, where whole CPUs are sampled in their place.
    pub(crate) members: Option<Vec<Pid>>,
    /// The processes whose samples are not copied out of the rings.
    pub(crate) excluded: Option<Arc<ExcludedProcesses>>,
    /// The CPUs that came online since the events were opened.
    pub(super) new_cpus: BTreeSet<CpuId>,
    /// The sideband events of whole CPUs, where these are recorded.
    pub(crate) whole_cpus: Option<WholeCpus>,
    /// The clocks of tasks, where their times are wanted.
    pub(crate) task_clocks: Option<TaskClocks>,
    /// CPUs on which the events are open that are open on all CPUs whatever the target is.
    everywhere_cpus: Vec<CpuId>,
    /// Which of the events are enabled.
    pub(crate) state: RunState,
}

/// Which of the open events are enabled.
#[derive(Default)]
pub(crate) struct RunState {
    /// True if sampling has been started, or the command's exec starts it.
    pub(crate) enabled: bool,
    /// True if sampling is paused ([`Opened::pause`]).
    pub(super) paused: bool,
    /// True if sampling has been paused.
    pub(crate) was_paused: bool,
    /// True if the events that sample switches are disabled ([`Opened::hold_switches`]).
    pub(super) switches_held: bool,
    /// The id that records of switches have in the recording, once their event has been closed ([`Opened::hold_switches`]).
    pub(super) switch_records_id: Option<u64>,
    /// True if that event is closed.
    pub(super) are_switch_records_closed: bool,
    /// Ids that [`Opened::take_later_ids`] has not returned yet.
    pub(super) later_ids: Vec<(u64, u64)>,
}

/// A planned event, and its instances on CPUs and threads.
#[derive(Default)]
pub(crate) struct OpenEvent {
    planned: PlannedEvent,
    pub(crate) instances: Vec<Arc<PerfEvent>>,
}

impl Deref for OpenEvent {
    type Target = PlannedEvent;

    fn deref(&self) -> &PlannedEvent {
        &self.planned
    }
}

impl OpenEvent {
    /// Acts on all instances. Errors are ignored: they are of threads that have ended.
    pub(super) fn try_each(&self, act: impl Fn(&PerfEvent) -> io::Result<()>) {
        self.instances.iter().for_each(|instance| drop(act(instance)));
    }
}

impl From<PlannedEvent> for OpenEvent {
    fn from(planned: PlannedEvent) -> Self {
        Self { planned, instances: Vec::new() }
    }
}

/// The CPUs that are recorded whole, with their sideband events.
#[derive(Debug, Default)]
pub(crate) struct WholeCpus {
    pub(super) cgroup: Option<OwnedFd>,
    pub(super) watches: Vec<CpuWatch>,
}

/// The sideband event of a CPU, whose enabled time grows as long as the CPU is online.
#[derive(Debug)]
pub(super) struct CpuWatch {
    pub(super) cpu: CpuId,
    pub(super) event: Arc<PerfEvent>,
    /// The enabled time at the last call of [`CpuWatch::was_enabled`], in nanoseconds.
    pub(super) enabled_ns: u64,
    pub(super) is_offline: bool,
}

impl CpuWatch {
    /// Returns true if the event was enabled since the last call, or cannot be read. `format` is its read format.
    pub(super) fn was_enabled(&mut self, format: ReadFormat) -> bool {
        let mut words = vec![0; format.read_words(1)];
        let count = self.event.read(&mut words).unwrap_or(0);
        let values = words.get(..count).and_then(|words| ReadValues::parse(format, words));
        let Some(enabled_ns) = values.and_then(|values| values.time_enabled) else { return true };
        let before = std::mem::replace(&mut self.enabled_ns, enabled_ns);
        enabled_ns > before
    }
}

impl WholeCpus {
    /// Returns each CPU, or the recorded cgroup on each.
    pub(super) fn subjects(&self) -> impl Iterator<Item = Subject<'_>> {
        self.watches.iter().map(|watch| subject(self.cgroup.as_ref(), watch.cpu))
    }

    pub(super) fn add(&mut self, cpu: CpuId, sideband: &Arc<PerfEvent>) {
        let event = Arc::clone(sideband);
        self.watches.push(CpuWatch { cpu, event, enabled_ns: 0, is_offline: false });
    }
}

/// Returns a CPU, or a cgroup on it.
pub(super) fn subject(cgroup: Option<&OwnedFd>, cpu: CpuId) -> Subject<'_> {
    cgroup.map_or(Subject::Cpu(cpu), |cgroup| Subject::Cgroup(cgroup.as_fd(), cpu))
}

/// An event that could not be opened, by its position.
#[derive(Debug)]
pub(crate) struct Unopened {
    pub(crate) event: usize,
    pub(crate) errno: io::Error,
    /// True if it was to be a member of a group that is open.
    pub(crate) in_group: bool,
    /// The filter that the kernel refused, if that is the cause.
    pub(crate) filter: Option<String>,
}

impl Unopened {
    /// Returns true if the thread has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.errno.raw_os_error() == Some(ESRCH)
    }
}

/// Opens `events` on the subjects that `subject_of` gives for them, if any, and groups together. `alone` makes the attr of a
/// group's first event that is open here.
pub(crate) fn open_events<'e, 's>(
    events: impl IntoIterator<Item = &'e PlannedEvent>,
    subject_of: impl Fn(usize, &PlannedEvent) -> Option<Subject<'s>>,
    alone: impl Fn(&Attr) -> Attr,
) -> Result<Instances, Unopened> {
    let mut opened: Instances = Vec::new();
    // The groups, and the first event of each.
    let mut groups: Vec<(usize, Arc<PerfEvent>)> = Vec::new();
    for (index, event) in events.into_iter().enumerate() {
        let Some(subject) = subject_of(index, event) else {
            opened.push(None);
            continue;
        };
        let leader = groups.iter().find(|(group, _)| event.leader == Some(*group)).map(|(_, leader)| leader);
        let unopened = |errno, filter| Unopened { event: index, errno, in_group: leader.is_some(), filter };
        let leads = leader.is_none() && event.leader.is_some();
        let attr = if leads { alone(&event.attr) } else { event.attr.clone() };
        let instance = open_event(&attr, subject, leader.map(Arc::as_ref));
        let instance = Arc::new(instance.map_err(|errno| unopened(errno, None))?);
        if let Some(filter) = &event.selected.filter {
            let text = CString::new(filter.as_str()).map_err(io::Error::other);
            text.and_then(|text| instance.set_filter(&text))
                .map_err(|errno| unopened(errno, Some(filter.clone())))?;
        }
        if leads {
            groups.extend(event.leader.map(|group| (group, Arc::clone(&instance))));
        }
        opened.push(Some(instance));
    }
    Ok(opened)
}

/// Returns where events of a thread are opened, and the owner of the ring there: each of `cpus`, or the thread.
fn places_of(tid: Tid, cpus: &[CpuId], options: &Options) -> Vec<(RingOwner, Subject<'static>)> {
    match options.per_thread {
        true => vec![(RingOwner::Thread(tid), Subject::Thread(tid, None))],
        false => cpus.iter().map(|&cpu| (RingOwner::Cpu(cpu), Subject::Thread(tid, Some(cpu)))).collect(),
    }
}

impl Opened {
    /// Makes the state of events that are not open yet.
    pub(super) fn of_events(plan: &Plan) -> Self {
        let open_event = |planned: &PlannedEvent| OpenEvent::from(planned.clone());
        Self {
            events: plan.events.iter().map(open_event).collect(),
            rings: Rings::new(plan.ring),
            cpus: plan.cpus.clone(),
            sideband: OpenEvent::from(plan.sideband.clone()),
            ..Self::default()
        }
    }

    /// Makes the state of a sideband event alone, with the smallest rings.
    pub(crate) fn of_sideband(sideband: PlannedEvent, cpus: Vec<CpuId>) -> Self {
        let rings = Rings::new(page_size() as u64);
        Self { cpus, sideband: OpenEvent::from(sideband), rings, ..Self::default() }
    }

    /// Takes all rings, divided among this number of readers.
    pub(crate) fn take_rings(&mut self, readers: usize) -> Vec<Vec<RingSource>> {
        let mut per_reader: Vec<Vec<RingSource>> = (0..readers).map(|_| Vec::new()).collect();
        for (index, pair) in self.rings.take().into_iter().enumerate() {
            if let Some(of_reader) = per_reader.get_mut(index % readers.max(1)) {
                of_reader.extend([Some(pair.sideband), pair.samples].into_iter().flatten());
            }
        }
        if let (Some(clocks), Some(first)) = (&mut self.task_clocks, per_reader.first_mut()) {
            first.extend(clocks.take_rings());
        }
        per_reader
    }

    /// Opens all events on every CPU; the sampling events only for `cgroup`, where one is given.
    pub(super) fn open_cpus(
        &mut self,
        cgroup: Option<BorrowedFd<'_>>,
        options: &Options,
    ) -> Result<(), Error> {
        let kept = cgroup.map(|cgroup| cgroup.try_clone_to_owned()).transpose();
        let cgroup_fd = kept.map_err(|errno| refusal(errno, self.first(), options))?;
        let mut whole = WholeCpus { cgroup: cgroup_fd, watches: Vec::new() };
        let cpus = self.cpus.clone();
        let sideband = cpus.iter().map(|&cpu| (RingOwner::Cpu(cpu), Subject::Cpu(cpu)));
        self.open_sidebands(sideband, options)?;
        cpus.iter().zip(&self.sideband.instances).for_each(|(&cpu, event)| whole.add(cpu, event));
        self.whole_cpus = Some(whole);
        let subject = |cpu| cgroup.map_or(Subject::Cpu(cpu), |cgroup| Subject::Cgroup(cgroup, cpu));
        let sampled = self.sampled_cpus(options);
        self.open_all_samplers(sampled.iter().map(|&cpu| (RingOwner::Cpu(cpu), subject(cpu))), options)?;
        Ok(())
    }

    pub(super) fn sampled_cpus(&self, options: &Options) -> Vec<CpuId> {
        let chosen = |cpu: &CpuId| options.cpus.as_ref().is_none_or(|chosen| chosen.contains(cpu));
        self.cpus.iter().copied().filter(chosen).collect()
    }

    /// Opens all events on a thread, on each CPU: the sideband event first, so that no FORK is missed. Returns false where the thread
    /// has ended.
    pub(super) fn open_thread(&mut self, tid: Tid, options: &Options) -> Result<bool, Error> {
        let places = places_of(tid, &self.sampled_cpus(options), options);
        Ok(self.open_sideband_of(tid, options)? && self.open_all_samplers(places, options)?)
    }

    /// Opens the sideband event on a thread, on each CPU. Returns false where the thread has ended.
    pub(super) fn open_sideband_of(&mut self, tid: Tid, options: &Options) -> Result<bool, Error> {
        self.open_sidebands(places_of(tid, &self.cpus, options), options)
    }

    /// Opens the sideband event on subjects, each with the owner of its ring. Returns false where a thread has ended.
    fn open_sidebands<'s>(
        &mut self,
        places: impl IntoIterator<Item = (RingOwner, Subject<'s>)>,
        options: &Options,
    ) -> Result<bool, Error> {
        for (owner, subject) in places {
            match self.open_sideband(subject) {
                Ok(event) => self.add_sideband(owner, event)?,
                Err(errno) if errno.raw_os_error() == Some(ESRCH) => return Ok(false),
                Err(errno) => return Err(refusal(errno, self.first(), options)),
            }
        }
        Ok(true)
    }

    /// Opens the sampling events on subjects, each with the owner of its ring. Returns false where a thread has ended.
    fn open_all_samplers<'s>(
        &mut self,
        places: impl IntoIterator<Item = (RingOwner, Subject<'s>)>,
        options: &Options,
    ) -> Result<bool, Error> {
        let mut samplers = Vec::new();
        for (owner, subject) in places {
            match self.open_samplers(subject, owner.cpu()) {
                Ok(events) => samplers.push((owner, events)),
                Err(unopened) if unopened.has_ended() => return Ok(false),
                Err(Unopened { filter: Some(filter), .. }) => return Err(Error::Filter { filter }),
                Err(Unopened { event, errno, .. }) => {
                    let event = self.events.get(event).unwrap_or(&self.sideband);
                    return Err(refusal(errno, event, options));
                }
            }
        }
        self.add_samplers(samplers)?;
        Ok(true)
    }

    pub(super) fn open_sideband(&self, subject: Subject<'_>) -> io::Result<Arc<PerfEvent>> {
        open_event(&self.sideband.attr, subject, None).map(Arc::new)
    }

    /// Opens the sampling events that count on `cpu`, or on any CPU.
    pub(super) fn open_samplers(
        &self,
        subject: Subject<'_>,
        cpu: Option<CpuId>,
    ) -> Result<Instances, Unopened> {
        let subject_of = |_, event: &PlannedEvent| {
            let elsewhere = |cpu| !counts_on(&event.selected, cpu);
            let is_watched = |cpu: CpuId| self.everywhere_cpus.contains(&cpu);
            let is_closed = event.selected.is_switch_records() && self.are_switch_records_closed();
            match cpu {
                _ if is_closed || cpu.is_some_and(elsewhere) => None,
                Some(cpu) if event.selected.everywhere => (!is_watched(cpu)).then_some(Subject::Cpu(cpu)),
                None if event.selected.everywhere => None,
                _ => Some(subject),
            }
        };
        open_events(self.events.iter().map(Deref::deref), subject_of, Attr::clone)
    }

    pub(super) fn add_sideband(&mut self, owner: RingOwner, event: Arc<PerfEvent>) -> Result<(), Error> {
        let is_inherited = self.sideband.attr.flags.contains(AttrFlags::INHERIT);
        self.rings.add_sideband(owner, &event, is_inherited)?;
        self.sideband.instances.push(event);
        Ok(())
    }

    /// Lets the sampling events of one thread, or of all CPUs, write into rings.
    pub(super) fn add_samplers(&mut self, mut samplers: Vec<(RingOwner, Instances)>) -> Result<(), Error> {
        samplers.retain(|(_, events)| events.iter().any(Option::is_some));
        let events = &self.events;
        // The events that have records of switches alone are closed while their rings are read.
        let may_close =
            |index: usize| events.get(index).is_some_and(|event| event.selected.is_switch_records());
        self.rings.add_samplers(&samplers, may_close)?;
        for (owner, instances) in samplers {
            self.everywhere_cpus.extend(owner.cpu());
            for (event, instance) in self.events.iter_mut().zip(instances) {
                event.instances.extend(instance);
            }
        }
        Ok(())
    }

    /// Empties the sideband rings into `early`, and returns the offset at which the new records begin.
    pub(super) fn drain_sideband(&mut self) -> usize {
        let start = self.early.len();
        self.rings.drain_sideband(&mut self.early);
        start
    }

    /// The event that explains why others were refused.
    fn first(&self) -> &OpenEvent {
        self.events.first().unwrap_or(&self.sideband)
    }

    /// Returns the ids of the events that are open on whole CPUs, whatever the target is.
    pub(crate) fn everywhere_ids(&self) -> Vec<u64> {
        let events = self.events.iter().filter(|event| event.selected.everywhere);
        events.flat_map(|event| &event.instances).filter_map(|instance| instance.id().ok()).collect()
    }

    /// Returns the ids of each event, and those of its parts separately.
    pub(crate) fn ids_apart(&self) -> Result<Vec<Vec<u64>>, Error> {
        let events = self.events.iter().chain([&self.sideband]);
        let ids = events.map(|event| event.instances.iter().map(|instance| instance.id()).collect());
        ids.collect::<io::Result<_>>()
            .map_err(|errno| Error::System { what: "cannot read an event's id", errno })
    }

    /// Returns the sampling events of the recording with their indices, without parts of others.
    pub(crate) fn samplers(&self) -> impl Iterator<Item = (usize, &OpenEvent)> {
        self.events.iter().enumerate().filter(|(_, event)| event.is_whole())
    }

    /// Returns the instances of the event at `index`, and of its parts.
    pub(crate) fn instances_of(&self, index: usize) -> impl Iterator<Item = &Arc<PerfEvent>> {
        let of_event =
            move |(place, event): &(usize, &OpenEvent)| *place == index || event.part_of == Some(index);
        self.events.iter().enumerate().filter(of_event).flat_map(|(_, event)| &event.instances)
    }

    /// Returns true if the event at `index` leads its group, or is in none.
    pub(super) fn leads(&self, index: usize) -> bool {
        self.events.get(index).is_some_and(|event| event.leader.is_none_or(|leader| leader == index))
    }
}
