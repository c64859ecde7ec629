//! Holds back what tells of switches while there are too many of them, and lets it go on.
//!
//! An event that is disabled costs next to nothing, but for records of switches: as long as one event is open that has them, the
//! kernel visits its perf hooks at each switch. So an event that has nothing else is closed.

use std::sync::Arc;

use host::sys::perf_event::{PerfEvent, Subject};

use super::fallbacks::{Kernel, Opener};
use super::opened::{OpenEvent, Opened, redirect};

impl Opened {
    /// Disables the events that sample switches, and closes the event that has records of them alone; or enables the former again.
    /// Errors are ignored: they are of events whose threads have ended.
    pub(crate) fn hold_switches(&mut self, hold: bool) {
        self.switches_held = hold;
        if hold {
            self.close_switch_records();
        }
        if self.paused {
            return;
        }
        let act = if hold { PerfEvent::disable } else { PerfEvent::enable };
        for (index, event) in self.events.iter().enumerate() {
            if event.watches() && (hold || self.is_chosen(index)) {
                event.instances.iter().for_each(|instance| drop(act(instance)));
            }
        }
    }

    /// Returns true if records of switches have an event of their own, and it is closed.
    pub(crate) fn are_switch_records_closed(&self) -> bool {
        self.closed_records_id.is_some()
    }

    /// Opens the event again that [`Self::hold_switches`] has closed, which is to enable it then. Where that is refused, it stays closed.
    pub(crate) fn reopen_switch_records(&mut self) {
        let (Some(known_id), Some(whole)) = (self.closed_records_id, &self.whole_cpus) else { return };
        let opened: Vec<Arc<PerfEvent>> =
            whole.subjects().filter_map(|subject| self.open_switch_records(subject)).map(Arc::new).collect();
        let Some(event) = self.events.iter_mut().find(|event| event.is_switch_records()) else { return };
        if opened.is_empty() {
            return;
        }
        self.closed_records_id = None;
        self.later_ids.extend(opened.iter().filter_map(|instance| Some((instance.id().ok()?, known_id))));
        event.instances = opened;
    }

    /// Returns the ids of events that were opened again since the last call, each with that of the event which it stands for.
    pub(crate) fn take_later_ids(&mut self) -> Vec<(u64, u64)> {
        std::mem::take(&mut self.later_ids)
    }

    /// Returns the ids and the attr of the event whose samples tell which thread leaves a CPU, if there is one.
    pub(crate) fn switch_samples(&self) -> Option<(Vec<u64>, &OpenEvent)> {
        let (index, event) =
            self.samplers().find(|(_, event)| event.samples_switches() && !event.is_everywhere())?;
        Some((self.instances_of(index).filter_map(|instance| instance.id().ok()).collect(), event))
    }

    fn close_switch_records(&mut self) {
        let Some(event) = self.events.iter_mut().find(|event| event.is_switch_records()) else { return };
        // Its records are to have the same id when it is opened again.
        if let Some(id) = event.instances.first().and_then(|instance| instance.id().ok()) {
            self.closed_records_id.get_or_insert(id);
        }
        event.instances.clear();
    }

    /// Opens the event of records on a CPU, to write into its ring. There is none on a CPU that is not sampled.
    fn open_switch_records(&self, cpu: Subject<'_>) -> Option<PerfEvent> {
        let event = self.events.iter().find(|event| event.is_switch_records())?;
        let opened = Kernel.open(&event.attr, cpu, None).ok()?;
        // The kernel redirects an event only to one of the same CPU.
        redirect(&opened, self.events.iter().flat_map(|event| &event.instances)).ok()?;
        Some(opened)
    }
}
