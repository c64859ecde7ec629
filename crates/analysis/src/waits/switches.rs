//! What a recording has of switches: which events tell of them, and where in their raw data.

use decoder::attr::{SW_CONTEXT_SWITCHES, SW_PAGE_FAULTS_MAJ, TYPE_SOFTWARE};
use decoder::{Attr, AttrFlags, Endian};
use model::EventIndex;
use perfdata::features::Features;
use perfdata::sections::{BLOCKED_STACKS, FAULT_STACKS, SwitchSampling, WatchedTime};
use perfdata::tracing_data::{TracingData, fields};
use perfdata::{Event, sections};

use crate::samples::events::is_named;

const CONTEXT_SWITCHES: (u32, u64) = (TYPE_SOFTWARE, SW_CONTEXT_SWITCHES);
const MAJOR_FAULTS: (u32, u64) = (TYPE_SOFTWARE, SW_PAGE_FAULTS_MAJ);

/// The role of an event: which thread its samples tell of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Role {
    /// Nothing of time.
    None,
    /// The thread that runs.
    Time,
    /// The thread that leaves its CPU; of a tracepoint also its state, and the thread that comes next.
    Switch { fields: Option<SwitchFields> },
    /// With which stack a thread is blocked, read from outside, and what it waits for.
    Outside,
    /// The thread that has waited for a page, and goes on.
    PageFault,
    /// The thread that is woken. Where it is recorded in the context of the waker, `flags` say what the kernel did there
    /// (`common_flags`).
    Waking { woken: Field, flags: Option<Field> },
}

/// The fields of `sched:sched_switch` that are used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SwitchFields {
    /// `prev_state`
    pub(crate) state: Field,
    /// `next_pid`
    pub(crate) next: Field,
}

/// A number in the raw data of a tracepoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Field {
    offset: usize,
    size: usize,
    endian: Endian,
}

impl Field {
    /// The number; `None` where the data end before it.
    pub(crate) fn read(self, raw: &[u8]) -> Option<u64> {
        let bytes = raw.get(self.offset..)?;
        match self.size {
            1 => bytes.first().copied().map(u64::from),
            4 => Some(self.endian.u32(*bytes.first_chunk()?).into()),
            8 => Some(self.endian.u64(*bytes.first_chunk()?)),
            _ => None,
        }
    }

    /// By the text of a tracepoint's `format`.
    fn named(name: &str, format: &str, endian: Endian) -> Option<Self> {
        let field = fields(format).find(|field| field.name == name)?;
        Some(Self { offset: field.offset, size: field.size, endian })
    }
}

/// The sources of switches that a recording has.
#[derive(Clone, Debug)]
pub(crate) struct Switches {
    roles: Vec<Role>,
    /// True if records tell who is switched in and out.
    pub(crate) has_records: bool,
    /// The time for which switches were recorded; `None` if the recording does not have it.
    pub(crate) watched: Option<WatchedTime>,
    /// The spans in which switches were held back, because there were too many.
    pub(crate) sampling: SwitchSampling,
    /// The event whose samples say what runs.
    pub(crate) time: EventIndex,
}

impl Switches {
    /// Finds the sources of switches of a recording; `None` where it has nothing of switches, or no event that
    /// samples what runs. `event` names that,
    /// else it is the first that samples anything else.
    pub(crate) fn from_recording(
        events: &[Event],
        features: &Features,
        endian: Endian,
        event: Option<&str>,
    ) -> Option<Self> {
        let section = features.section(sections::id::WATCHED_TIME);
        let watched = section.and_then(|bytes| WatchedTime::from_section(bytes, endian));
        let section = features.section(sections::id::SWITCH_SAMPLING);
        let sampling = section.and_then(|bytes| SwitchSampling::from_section(bytes, endian));
        let tracing = features.tracing_data.as_deref().map(|section| TracingData::parse(section).0);
        let format = |attr: &Attr| {
            let data = tracing.as_ref()?;
            let tracepoint = data.tracepoints.iter().find(|known| known.id() == Some(attr.config))?;
            Some((String::from_utf8_lossy(tracepoint.format).into_owned(), data.endian))
        };
        let switches = Self::among(events, endian, event, format)?;
        Some(Self { watched, sampling: sampling.unwrap_or_default(), ..switches })
    }

    /// Finds the sources of switches among the events of a recording, as [`Self::from_recording`]. `format` is asked for the text of a
    /// tracepoint's format, and the byte order of its data.
    pub(crate) fn among(
        events: &[Event],
        endian: Endian,
        event: Option<&str>,
        format: impl Fn(&Attr) -> Option<(String, Endian)>,
    ) -> Option<Self> {
        let has_records = events.iter().any(|event| event.attr.flags.contains(AttrFlags::CONTEXT_SWITCH));
        let mut roles: Vec<Role> = events.iter().map(|event| role(event, endian, &format)).collect();
        let is_traced = |role: &Role| matches!(role, Role::Switch { fields: Some(_) });
        let has_switches = has_records || roles.iter().any(is_traced);
        let is_time = |event: &&(usize, &Event)| {
            roles.get(event.0) == Some(&Role::None)
                && !event.1.attr.is_dummy()
                && event.1.attr.sample_period > 0
        };
        let indexed: Vec<(usize, &Event)> = events.iter().enumerate().collect();
        let time = match event {
            Some(name) => indexed.iter().filter(is_time).find(|(_, event)| is_named(event, name)),
            None => {
                let mut clocks =
                    indexed.iter().filter(is_time).filter(|(_, event)| event.attr.is_cpu_clock());
                clocks.next().or_else(|| indexed.iter().find(is_time))
            }
        };
        let &(time, _) = time.filter(|_| has_switches)?;
        if let Some(role) = roles.get_mut(time) {
            *role = Role::Time;
        }
        let (watched, sampling) = (None, SwitchSampling::default());
        Some(Self { roles, has_records, watched, sampling, time: EventIndex(time as u32) })
    }

    /// Returns the role of an event.
    pub(crate) fn role(&self, event: EventIndex) -> Role {
        self.roles.get(event.0 as usize).copied().unwrap_or(Role::None)
    }

    /// Returns true if stacks were read from outside.
    pub(crate) fn has_outside(&self) -> bool {
        self.roles.contains(&Role::Outside)
    }

    /// Returns true if switches have no samples, and so no stacks.
    pub(crate) fn are_records_alone(&self) -> bool {
        !self.roles.iter().any(|role| matches!(role, Role::Switch { .. }))
    }

    /// Returns true if somebody tells when threads are woken.
    pub(crate) fn has_wakings(&self) -> bool {
        self.roles.iter().any(|role| matches!(role, Role::Waking { .. }))
    }

    /// Returns true if somebody tells who wakes threads.
    pub(crate) fn has_wakers(&self) -> bool {
        self.roles.iter().any(|role| matches!(role, Role::Waking { flags: Some(_), .. }))
    }

    /// Returns true if threads without any sample are none of those that were meant.
    pub(crate) fn is_only_of_sampled(&self) -> bool {
        self.watched.is_some_and(|watched| watched.only_sampled)
    }
}

/// Returns the role of an event of switches; [`Role::None`] for others. Without its format, the fields of a tracepoint are taken to lie
/// where they usually do.
fn role(event: &Event, endian: Endian, format: impl Fn(&Attr) -> Option<(String, Endian)>) -> Role {
    let field = |name: &str, usual: (usize, usize)| {
        let known = format(&event.attr).and_then(|(format, endian)| Field::named(name, &format, endian));
        known.unwrap_or(Field { offset: usual.0, size: usual.1, endian })
    };
    let counted = (event.attr.kind, event.attr.config);
    match event.name.as_bytes() {
        _ if counted == CONTEXT_SWITCHES => Role::Switch { fields: None },
        name if counted == MAJOR_FAULTS && name.starts_with(FAULT_STACKS.as_bytes()) => Role::PageFault,
        name if event.attr.is_dummy() && name.starts_with(BLOCKED_STACKS.as_bytes()) => Role::Outside,
        b"sched:sched_switch" => Role::Switch {
            fields: Some(SwitchFields {
                state: field("prev_state", (32, 8)),
                next: field("next_pid", (56, 4)),
            }),
        },
        b"sched:sched_waking" => {
            Role::Waking { woken: field("pid", (24, 4)), flags: Some(field("common_flags", (2, 1))) }
        }
        // On the CPU of the woken thread, mostly.
        b"sched:sched_wakeup" => Role::Waking { woken: field("pid", (24, 4)), flags: None },
        _ => Role::None,
    }
}

/// Returns true if an event was recorded to tell where threads wait, and not for its own sake.
pub(crate) fn describes_waits(event: &Event, features: &Features) -> bool {
    let is_watched = features.section(sections::id::WATCHED_TIME).is_some();
    is_watched && role(event, Endian::NATIVE, |_| None) != Role::None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read_by_their_format() {
        let format = "name: sched_switch\nID: 1\nformat:\n\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
                      \tfield:long prev_state;\toffset:8;\tsize:8;\tsigned:1;\n\tfield:pid_t pid;\toffset:16;\tsize:4;\tsigned:1;\n";
        let field = |name| Field::named(name, format, Endian::Little);
        let mut raw = [0_u8; 20];
        (raw[8], raw[16]) = (2, 77);
        assert_eq!(field("prev_state").unwrap().read(&raw), Some(2));
        assert_eq!(field("pid").unwrap().read(&raw), Some(77));
        assert_eq!(field("pid").unwrap().read(&raw[..18]), None);
        assert_eq!(field("next_pid"), None);
    }

    fn event(name: &str, kind: u32, config: u64) -> Event {
        let attr = Attr { kind, config, sample_period: 1, ..Attr::default() };
        let layout = decoder::RecordLayout::new(&attr, Endian::Little);
        Event { attr, ids: Vec::new(), name: model::Name::from(name), layout }
    }

    #[test]
    fn what_is_estimated_depends_on_what_was_permitted() {
        let clock = || event("cpu-clock", TYPE_SOFTWARE, 0);
        let outside = || {
            let mut outside = event("blocked-stacks", TYPE_SOFTWARE, decoder::attr::SW_DUMMY);
            outside.attr.flags |= AttrFlags::CONTEXT_SWITCH;
            outside
        };
        let told = |more: Vec<Event>| {
            let events: Vec<Event> = [clock(), outside()].into_iter().chain(more).collect();
            let switches = Switches::among(&events, Endian::Little, None, |_| None).unwrap();
            switches.estimates(true).into_iter().map(|estimate| estimate.brief).collect::<Vec<_>>()
        };
        let software = || event("context-switches", TYPE_SOFTWARE, SW_CONTEXT_SWITCHES);
        let traced = || vec![event("sched:sched_switch", 2, 1), event("sched:sched_waking", 2, 2)];
        assert_eq!(told(vec![]), ["stacks of waits read from outside", "wakings not recorded"]);
        assert_eq!(told(vec![software()]), ["wakings not recorded"]);
        assert_eq!(told(traced()), [""; 0]);
    }

    #[test]
    fn an_event_on_the_woken_threads_cpu_tells_of_no_waker() {
        let with = |waking: &str| {
            let clock = event("cpu-clock", TYPE_SOFTWARE, 0);
            let traced =
                [("sched:sched_switch", 1), (waking, 2)].map(|(name, config)| event(name, 2, config));
            let [switch, waking] = traced;
            Switches::among(&[clock, switch, waking], Endian::Little, None, |_| None).unwrap()
        };
        let (waking, wakeup) = (with("sched:sched_waking"), with("sched:sched_wakeup"));
        assert!(waking.has_wakings() && waking.has_wakers());
        assert!(wakeup.has_wakings() && !wakeup.has_wakers());
    }
}
