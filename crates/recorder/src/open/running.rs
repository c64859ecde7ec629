//! Open events while they run: enables and disables them, as a whole or in part.
//!
//! What tells of switches is held back while there are too many of them. An event that is disabled costs next to nothing, but for records of switches: as long as one event is open that has
//! them, the kernel visits its perf hooks at each switch. So an event that has nothing else is closed.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use host::sys::perf_event::{PerfEvent, Subject};

use super::open_event;
use super::opened::{OpenEvent, Opened};
use super::rings::redirect;
use super::task_clock::TaskClocks;
use crate::error::Error;

impl Opened {
    /// Starts sampling of the events that the command's exec does not enable: at once, or one instance after the other within `staggered`.
    pub(crate) fn enable(&mut self, staggered: Option<Duration>) -> Result<(), Error> {
        self.state.enabled = true;
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
        self.task_clocks.iter().for_each(TaskClocks::disable);
    }

    /// Pauses sampling; sideband records are still written.
    pub(crate) fn pause(&mut self) {
        (self.state.paused, self.state.was_paused) = (true, true);
        self.disable();
    }

    /// Resumes sampling after [`Opened::pause`].
    pub(crate) fn resume(&mut self) {
        self.state.paused = false;
        for (index, event) in self.events.iter().enumerate() {
            if self.leads(index) && !(self.state.switches_held && event.selected.watches) {
                event.try_each(PerfEvent::enable);
            }
        }
        // Without a clock only the times of tasks are missing.
        let _ = self.task_clocks.as_ref().map(TaskClocks::enable);
    }

    /// Returns true if the event at `index` is enabled by itself now: not as a member of a group.
    pub(super) fn runs(&self, index: usize) -> bool {
        let is_held =
            self.state.switches_held && self.events.get(index).is_some_and(|event| event.selected.watches);
        self.state.enabled && !self.state.paused && !is_held && self.leads(index)
    }

    fn each_leader(&self, act: impl Fn(&PerfEvent) -> io::Result<()>) -> io::Result<()> {
        for (index, event) in self.events.iter().enumerate() {
            if self.leads(index) {
                event.instances.iter().try_for_each(|instance| act(instance))?;
            }
        }
        Ok(())
    }

    /// Disables the events that sample switches, and closes the event that has records of them alone; or enables the former again.
    pub(crate) fn hold_switches(&mut self, hold: bool) {
        self.state.switches_held = hold;
        if hold {
            self.close_switch_records();
        }
        if self.state.paused {
            return;
        }
        let act = if hold { PerfEvent::disable } else { PerfEvent::enable };
        for (index, event) in self.events.iter().enumerate() {
            if event.selected.watches && (hold || self.leads(index)) {
                event.try_each(act);
            }
        }
    }

    /// Returns true if records of switches have an event of their own, and it is closed.
    pub(crate) fn are_switch_records_closed(&self) -> bool {
        self.state.are_switch_records_closed
    }

    /// Opens the event again that [`Self::hold_switches`] has closed, which is to enable it then. Where that is refused, it stays closed.
    pub(crate) fn reopen_switch_records(&mut self) {
        let (Some(known_id), Some(whole)) = (self.state.switch_records_id, &self.whole_cpus) else { return };
        if !self.state.are_switch_records_closed {
            return;
        }
        let opened: Vec<Arc<PerfEvent>> =
            whole.subjects().filter_map(|subject| self.open_switch_records(subject)).map(Arc::new).collect();
        let Some(event) = self.events.iter_mut().find(|event| event.selected.is_switch_records()) else {
            return;
        };
        if opened.is_empty() {
            return;
        }
        self.state.are_switch_records_closed = false;
        self.state
            .later_ids
            .extend(opened.iter().filter_map(|instance| Some((instance.id().ok()?, known_id))));
        event.instances = opened;
    }

    /// Returns the ids of events that were opened again since the last call, each with that of the event which it stands for.
    pub(crate) fn take_later_ids(&mut self) -> Vec<(u64, u64)> {
        std::mem::take(&mut self.state.later_ids)
    }

    /// Returns the ids and the attr of the event whose samples tell which thread leaves a CPU, if there is one.
    pub(crate) fn switch_samples(&self) -> Option<(Vec<u64>, &OpenEvent)> {
        let (index, event) =
            self.samplers().find(|(_, event)| event.samples_switches() && !event.selected.everywhere)?;
        Some((self.instances_of(index).filter_map(|instance| instance.id().ok()).collect(), event))
    }

    fn close_switch_records(&mut self) {
        let Some(event) = self.events.iter_mut().find(|event| event.selected.is_switch_records()) else {
            return;
        };
        // Its records are to have the same id each time that it is opened again.
        if let Some(id) = event.instances.first().and_then(|instance| instance.id().ok()) {
            self.state.switch_records_id.get_or_insert(id);
            self.state.are_switch_records_closed = true;
        }
        event.instances.clear();
    }

    /// Opens the event of records on a CPU, to write into its ring. There is none on a CPU that is not sampled.
    fn open_switch_records(&self, cpu: Subject<'_>) -> Option<PerfEvent> {
        let event = self.events.iter().find(|event| event.selected.is_switch_records())?;
        let opened = open_event(&event.attr, cpu, None).ok()?;
        // The kernel redirects an event only to one of the same CPU.
        redirect(&opened, self.events.iter().flat_map(|event| &event.instances)).ok()?;
        Some(opened)
    }
}
