//! The events of a recording, and which of them a record belongs to.

mod name;

use decoder::{Attr, AttrFlags, Endian, RawRecord, RecordLayout, kind};
use model::{EventIndex, Name};
use std::collections::HashMap;

use crate::tracing_data::Tracepoint;

pub use name::name_of;

/// An event of a recording.
#[derive(Clone, Debug)]
pub struct Event {
    /// The attr with which it was opened.
    pub attr: Attr,
    /// The kernel's ids of its instances.
    pub ids: Vec<u64>,
    /// The name that the recording gives it, else one made from its attr.
    pub name: Name,
    /// The layout of its records.
    pub layout: RecordLayout,
}

impl Event {
    fn is_nameless_tracepoint(&self) -> bool {
        self.name.as_bytes() == name::UNKNOWN_TRACEPOINT.as_bytes()
    }
}

/// More are not counted in 16 bits.
pub(crate) const MOST_EVENTS: usize = 0xfffe;

/// All events, by position and by id.
#[derive(Clone, Default)]
pub(crate) struct EventTable {
    pub(crate) events: Vec<Event>,
    // With a keyed hash: a hostile file chooses its ids.
    by_id: HashMap<u64, u16>,
    // One event for each place that ids lie at: mostly one.
    places: Vec<u16>,
    // Not all have the same sample format.
    mixed: bool,
}

impl EventTable {
    /// Adds an event; of an id that is there twice, the first event keeps it.
    pub(crate) fn push(&mut self, attr: Attr, ids: Vec<u64>, endian: Endian) {
        let Some(index) =
            u16::try_from(self.events.len()).ok().filter(|&index| usize::from(index) < MOST_EVENTS)
        else {
            return;
        };
        for &id in &ids {
            self.by_id.entry(id).or_insert(index);
        }
        let layout = RecordLayout::new(&attr, endian);
        let name = name::name_of(&attr);
        let known = |&other: &u16| {
            self.events.get(usize::from(other)).is_some_and(|e| e.layout.id_places() == layout.id_places())
        };
        if !self.places.iter().any(known) {
            self.places.push(index);
        }
        self.mixed |= self.events.first().is_some_and(|first| first.attr.sample_format != attr.sample_format);
        let has_build_ids = attr.flags.contains(AttrFlags::BUILD_ID);
        self.events.push(Event { attr, ids, name, layout });
        // Mappings that a tool has synthesized belong to the first event, but have the form that it asked the kernel for.
        if let Some(first) = self.events.first_mut()
            && has_build_ids
            && !first.attr.flags.contains(AttrFlags::MMAP2)
        {
            first.layout = first.layout.clone().with_build_ids();
        }
    }

    pub(crate) fn rename(&mut self, id: u64, name: &[u8]) {
        if let Some(&index) = self.by_id.get(&id) {
            self.rename_at(index.into(), name);
        }
    }

    pub(crate) fn rename_at(&mut self, index: usize, name: &[u8]) {
        if let Some(event) = self.events.get_mut(index).filter(|_| !name.is_empty()) {
            event.name = Name::new(name);
        }
    }

    /// Returns true if [`Self::name_tracepoints`] has something to do.
    pub(crate) fn has_nameless_tracepoints(&self) -> bool {
        self.events.iter().any(Event::is_nameless_tracepoint)
    }

    /// Gives tracepoints that have no name yet those of `descriptions`, `system:name`, as perf does
    /// (`evlist__prepare_tracepoint_events()`).
    pub(crate) fn name_tracepoints(&mut self, descriptions: &[Tracepoint<'_>]) {
        let name = |of: &Tracepoint<'_>| Some(Name::new(&[of.system, b":", of.name()?].concat()));
        let names: HashMap<u64, Name> =
            descriptions.iter().filter_map(|of| Some((of.id()?, name(of)?))).collect();
        if names.is_empty() {
            return;
        }
        for event in self.events.iter_mut().filter(|event| event.is_nameless_tracepoint()) {
            if let Some(name) = names.get(&event.attr.config) {
                event.name = name.clone();
            }
        }
    }

    /// The event of the instance `id`.
    pub(crate) fn by_id(&self, id: u64) -> Option<EventIndex> {
        self.by_id.get(&id).map(|&index| EventIndex(index.into()))
    }

    /// The event that a record of the kernel's types belongs to.
    ///
    /// As perf does (`evlist__event2evsel()`): a single event has all records; records without ids, and those with
    /// id 0, which a tool synthesized, belong to the first.
    ///
    /// `latest` is the id and the event of the record before: most belong to the same one.
    #[inline]
    pub(crate) fn of(&self, raw: &RawRecord<'_>, latest: &mut (u64, u16)) -> Option<u16> {
        let (first, others) = self.events.split_first()?;
        if others.is_empty() {
            return Some(0);
        }
        let has_trailers = first.attr.flags.contains(AttrFlags::SAMPLE_ID_ALL);
        if raw.kind != kind::SAMPLE && !has_trailers {
            return Some(0);
        }
        if self.places.len() > 1 {
            return self.of_any_place(raw);
        }
        let Some(id) = first.layout.id_of(raw) else {
            return (raw.kind != kind::SAMPLE || !self.mixed).then_some(0);
        };
        if id == 0 {
            return Some(0);
        }
        if latest.0 == id {
            return Some(latest.1);
        }
        match self.by_id.get(&id) {
            Some(&index) => {
                *latest = (id, index);
                Some(index)
            }
            // Without trailers, ids of inherited events are not announced either.
            None => (!has_trailers).then_some(0),
        }
    }

    /// The event whose own layout finds one of its own ids in the record.
    #[cold]
    fn of_any_place(&self, raw: &RawRecord<'_>) -> Option<u16> {
        let event = |index: u16| self.events.get(usize::from(index));
        let found = self.places.iter().find_map(|&place| {
            let layout = &event(place)?.layout;
            let &index = self.by_id.get(&layout.id_of(raw)?)?;
            (event(index)?.layout.id_places() == layout.id_places()).then_some(index)
        });
        found.or_else(|| (raw.kind != kind::SAMPLE).then_some(0))
    }
}
