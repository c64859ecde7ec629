//! Opens the negotiated events on the target, and gives them rings.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use decoder::{Attr, AttrFlags};
use host::sys::perf_event::{PerfEvent, Subject};
use host::sysfs;
use model::{CpuId, Pid, Tid};
use perfdata::sections::FAULT_STACKS;

use super::advice::{FilterRefused, Unopened};
use super::descendants::with_descendants;
use super::descriptors::Descriptors;
use super::fallbacks::{Kernel, Opener};
use super::hotplug::WholeCpus;
use super::negotiation::negotiate_all;
use super::rings::{
    RingOwner, RingPair, SIDEBAND_SIZE, WHOLE_CPU_SIDEBAND_BYTES, map_samples, map_sideband, wanted_size,
};
use super::selected_events::counts_on;
use super::targets::{processes, threads_of};
use super::task_clock::{self, TaskClocks};
use crate::attr;
use crate::error::{ENODEV, ESRCH, Error};
use crate::event::Event;
use crate::notice::Notice;
use crate::options::{Options, Target};
use crate::ring::{ExcludedProcesses, RingSource, drain_whole};
use crate::unwind::{CopySizes, PerArrival};

/// Open events with their rings, not enabled yet.
pub(crate) struct Opened {
    pub(crate) cpus: Vec<CpuId>,
    pub(crate) events: Vec<OpenEvent>,
    pub(crate) sideband: OpenEvent,
    pub(crate) rings: Vec<RingPair>,
    pub(crate) ring_size: u64,
    /// The errno with which larger rings were refused.
    ring_refused: Option<i32>,
    /// Sideband records that came while events were opened.
    pub(crate) early: Vec<u8>,
    /// True if an event may be open twice on a thread: see [`super::DuplicateFilter`].
    pub(crate) doubtful: bool,
    /// The number of running children of the targets that are no targets themselves.
    pub(crate) unrecorded_children: usize,
    /// Targets that had ended before they were opened.
    pub(super) gone: Vec<Pid>,
    /// The processes of the target, where whole CPUs are sampled in their place.
    pub(crate) members: Option<Vec<Pid>>,
    /// The processes whose samples are not copied out of the rings.
    pub(crate) excluded: Option<Arc<ExcludedProcesses>>,
    /// The sideband events of whole CPUs, where these are recorded.
    pub(crate) whole_cpus: Option<WholeCpus>,
    /// The clocks of tasks, where their times are wanted.
    pub(crate) task_clocks: Option<TaskClocks>,
    /// True if the events that sample switches are disabled ([`Opened::hold_switches`]).
    pub(super) switches_held: bool,
    /// The id that records of switches have, while their event is closed ([`Opened::hold_switches`]).
    pub(super) closed_records_id: Option<u64>,
    /// Ids that [`Opened::take_later_ids`] has not returned yet.
    pub(super) later_ids: Vec<(u64, u64)>,
    /// CPUs on which the events are open that are open on all CPUs whatever the target is.
    everywhere_cpus: Vec<CpuId>,
    /// True if sampling has been started, or the command's exec starts it.
    pub(crate) enabled: bool,
    /// True if sampling is paused ([`Opened::pause`]).
    pub(super) paused: bool,
    /// True if sampling has been paused.
    pub(crate) was_paused: bool,
    /// Bytes of the rings for samples that are asked for.
    wanted_ring: u64,
    /// The sizes that stack copies can have.
    pub(super) copy_sizes: PerArrival<CopySizes>,
    /// The size that stack copies have now, in bytes.
    pub(super) copy_size: PerArrival<u32>,
}

/// An event, and its instances on CPUs and threads.
pub(crate) struct OpenEvent {
    pub(crate) name: String,
    pub(crate) attr: Attr,
    pub(crate) leader: Option<usize>,
    pub(crate) selected: Option<Event>,
    pub(crate) instances: Vec<Arc<PerfEvent>>,
    /// For the same event with stack copies of another size: the index of the first of these variants. One of them is enabled.
    pub(crate) variant_of: Option<usize>,
    /// For the same event on another kind of core: the index of the first of these parts, which stands for all in the recording.
    pub(crate) part_of: Option<usize>,
}

impl OpenEvent {
    /// Makes an event that is in no group and not open yet.
    pub(super) fn new(name: String, attr: Attr) -> Self {
        let instances = Vec::new();
        Self { name, attr, leader: None, selected: None, instances, variant_of: None, part_of: None }
    }

    /// Returns true if it tells where threads wait.
    pub(crate) fn watches(&self) -> bool {
        self.selected.as_ref().is_some_and(|selected| selected.watches)
    }

    /// Returns true if it samples switches, and not what threads have waited for.
    pub(crate) fn samples_switches(&self) -> bool {
        self.watches() && !self.name.starts_with(FAULT_STACKS) && !self.is_switch_records()
    }

    /// Returns true if it has records of switches, and no samples.
    pub(crate) fn is_switch_records(&self) -> bool {
        self.selected.as_ref().is_some_and(Event::is_switch_records)
    }

    /// Returns true if its samples tell where threads wait.
    pub(super) fn is_of_waits(&self) -> bool {
        self.selected.as_ref().is_some_and(Event::is_of_waits)
    }

    /// Returns true if the recorder makes its samples by reading blocked threads.
    pub(crate) fn is_read_outside(&self) -> bool {
        self.selected.as_ref().is_some_and(|selected| selected.read_outside)
    }

    /// Returns true if it is open on whole CPUs, whatever the target is.
    pub(crate) fn is_everywhere(&self) -> bool {
        self.selected.as_ref().is_some_and(|selected| selected.everywhere)
    }
}

/// Opens the events of `options` on their target, which for a command is the waiting child.
pub(super) fn open_target(
    options: &Options,
    child: Option<Pid>,
    notices: &mut dyn FnMut(Notice),
) -> Result<Opened, Error> {
    let mut cpus = online_cpus(options)?;
    let rings = if options.per_thread { threads_of(options)?.len() } else { cpus.len() };
    let wanted_ring = wanted_size(options.ring_size, rings);
    let (mut ring, mut refused) = (wanted_ring, None);
    loop {
        let mut pending_notices = Vec::new();
        let opened = open_with(options, child, &cpus, ring, &mut |notice| pending_notices.push(notice));
        if let Ok(opened) = &opened
            && (1..ring).contains(&opened.ring_size)
        {
            // The watermark of events and the size of stack copies depend on the size of the rings: opens all again for these.
            ring = opened.ring_size;
            refused = opened.ring_refused.or(refused);
            continue;
        }
        if let Err(Error::Open { errno, .. }) = &opened
            && errno.raw_os_error() == Some(ENODEV)
        {
            // A CPU may have gone offline since the list was read.
            let online = online_cpus(options)?;
            if online != cpus {
                cpus = online;
                continue;
            }
        }
        pending_notices.into_iter().for_each(&mut *notices);
        let opened = opened?;
        opened.report_rings(wanted_ring, refused, notices);
        return Ok(opened);
    }
}

/// Returns the CPUs that are online, the chosen ones among them.
fn online_cpus(options: &Options) -> Result<Vec<CpuId>, Error> {
    let cpus = sysfs::online_cpus()
        .map_err(|errno| Error::System { what: "cannot read which CPUs are online", errno })?;
    match options.cpus.iter().flatten().find(|cpu| !cpus.contains(cpu)) {
        Some(offline) => Err(Error::CpuOffline { cpu: offline.0 }),
        None => Ok(cpus),
    }
}

/// Opens the events as [`open_target`], with rings of at most `wanted_ring` bytes.
fn open_with(
    options: &Options,
    child: Option<Pid>,
    cpus: &[CpuId],
    wanted_ring: u64,
    notices: &mut dyn FnMut(Notice),
) -> Result<Opened, Error> {
    let sampled = options.cpus.as_deref().unwrap_or(cpus);
    let events = super::selected_events::selected_events(options, sampled)?;
    let mut negotiate = |threads: &[Tid], siblings: usize, watched: usize| {
        let descriptors = Descriptors {
            threads: threads.len().max(1),
            siblings,
            cpus: if options.per_thread { 1 } else { cpus.len() },
            events: events.len(),
            watched,
        };
        descriptors.check()?;
        let negotiated = negotiate_all(options, &events, cpus, wanted_ring, threads, descriptors, notices)?;
        let mut opened = Opened { cpus: cpus.to_vec(), wanted_ring, ..negotiated };
        // Before all other events: see `TaskClocks::open`.
        opened.time_tasks(threads, options, notices);
        Ok::<_, Error>(opened)
    };
    let mut opened = match (&options.target, child) {
        (Target::System, _) => {
            let mut opened = negotiate(&[], 0, 0)?;
            opened.open_cpus(None, options)?;
            opened
        }
        (Target::Cgroup(path), _) => {
            let cgroup = host::cgroup::open(path)
                .map_err(|errno| Error::Cgroup { path: path.display().to_string(), errno })?;
            let mut opened = negotiate(&[], 0, 0)?;
            opened.open_cpus(Some(cgroup.as_fd()), options)?;
            opened
        }
        (Target::Command, Some(pid)) => {
            let mut opened = negotiate(&[Tid(pid.0)], 0, 1)?;
            if !opened.open_thread(Tid(pid.0), options)? {
                return Err(Error::NoSuchProcess { pid: pid.0 });
            }
            opened
        }
        (Target::Threads(tids), _) => {
            let siblings = super::attach::siblings(tids, options)?;
            let mut opened = negotiate(tids, siblings.len(), tids.len())?;
            opened.attach_threads(tids, &siblings, options)?;
            opened
        }
        _ => {
            let pids = processes(options)?;
            let gone = super::attach::ended_processes(&pids)?;
            let mut opened = negotiate(&super::attach::all_threads(&pids), 0, pids.len())?;
            opened.attach(options)?;
            opened.gone = gone;
            if let Target::Processes(pids) = &options.target
                && !options.with_children
            {
                opened.unrecorded_children = with_descendants(pids).len().saturating_sub(pids.len());
                let children = opened.unrecorded_children;
                (children > 0).then(|| notices(Notice::ChildrenNotRecorded { children }));
            }
            opened
        }
    };
    for pid in std::mem::take(&mut opened.gone) {
        notices(Notice::ProcessGone { pid: pid.0 });
    }
    Ok(opened)
}

impl Opened {
    /// Makes the state of events that are not open yet.
    pub(super) fn of_events(
        events: Vec<OpenEvent>,
        sideband: OpenEvent,
        copy_sizes: PerArrival<CopySizes>,
    ) -> Self {
        Self {
            cpus: Vec::new(),
            events,
            sideband,
            rings: Vec::new(),
            ring_size: 0,
            ring_refused: None,
            early: Vec::new(),
            doubtful: false,
            unrecorded_children: 0,
            gone: Vec::new(),
            members: None,
            excluded: None,
            whole_cpus: None,
            task_clocks: None,
            switches_held: false,
            closed_records_id: None,
            later_ids: Vec::new(),
            everywhere_cpus: Vec::new(),
            enabled: false,
            paused: false,
            was_paused: false,
            wanted_ring: 0,
            copy_size: copy_sizes.map(CopySizes::initial),
            copy_sizes,
        }
    }

    /// Takes all rings, divided among this number of readers.
    pub(crate) fn take_rings(&mut self, readers: usize) -> Vec<Vec<RingSource>> {
        let mut per_reader: Vec<Vec<RingSource>> = (0..readers).map(|_| Vec::new()).collect();
        for (index, pair) in std::mem::take(&mut self.rings).into_iter().enumerate() {
            if let Some(of_reader) = per_reader.get_mut(index % readers.max(1)) {
                of_reader.extend([Some(pair.sideband), pair.samples].into_iter().flatten());
            }
        }
        if let (Some(clocks), Some(first)) = (&mut self.task_clocks, per_reader.first_mut()) {
            first.extend(clocks.take_rings());
        }
        per_reader
    }

    /// Makes the state of a sideband event alone, with the smallest rings.
    pub(crate) fn of_sideband(attr: Attr, cpus: Vec<CpuId>) -> Self {
        let sideband = OpenEvent::new("dummy".to_owned(), attr);
        let page = host::sys::system::page_size() as u64;
        Self { cpus, wanted_ring: page, ..Self::of_events(Vec::new(), sideband, PerArrival::default()) }
    }

    /// Opens the clocks of `threads`, where times of tasks are wanted.
    fn time_tasks(&mut self, threads: &[Tid], options: &Options, notices: &mut dyn FnMut(Notice)) {
        let samplers: Vec<Attr> = self.events.iter().map(|event| event.attr.clone()).collect();
        if !task_clock::is_wanted(options, &samplers) {
            return;
        }
        let attr = attr::task_clock(&samplers, options);
        notices(Notice::Opened { name: "task-clock".to_owned(), attr: Box::new(attr.clone()) });
        let is_command = options.target == Target::Command;
        self.task_clocks = TaskClocks::open(attr, threads, is_command);
    }

    /// Opens all events on every CPU; the sampling events only for `cgroup`, where one is given.
    fn open_cpus(&mut self, cgroup: Option<BorrowedFd<'_>>, options: &Options) -> Result<(), Error> {
        let cpus = self.cpus.clone();
        let kept = cgroup.map(|cgroup| cgroup.try_clone_to_owned()).transpose();
        let mut whole = WholeCpus::new(kept.map_err(|error| self.refuse(error, options))?);
        for &cpu in &cpus {
            let event = self.open_sideband(Subject::Cpu(cpu)).map_err(|error| self.refuse(error, options))?;
            whole.add(cpu, &event);
            self.add_sideband(RingOwner::Cpu(cpu), event)?;
        }
        self.whole_cpus = Some(whole);
        let mut samplers = Vec::new();
        for cpu in self.sampled_cpus(options) {
            let subject = cgroup.map_or(Subject::Cpu(cpu), |cgroup| Subject::Cgroup(cgroup, cpu));
            let events = self
                .open_samplers(subject, Some(cpu))
                .map_err(|unopened| self.refuse_sampler(unopened, options))?;
            samplers.push((RingOwner::Cpu(cpu), events));
        }
        self.add_samplers(samplers)
    }

    pub(super) fn sampled_cpus(&self, options: &Options) -> Vec<CpuId> {
        let chosen = |cpu: &CpuId| options.cpus.as_ref().is_none_or(|chosen| chosen.contains(cpu));
        self.cpus.iter().copied().filter(chosen).collect()
    }

    /// Returns the owners of the rings of a thread's events: each of `cpus`, or the thread.
    fn ring_owners(tid: Tid, cpus: &[CpuId], options: &Options) -> Vec<RingOwner> {
        if options.per_thread {
            vec![RingOwner::Thread(tid)]
        } else {
            cpus.iter().copied().map(RingOwner::Cpu).collect()
        }
    }

    /// Opens all events on a thread, on each CPU: the sideband event first, so that no FORK is missed. Returns false where the thread
    /// has ended.
    pub(super) fn open_thread(&mut self, tid: Tid, options: &Options) -> Result<bool, Error> {
        Ok(self.sideband_of(tid, options)? && self.samplers_of(tid, options)?)
    }

    /// Opens the sideband event on a thread, on each CPU. Returns false where the thread has ended.
    pub(super) fn sideband_of(&mut self, tid: Tid, options: &Options) -> Result<bool, Error> {
        for place in Self::ring_owners(tid, &self.cpus, options) {
            match self.open_sideband(Subject::Thread(tid, place.cpu())) {
                Ok(event) => self.add_sideband(place, event)?,
                Err(error) if error.raw_os_error() == Some(ESRCH) => return Ok(false),
                Err(error) => return Err(self.refuse(error, options)),
            }
        }
        Ok(true)
    }

    /// Opens the sampling events on a thread, on each CPU. Returns false where the thread has ended.
    pub(super) fn samplers_of(&mut self, tid: Tid, options: &Options) -> Result<bool, Error> {
        let mut samplers = Vec::new();
        for place in Self::ring_owners(tid, &self.sampled_cpus(options), options) {
            match self.open_samplers(Subject::Thread(tid, place.cpu()), place.cpu()) {
                Ok(events) => samplers.push((place, events)),
                Err(Unopened { errno, .. }) if errno.raw_os_error() == Some(ESRCH) => return Ok(false),
                Err(unopened) => return Err(self.refuse_sampler(unopened, options)),
            }
        }
        self.add_samplers(samplers)?;
        Ok(true)
    }

    pub(super) fn open_sideband(&self, subject: Subject<'_>) -> io::Result<Arc<PerfEvent>> {
        Kernel.open(&self.sideband.attr, subject, None).map(Arc::new)
    }

    /// Opens the sampling events that count on `cpu`, or on any CPU. Returns one element per event, `None` for the others.
    pub(super) fn open_samplers(
        &self,
        subject: Subject<'_>,
        cpu: Option<CpuId>,
    ) -> Result<Vec<Option<Arc<PerfEvent>>>, Unopened> {
        let mut opened: Vec<Option<Arc<PerfEvent>>> = Vec::new();
        for (index, event) in self.events.iter().enumerate() {
            let unopened = |errno| Unopened { event: index, errno };
            let elsewhere = |cpu| event.selected.as_ref().is_some_and(|selected| !counts_on(selected, cpu));
            let is_watched = |cpu: CpuId| self.everywhere_cpus.contains(&cpu);
            let is_closed = event.is_switch_records() && self.are_switch_records_closed();
            if is_closed || cpu.is_some_and(elsewhere) || event.is_everywhere() && cpu.is_none_or(is_watched)
            {
                opened.push(None);
                continue;
            }
            let leader = event.leader.filter(|&leader| leader != index);
            let leader = leader.and_then(|leader| opened.get(leader)?.as_ref());
            let subject = cpu.filter(|_| event.is_everywhere()).map_or(subject, Subject::Cpu);
            let instance = Kernel.open(&event.attr, subject, leader.map(Arc::as_ref)).map_err(unopened)?;
            if let Some(filter) = event.selected.as_ref().and_then(|selected| selected.filter.as_deref()) {
                let refused = || unopened(io::Error::other(FilterRefused(filter.to_owned())));
                let text = CString::new(filter).map_err(|_| refused())?;
                instance.set_filter(&text).map_err(|_| refused())?;
            }
            opened.push(Some(Arc::new(instance)));
        }
        Ok(opened)
    }

    pub(super) fn add_sideband(&mut self, place: RingOwner, event: Arc<PerfEvent>) -> Result<(), Error> {
        match self.rings.iter_mut().find(|rings| rings.place == place) {
            Some(rings) => {
                redirect(&event, &rings.sideband.events)?;
                rings.sideband.events.push(Arc::clone(&event));
            }
            None => {
                let of_all = !self.sideband.attr.flags.contains(AttrFlags::INHERIT) && place.cpu().is_some();
                let size = if of_all { WHOLE_CPU_SIDEBAND_BYTES } else { SIDEBAND_SIZE };
                let size = size.min(self.wanted_ring);
                let sideband = map_sideband(Arc::clone(&event), size)?;
                self.rings.push(RingPair { place, sideband, samples: None });
            }
        }
        self.sideband.instances.push(event);
        Ok(())
    }

    /// Maps rings for the sampling events of one thread, or of all CPUs, unless these have rings, and lets the events write into them.
    pub(super) fn add_samplers(
        &mut self,
        mut samplers: Vec<(RingOwner, Vec<Option<Arc<PerfEvent>>>)>,
    ) -> Result<(), Error> {
        samplers.retain(|(_, events)| events.iter().any(Option::is_some));
        let own = |rings: &RingPair| samplers.iter().any(|(place, _)| *place == rings.place);
        if self.rings.iter().filter(|rings| own(rings)).all(|rings| rings.samples.is_none()) {
            let owners: Vec<Arc<PerfEvent>> =
                samplers.iter().filter_map(|(_, events)| events.iter().flatten().next().cloned()).collect();
            // All rings have the same size, where the limit allows it.
            let wanted = if self.ring_size == 0 { self.wanted_ring } else { self.ring_size };
            let fitted = map_samples(&owners, wanted)?;
            self.ring_size = fitted.size;
            self.ring_refused = self.ring_refused.or(fitted.refused);
            for ((place, _), ring) in samplers.iter().zip(fitted.mapped) {
                if let Some(rings) = self.rings.iter_mut().find(|rings| rings.place == *place) {
                    rings.samples = Some(ring);
                }
            }
        }
        for (place, events) in samplers {
            self.everywhere_cpus.extend(place.cpu());
            let rings = self.rings.iter_mut().find(|rings| rings.place == place);
            let ring = rings.and_then(|rings| rings.samples.as_mut());
            let Some(ring) = ring else { continue };
            for (event, instance) in self.events.iter_mut().zip(events) {
                let Some(instance) = instance else { continue };
                if !ring.events.iter().any(|owner| Arc::ptr_eq(owner, &instance)) {
                    redirect(&instance, &ring.events)?;
                    // Readers of a ring keep its events open. Those of records of switches are closed while it is read.
                    if !event.is_switch_records() {
                        ring.events.push(Arc::clone(&instance));
                    }
                }
                event.instances.push(instance);
            }
        }
        Ok(())
    }

    /// Empties the sideband rings into `early`, and returns the offset at which the new records begin.
    pub(super) fn drain_sideband(&mut self) -> usize {
        let start = self.early.len();
        for rings in &mut self.rings {
            drain_whole(&mut rings.sideband.mapping, &mut self.early);
        }
        start
    }

    fn report_rings(&self, wanted: u64, refused: Option<i32>, notices: &mut dyn FnMut(Notice)) {
        if self.ring_size < wanted {
            notices(Notice::RingsShrunk {
                wanted,
                given: self.ring_size,
                errno: self.ring_refused.or(refused),
            });
        }
        let (cpus, samples) = (self.rings.len(), self.ring_size);
        notices(Notice::Rings { cpus, samples, sideband: SIDEBAND_SIZE });
    }
}

/// Redirects the records of `event` into the ring that `events` share. Tries all of them, since the thread of the first may have
/// ended.
pub(super) fn redirect<'a>(
    event: &PerfEvent,
    events: impl IntoIterator<Item = &'a Arc<PerfEvent>>,
) -> Result<(), Error> {
    let mut result = Ok(());
    for owner in events {
        result = event.redirect_to(owner);
        if result.is_ok() {
            break;
        }
    }
    result
        .map_err(|errno| Error::System { what: "cannot send an event's records into its CPU's ring", errno })
}
