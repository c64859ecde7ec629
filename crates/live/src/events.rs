//! The events of a live recording.

use std::collections::HashMap;

use analysis::events::weight_of;
use decoder::{Attr, RecordLayout};
use model::EventIndex;
use profile::Weight;
use recorder::{RecordedEvent, Recording};
use rustc_hash::FxBuildHasher;
use tracker::Events;

use crate::snapshot::{EventStatus, SAMPLES};

/// The events of a recording, in its order.
#[derive(Default)]
pub(crate) struct LiveEvents {
    events: Vec<(RecordedEvent, RecordLayout)>,
    /// Events by the ids that the kernel gave their instances.
    positions: HashMap<u64, EventIndex, FxBuildHasher>,
    /// All that is counted: the sampling events, or time.
    pub(crate) statuses: Vec<EventStatus>,
}

impl LiveEvents {
    /// The events of a recording that is about to begin.
    pub(crate) fn from_recording(recording: &Recording) -> Self {
        let mut live = Self::default();
        for (index, event) in recording.events.iter().enumerate() {
            let number = EventIndex(index as u32);
            live.positions.extend(event.ids.iter().map(|&id| (id, number)));
            live.events.extend(recording.layout(index).map(|layout| (event.clone(), layout)));
        }
        let samplers = recording.events.iter().filter(|event| !event.sideband);
        live.statuses = samplers.map(status).collect();
        live
    }

    /// Counts time instead of samples, under the name `time`. The samples of `sampler` say which functions ran in that time.
    pub(crate) fn count_time(&mut self, time: &str, sampler: EventIndex) {
        let frequency = self.attr(sampler).and_then(frequency);
        let (name, unit) = (time.to_owned(), time.to_owned());
        self.statuses = vec![EventStatus { name, frequency, unit, is_time: true }];
    }

    /// Returns the sideband event, which takes no samples.
    pub(crate) fn sideband(&self) -> Option<EventIndex> {
        let position = self.events.iter().position(|(event, _)| event.sideband)?;
        u32::try_from(position).ok().map(EventIndex)
    }

    fn event(&self, event: EventIndex) -> Option<&(RecordedEvent, RecordLayout)> {
        self.events.get(event.0 as usize)
    }
}

fn status(event: &RecordedEvent) -> EventStatus {
    let counts_samples = weight_of(&event.attr) == Weight::Samples;
    EventStatus {
        name: event.name.clone(),
        frequency: frequency(&event.attr),
        unit: if counts_samples { SAMPLES.to_owned() } else { event.name.clone() },
        is_time: false,
    }
}

fn frequency(attr: &Attr) -> Option<u64> {
    attr.is_frequency().then_some(attr.sample_period)
}

impl Events for LiveEvents {
    fn attr(&self, event: EventIndex) -> Option<&Attr> {
        self.event(event).map(|(event, _)| &event.attr)
    }

    fn layout(&self, event: Option<EventIndex>) -> Option<&RecordLayout> {
        self.event(event.unwrap_or(EventIndex(0))).map(|(_, layout)| layout)
    }

    fn event_of_id(&self, id: u64) -> Option<EventIndex> {
        self.positions.get(&id).copied()
    }

    fn is_sideband(&self, event: EventIndex) -> bool {
        self.event(event).is_some_and(|(event, _)| event.sideband)
    }

    fn have_sideband_rings(&self) -> bool {
        true
    }
}
