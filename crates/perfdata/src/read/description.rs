//! What a recording says of itself.

use std::sync::Arc;

use decoder::{Endian, RecordLayout};
use model::EventIndex;

use crate::events::{Event, EventTable};
use crate::features::Features;

/// Events and features of a recording, as they are known at one moment of its reading. Cheap to clone: a clone stays
/// as it is while more is read.
#[derive(Clone)]
pub struct Description {
    pub(super) endian: Endian,
    pub(super) events: Arc<EventTable>,
    pub(super) features: Arc<Features>,
}

impl Description {
    /// The byte order of the recording.
    pub fn endian(&self) -> Endian {
        self.endian
    }

    /// Returns the events of the recording.
    pub fn events(&self) -> &[Event] {
        &self.events.events
    }

    /// The event at a position.
    pub fn event(&self, index: EventIndex) -> Option<&Event> {
        self.events().get(index.0 as usize)
    }

    /// The layout of a record of `event`: that of the first event, if it has none.
    pub fn layout_of(&self, event: Option<EventIndex>) -> Option<&RecordLayout> {
        self.event(event.unwrap_or(EventIndex(0))).map(|event| &event.layout)
    }

    /// The event of an instance's id.
    pub fn event_of_id(&self, id: u64) -> Option<EventIndex> {
        self.events.by_id(id)
    }

    /// The feature sections.
    pub fn features(&self) -> &Features {
        &self.features
    }
}

impl std::fmt::Debug for Description {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Description")
            .field("endian", &self.endian)
            .field("events", &self.events.events.len())
            .finish_non_exhaustive()
    }
}
