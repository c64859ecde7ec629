//! Open events while they run: enables, disables and reads them, and describes them to a consumer.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use decoder::SampleFormat;
use decoder::attr::SIZE_VER7;
use host::machine::KernelObjects;
use host::sys::perf_event::PerfEvent;

use super::opened::{OpenEvent, Opened};
use super::task_clock::TaskClocks;
use crate::consumer::{RecordedEvent, Recording};
use crate::counting::{self, Reading, Uncounted};
use crate::error::Error;
use crate::mapped_files::MappedFiles;
use crate::processes::ProcessResources;
use crate::unwind::Arrival;

impl Opened {
    /// Starts sampling of the events that the command's exec does not enable: at once, or one instance after the other within `staggered`.
    pub(crate) fn enable(&mut self, staggered: Option<Duration>) -> Result<(), Error> {
        self.enabled = true;
        let clocks = self.task_clocks.as_ref();
        let instances =
            self.events.iter().filter(|event| event.is_whole()).map(|event| event.instances.len()).max();
        let pause =
            staggered.map(|within| within / u32::try_from(instances.unwrap_or(1).max(1)).unwrap_or(u32::MAX));
        let enable = |instance: &PerfEvent| {
            pause.into_iter().for_each(std::thread::sleep);
            instance.enable()
        };
        clocks
            .map_or(Ok(()), TaskClocks::enable)
            .and_then(|()| self.each_leader(enable))
            .map_err(|errno| Error::System { what: "cannot enable the events", errno })
    }

    /// Stops sampling of all events.
    pub(crate) fn disable(&self) {
        // An event whose thread has ended is stopped already.
        let _ = self.each_leader(PerfEvent::disable);
        for instance in
            self.events.iter().filter(|event| event.variant_of.is_some()).flat_map(|event| &event.instances)
        {
            let _ = instance.disable();
        }
        self.task_clocks.iter().for_each(TaskClocks::disable);
    }

    /// Pauses sampling; sideband records are still written.
    pub(crate) fn pause(&mut self) {
        (self.paused, self.was_paused) = (true, true);
        self.disable();
    }

    /// Resumes sampling after [`Opened::pause`]. Errors are ignored: they are of events whose threads have ended.
    pub(crate) fn resume(&mut self) {
        self.paused = false;
        for (index, event) in self.events.iter().enumerate() {
            if self.is_chosen(index) && !(self.switches_held && event.watches()) {
                event.instances.iter().for_each(|instance| drop(instance.enable()));
            }
        }
        // Without a clock only the times of tasks are missing.
        let _ = self.task_clocks.as_ref().map(TaskClocks::enable);
    }

    /// Returns the ids of the events that are open on whole CPUs, whatever the target is.
    pub(crate) fn everywhere_ids(&self) -> Vec<u64> {
        let events = self.events.iter().filter(|event| event.is_everywhere());
        events.flat_map(|event| &event.instances).filter_map(|instance| instance.id().ok()).collect()
    }

    /// Returns the count of the event at `index` on all CPUs and threads, in its own unit; `None` where an instance cannot be read.
    pub(crate) fn counted(&self, index: usize) -> Option<u64> {
        self.instances_of(index).map(|instance| read_count(instance)).sum()
    }

    /// Returns the sampling events that were enabled and never counted, with the cause (`perf_event_open(2)`, "BUGS": that an event
    /// opens does not mean that it can run).
    pub(crate) fn never_ran(&self) -> Vec<(String, Uncounted)> {
        let cause = |(index, event): (usize, &OpenEvent)| {
            let (mut sum, mut read, mut open) = (Reading::default(), false, false);
            for instance in self.instances_of(index) {
                open = true;
                // A pinned event without a counter gives no words. Where an instance cannot be read, no cause is known.
                match counting::read_alone(instance, event.attr.read_format) {
                    Ok(Some(reading)) => (sum, read) = (sum.plus(&reading), true),
                    Ok(None) => {}
                    Err(()) => return None,
                }
            }
            let in_group = event.leader.is_some();
            let why = match (read, sum.running_ns) {
                (false, _) if open => Uncounted::Pinned,
                (true, 0) if sum.enabled_ns > 0 => {
                    let watchdog = host::machine::nmi_watchdog_counts();
                    Uncounted::without_counter(&event.attr, in_group, sum.enabled_ns, watchdog)
                }
                _ => return None,
            };
            Some((event.name.clone(), why))
        };
        self.samplers().filter_map(cause).collect()
    }

    /// Returns true if the event at `index` is enabled by itself now: not as a member of a group, nor as a variant of another copy
    /// size.
    pub(super) fn runs(&self, index: usize) -> bool {
        let is_held = self.switches_held && self.events.get(index).is_some_and(OpenEvent::watches);
        self.enabled && !self.paused && !is_held && self.is_chosen(index)
    }

    /// Returns true if the event at `index` leads its group or is in none, and has the current copy size.
    pub(super) fn is_chosen(&self, index: usize) -> bool {
        let leads = |event: &OpenEvent| event.leader.is_none_or(|leader| leader == index);
        let is_chosen = |event: &OpenEvent| {
            let size = event.attr.sample_stack_user;
            size == 0 || size == *self.copy_size.of(Arrival::of(&event.attr))
        };
        self.events.get(index).is_some_and(|event| leads(event) && is_chosen(event))
    }

    fn each_leader(&self, act: impl Fn(&PerfEvent) -> io::Result<()>) -> io::Result<()> {
        for (index, event) in self.events.iter().enumerate() {
            if event.variant_of.is_none() && event.leader.is_none_or(|leader| leader == index) {
                event.instances.iter().try_for_each(|instance| act(instance))?;
            }
        }
        Ok(())
    }

    /// Returns true if the event at `index` leads its group, or is in none.
    pub(super) fn leads(&self, index: usize) -> bool {
        self.events.get(index).is_some_and(|event| event.leader.is_none_or(|leader| leader == index))
    }

    /// Returns the ids of each event, and those of its variants separately: two variants may sample one thread on one CPU one after
    /// the other without being duplicates.
    pub(crate) fn ids_apart(&self) -> Result<Vec<Vec<u64>>, Error> {
        let events = self.events.iter().chain([&self.sideband]);
        let ids = events.map(|event| event.instances.iter().map(|instance| instance.id()).collect());
        ids.collect::<io::Result<_>>()
            .map_err(|errno| Error::System { what: "cannot read an event's id", errno })
    }

    /// Returns the sampling events of the recording with their indices, without variants and parts of others.
    pub(crate) fn samplers(&self) -> impl Iterator<Item = (usize, &OpenEvent)> {
        self.events.iter().enumerate().filter(|(_, event)| event.is_whole())
    }

    /// Returns the instances of the event at `index`, of its parts, and of the variants of these.
    pub(crate) fn instances_of(&self, index: usize) -> impl Iterator<Item = &Arc<PerfEvent>> {
        let part = move |place: usize| {
            place == index || self.events.get(place).is_some_and(|event| event.part_of == Some(index))
        };
        let of_event =
            move |(place, event): &(usize, &OpenEvent)| part(*place) || event.variant_of.is_some_and(part);
        self.events.iter().enumerate().filter(of_event).flat_map(|(_, event)| &event.instances)
    }

    /// Describes the events to a consumer: the sampling events, the sideband event, and the clock of tasks if it reports.
    pub(crate) fn recording(&self) -> Result<Recording, Error> {
        let describe = |event: &OpenEvent, index: Option<usize>| {
            let sideband = index.is_none();
            // Samples of all variants are samples of one event.
            let ids: io::Result<Vec<u64>> = match index {
                Some(index) => self.instances_of(index).map(|instance| instance.id()).collect(),
                None => event.instances.iter().map(|instance| instance.id()).collect(),
            };
            let ids = ids.map_err(|errno| Error::System { what: "cannot read an event's id", errno })?;
            let (name, mut attr) = (event.name.clone(), event.attr.clone());
            // The index among the described events.
            let leader =
                event.leader.and_then(|leader| self.samplers().position(|(place, _)| place == leader));
            let selected = event.selected.as_ref();
            if selected.is_some_and(|selected| selected.probe.is_some()) {
                attr.config1 = 0; // It is an address in the memory of the recorder.
            }
            if attr.sample_format.contains(SampleFormat::STACK_USER) {
                // The limit of the call chains that the recorder makes of stack copies; the kernel's own may have a lower one.
                attr.sample_max_stack = selected.and_then(|selected| selected.max_stack).unwrap_or(0);
            }
            // perf of Linux before 6.3 refuses a file with longer attrs. The fields beyond do not concern samples.
            attr.size = attr.size.min(SIZE_VER7);
            let tracepoint = selected.and_then(|selected| selected.tracepoint.clone());
            Ok(RecordedEvent { name, attr, ids, sideband, leader, tracepoint })
        };
        let mut events: Vec<RecordedEvent> = self
            .samplers()
            .map(|(index, event)| describe(event, Some(index)))
            .collect::<Result<_, Error>>()?;
        events.push(describe(&self.sideband, None)?);
        // Behind the sideband event, since it has neither samples nor lost counts.
        events.extend(self.task_clocks.as_ref().map(|clocks| RecordedEvent {
            name: "task-clock".to_owned(),
            attr: clocks.attr.clone(),
            ids: clocks.ids(),
            sideband: true,
            leader: None,
            tracepoint: None,
        }));
        let copy_sizes = self.copy_sizes.clone();
        let kernel = Arc::new(KernelObjects::read());
        Ok(Recording {
            events,
            cpus: self.cpus.clone(),
            ring_size: self.ring_size,
            copy_sizes,
            kernel,
            files: MappedFiles::default(),
            resources: ProcessResources::default(),
        })
    }
}

/// Reads the count of an event that is not read with a group; `None` where it cannot be read, or is pinned and has no counter.
pub(super) fn read_count(event: &PerfEvent) -> Option<u64> {
    // In each format of a single event, the count is the first of at most five words.
    let mut words = [0; 5];
    let read = event.read(&mut words).ok()?;
    (read > 0).then_some(words[0])
}

impl OpenEvent {
    /// Returns true if it is an event of the recording, and not a variant or part of another one.
    fn is_whole(&self) -> bool {
        self.variant_of.is_none() && self.part_of.is_none()
    }

    /// Returns the index of the event among `before` that is the same on another kind of core, with samples of the same layout.
    pub(super) fn whole_among(&self, before: &[Self]) -> Option<usize> {
        let is_core = |event: &Self| event.selected.as_ref().is_some_and(|selected| selected.core);
        let layout = |event: &Self| {
            let attr = &event.attr;
            let registers = (attr.sample_regs_user, attr.sample_regs_intr);
            (attr.sample_format, attr.read_format, attr.branch_sample_format, registers, attr.is_frequency())
        };
        let is_same = |event: &Self| {
            event.is_whole() && is_core(event) && event.name == self.name && layout(event) == layout(self)
        };
        before.iter().position(is_same).filter(|_| is_core(self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Event, Pmu, select};
    use crate::options::{Options, Target};
    use crate::unwind::PerArrival;
    use model::CpuId;

    fn open(event: Event, before: &[OpenEvent]) -> OpenEvent {
        let attr = crate::attr::sampler(&event, &Options::new(Target::System), 0, 4096);
        let (new, leader) = (OpenEvent::new(event.name.clone(), attr), event.leader);
        let mut open = OpenEvent { leader, selected: Some(event), ..new };
        open.part_of = open.whole_among(before);
        open
    }

    #[test]
    fn an_event_of_two_kinds_of_cores_is_one_in_the_recording() {
        let core = |name: &str, kind, cpu| Pmu {
            name: name.to_owned(),
            kind,
            cpus: Some(vec![CpuId(cpu)]),
            core: true,
            ..Pmu::default()
        };
        let machine = vec![core("cpu_core", 4, 0), core("cpu_atom", 10, 1)];
        let mut events: Vec<OpenEvent> = Vec::new();
        for event in select("cycles:u,cs,{instructions,branches},cycles:k", &machine).unwrap() {
            let event = open(event, &events);
            events.push(event);
        }
        let sideband = open(select("dummy", &machine).unwrap().remove(0), &[]);
        let opened = Opened::of_events(events, sideband, PerArrival::default());
        let recording = opened.recording().unwrap();
        let shown: Vec<(&str, Option<usize>)> =
            recording.events.iter().map(|event| (event.name.as_str(), event.leader)).collect();
        let expected = [
            ("cycles:u", None),
            ("cs", None),
            ("instructions", Some(2)),
            ("branches", Some(2)),
            ("cycles:k", None),
            ("dummy", None),
        ];
        assert_eq!(shown, expected);
    }
}
