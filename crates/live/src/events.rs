//! The events of a live recording.

use std::collections::HashMap;

use analysis::events::weight_of;
use decoder::{Attr, Endian, RecordLayout};
use model::EventIndex;
use profile::Weight;
use recorder::{RecordedEvent, Recording};
use rustc_hash::FxBuildHasher;
use tracker::Events;

use crate::snapshot::EventStatus;

/// The events of a recording, in its order.
#[derive(Default)]
pub(crate) struct LiveEvents {
    events: Vec<LiveEvent>,
    /// Events by the ids that the kernel gave their instances.
    positions: HashMap<u64, EventIndex, FxBuildHasher>,
    /// The time of threads, where it is counted instead of samples.
    time: Option<EventStatus>,
}

struct LiveEvent {
    attr: Attr,
    layout: RecordLayout,
    status: EventStatus,
    weight: Weight,
    is_sideband: bool,
}

impl LiveEvents {
    /// The events of a recording that is about to begin.
    pub(crate) fn from_recording(recording: &Recording) -> Self {
        let mut live = Self::default();
        for (index, event) in (0..).zip(&recording.events) {
            live.positions.extend(event.ids.iter().map(|&id| (id, EventIndex(index))));
            live.events.push(LiveEvent::from_recorded(event));
        }
        live
    }

    /// Counts time instead of samples, under the name `time`. The samples of `sampler` say which functions ran in that time.
    pub(crate) fn count_time(&mut self, time: &str, sampler: EventIndex) {
        let frequency = self.events.get(sampler.0 as usize).and_then(|event| event.status.frequency);
        self.time =
            Some(EventStatus { name: time.to_owned(), frequency, unit: time.to_owned(), is_time: true });
    }

    /// Iterates over the statuses of all that is counted: of the sampling events, or of time.
    pub(crate) fn statuses(&self) -> impl Iterator<Item = &EventStatus> {
        let samplers = self.events.iter().filter(|event| !event.is_sideband && self.time.is_none());
        self.time.iter().chain(samplers.map(|event| &event.status))
    }

    /// Returns how the samples of an event are weighed: by their number, or by the sum of their periods.
    pub(crate) fn weight(&self, event: u32) -> Option<Weight> {
        if self.time.is_some() {
            return Some(Weight::Period);
        }
        self.events.get(event as usize).map(|event| event.weight)
    }

    /// Returns the sideband event, which takes no samples.
    pub(crate) fn sideband(&self) -> Option<EventIndex> {
        let position = self.events.iter().position(|event| event.is_sideband)?;
        u32::try_from(position).ok().map(EventIndex)
    }
}

impl LiveEvent {
    fn from_recorded(event: &RecordedEvent) -> Self {
        let attr = event.attr.clone();
        let weight = weight_of(&attr);
        Self {
            layout: RecordLayout::new(&attr, Endian::NATIVE),
            status: EventStatus {
                name: event.name.clone(),
                frequency: attr.is_frequency().then_some(attr.sample_period),
                unit: if weight == Weight::Samples { "samples".to_owned() } else { event.name.clone() },
                is_time: false,
            },
            weight,
            is_sideband: event.sideband,
            attr,
        }
    }
}

impl Events for LiveEvents {
    fn attr(&self, event: EventIndex) -> Option<&Attr> {
        self.events.get(event.0 as usize).map(|event| &event.attr)
    }

    fn layout(&self, event: Option<EventIndex>) -> Option<&RecordLayout> {
        self.events.get(event.map_or(0, |event| event.0 as usize)).map(|event| &event.layout)
    }

    fn event_of_id(&self, id: u64) -> Option<EventIndex> {
        self.positions.get(&id).copied()
    }

    fn is_sideband(&self, event: EventIndex) -> bool {
        self.events.get(event.0 as usize).is_some_and(|event| event.is_sideband)
    }

    fn have_sideband_rings(&self) -> bool {
        true
    }
}
