//! The fields of samples that are printed: `-F`, and perf's defaults for each kind of event.

use bitflags::bitflags;
use decoder::{SampleFormat, attr};
use thiserror::Error;

bitflags! {
    /// The set of fields of a sample that are printed.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
    pub struct Fields: u32 {
        /// The thread's name.
        const COMM = 1 << 0;
        /// The thread.
        const TID = 1 << 1;
        /// The process.
        const PID = 1 << 2;
        /// The time.
        const TIME = 1 << 3;
        /// The CPU.
        const CPU = 1 << 4;
        /// The event's name.
        const EVENT = 1 << 5;
        /// The raw data of a tracepoint, as its format says.
        const TRACE = 1 << 6;
        /// Addresses of the stack.
        const IP = 1 << 7;
        /// Functions of the stack.
        const SYM = 1 << 8;
        /// Objects of the stack.
        const DSO = 1 << 9;
        /// The data address.
        const ADDR = 1 << 10;
        /// Offsets in functions.
        const SYMOFF = 1 << 11;
        /// Source lines.
        const SRCLINE = 1 << 12;
        /// The number of events that the sample stands for.
        const PERIOD = 1 << 13;
        /// Branches as addresses.
        const BRSTACK = 1 << 14;
        /// Branches as functions.
        const BRSTACKSYM = 1 << 15;
        /// Branches as offsets in objects.
        const BRSTACKOFF = 1 << 16;
        /// Raw data of BPF programs.
        const BPF_OUTPUT = 1 << 17;
        /// The record header's flags, a letter each.
        const MISC = 1 << 18;
        /// The path of the cgroup.
        const CGROUP = 1 << 19;
    }
}

/// The part of a sample that each field needs, and its name. Fields that are not listed need none.
const REQUIRED_PARTS: &[(Fields, SampleFormat, &str)] = &[
    (Fields::IP, SampleFormat::IP, "IP"),
    (Fields::ADDR, SampleFormat::ADDR, "ADDR"),
    (Fields::PID, SampleFormat::TID, "TID"),
    (Fields::TID, SampleFormat::TID, "TID"),
    (Fields::TIME, SampleFormat::TIME, "TIME"),
    (Fields::CPU, SampleFormat::CPU, "CPU"),
    (Fields::CGROUP, SampleFormat::CGROUP, "CGROUP"),
];

/// The kinds of events with different default fields, by `attr.type`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EventKind {
    /// `PERF_TYPE_HARDWARE`
    Hardware,
    /// `PERF_TYPE_SOFTWARE`
    Software,
    /// `PERF_TYPE_TRACEPOINT`
    Tracepoint,
    /// `PERF_TYPE_HW_CACHE`
    HardwareCache,
    /// `PERF_TYPE_RAW`
    Raw,
    /// `PERF_TYPE_BREAKPOINT`
    Breakpoint,
    /// The type of a dynamic PMU.
    Other,
}

const KINDS: [EventKind; 7] = [
    EventKind::Hardware,
    EventKind::Software,
    EventKind::Tracepoint,
    EventKind::HardwareCache,
    EventKind::Raw,
    EventKind::Breakpoint,
    EventKind::Other,
];

impl EventKind {
    /// The kind that `attr.type` states.
    pub fn from_attr_type(kind: u32) -> Self {
        match kind {
            attr::TYPE_HARDWARE => Self::Hardware,
            attr::TYPE_SOFTWARE => Self::Software,
            attr::TYPE_TRACEPOINT => Self::Tracepoint,
            attr::TYPE_HW_CACHE => Self::HardwareCache,
            attr::TYPE_RAW => Self::Raw,
            attr::TYPE_BREAKPOINT => Self::Breakpoint,
            _ => Self::Other,
        }
    }

    fn defaults(self) -> Fields {
        let common = Fields::COMM | Fields::TID | Fields::CPU | Fields::TIME | Fields::EVENT;
        let stack = Fields::STACK | Fields::PERIOD;
        match self {
            Self::Tracepoint => common | Fields::TRACE,
            Self::Software => common | stack | Fields::BPF_OUTPUT,
            Self::Raw => common | stack | Fields::ADDR,
            _ => common | stack,
        }
    }

    /// Returns the fields that samples of this kind cannot have.
    fn impossible(self) -> Fields {
        match self {
            Self::Tracepoint => Fields::empty(),
            Self::Software => Fields::TRACE,
            _ => Fields::TRACE | Fields::BPF_OUTPUT,
        }
    }

    fn prefix(self) -> Option<&'static str> {
        match self {
            Self::Hardware => Some("hw"),
            Self::Software => Some("sw"),
            Self::Tracepoint => Some("trace"),
            Self::Raw => Some("raw"),
            _ => None,
        }
    }
}

impl Fields {
    /// The stack and its names.
    const STACK: Self = Self::IP.union(Self::SYM).union(Self::SYMOFF).union(Self::DSO);

    /// Returns the fields of a set with their names as they are typed.
    fn typed(self) -> impl Iterator<Item = (String, Self)> {
        self.iter_names().map(|(name, field)| (name.to_ascii_lowercase().replace('_', "-"), field))
    }

    fn named(name: &str) -> Result<Self, FieldError> {
        let found = Self::all().typed().find(|(known, _)| known == name);
        found.map(|(_, field)| field).ok_or_else(|| FieldError::Unknown {
            name: name.to_owned(),
            known: Self::all().typed().map(|(known, _)| known).collect::<Vec<_>>().join(","),
        })
    }
}

/// The reason why fields cannot be printed.
#[derive(Clone, PartialEq, Eq, Error, Debug)]
pub enum FieldError {
    /// No such field.
    #[error("there is no field `{name}`; the fields are {known}")]
    Unknown {
        /// The name as typed.
        name: String,
        /// All field names.
        known: String,
    },
    /// No such kind of event.
    #[error("there is no kind of event `{0}`; the kinds are hw, sw, trace, raw")]
    UnknownKind(String),
    /// The list mixes both forms, as in `+comm,pid`.
    #[error("`{0}` mixes a list of fields with +FIELD and -FIELD")]
    Mixed(String),
    /// The samples do not have what was asked for.
    #[error("samples of event {event} have no {part}: `{field}` cannot be printed")]
    Absent {
        /// The event.
        event: String,
        /// The missing part, as `PERF_SAMPLE_*` names it.
        part: &'static str,
        /// The field.
        field: String,
    },
    /// Offsets without functions.
    #[error("`symoff` needs `sym`")]
    OffsetWithoutSymbol,
    /// Lines without addresses.
    #[error("`srcline` needs `ip`")]
    LineWithoutAddress,
}

/// The selected fields, for each kind of event.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FieldSelection {
    kinds: [KindFields; KINDS.len()],
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct KindFields {
    fields: Fields,
    /// Fields selected by name, whose absence is an error.
    by_name: Fields,
    /// Fields that were removed, which defaults must not add again.
    removed: Fields,
    /// True if the user gave a list that replaces the defaults.
    replaces_defaults: bool,
}

impl Default for FieldSelection {
    fn default() -> Self {
        let choice = |kind: EventKind| KindFields {
            fields: kind.defaults(),
            by_name: Fields::empty(),
            removed: Fields::empty(),
            replaces_defaults: false,
        };
        Self { kinds: KINDS.map(choice) }
    }
}

impl FieldSelection {
    /// Applies the value of one `-F`: `comm,pid,ip` or `+addr,-period`, optionally behind `hw:`, `sw:`, `trace:` or
    /// `raw:`.
    ///
    /// # Errors
    /// If a name is unknown, or both forms are mixed.
    pub fn apply(&mut self, text: &str) -> Result<(), FieldError> {
        let (kind, list) = match text.split_once(':') {
            Some((prefix, list)) => {
                let kind = KINDS.into_iter().find(|kind| kind.prefix() == Some(prefix));
                (Some(kind.ok_or_else(|| FieldError::UnknownKind(prefix.to_owned()))?), list)
            }
            None => (None, text),
        };
        let names: Vec<&str> = list.split(',').filter(|name| !name.is_empty()).collect();
        let changes = names.iter().filter(|name| name.starts_with(['+', '-'])).count();
        if changes != 0 && changes != names.len() {
            return Err(FieldError::Mixed(text.to_owned()));
        }
        let (mut added, mut removed) = (Fields::empty(), Fields::empty());
        for name in &names {
            match name.strip_prefix('-') {
                Some(name) => removed |= Fields::named(name)?,
                None => added |= Fields::named(name.strip_prefix('+').unwrap_or(name))?,
            }
        }
        for (choice, known) in self.kinds.iter_mut().zip(KINDS) {
            if kind.is_some_and(|kind| kind != known) {
                continue;
            }
            let possible = added - known.impossible();
            if changes == 0 {
                let replaces_defaults = true;
                *choice = KindFields {
                    fields: possible,
                    by_name: possible,
                    removed: Fields::empty(),
                    replaces_defaults,
                };
            } else {
                choice.fields = (choice.fields | possible) - removed;
                choice.by_name = (choice.by_name | possible) - removed;
                choice.removed |= removed;
            }
        }
        Ok(())
    }

    /// Returns the fields for events of `kind`. `format` is the sample format of the first of them, named `event`.
    /// `with_chains` is true if any tracepoint has call chains.
    ///
    /// # Errors
    /// If a field was selected by name that the samples do not have, or that needs another field.
    pub(super) fn resolve(
        &self,
        kind: EventKind,
        event: &str,
        format: SampleFormat,
        with_chains: bool,
    ) -> Result<Fields, FieldError> {
        let Some((_, choice)) = KINDS.into_iter().zip(self.kinds).find(|&(known, _)| known == kind) else {
            return Ok(Fields::empty());
        };
        let mut fields = choice.fields;
        if kind == EventKind::Tracepoint && with_chains && !choice.replaces_defaults {
            fields |= Fields::STACK - choice.removed;
        }
        for &(field, part, name) in REQUIRED_PARTS {
            if !fields.contains(field) || format.intersects(part) {
                continue;
            }
            if choice.by_name.contains(field) {
                let field = field.typed().map(|(name, _)| name).collect();
                return Err(FieldError::Absent { event: event.to_owned(), part: name, field });
            }
            fields -= field;
        }
        if fields.contains(Fields::SYMOFF) && !fields.contains(Fields::SYM) {
            if choice.by_name.contains(Fields::SYMOFF) {
                return Err(FieldError::OffsetWithoutSymbol);
            }
            fields -= Fields::SYMOFF;
        }
        if fields.contains(Fields::SRCLINE) && !fields.contains(Fields::IP) {
            return Err(FieldError::LineWithoutAddress);
        }
        Ok(fields)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(requests: &[&str], kind: EventKind, format: SampleFormat) -> Result<Fields, FieldError> {
        let mut selection = FieldSelection::default();
        for request in requests {
            selection.apply(request)?;
        }
        selection.resolve(kind, "cycles", format, false)
    }

    const FORMAT: SampleFormat = SampleFormat::IP.union(SampleFormat::TID).union(SampleFormat::TIME);

    #[test]
    fn defaults_are_what_the_samples_have() {
        let expected =
            Fields::COMM | Fields::TID | Fields::TIME | Fields::EVENT | Fields::PERIOD | Fields::STACK;
        assert_eq!(fields(&[], EventKind::Hardware, FORMAT), Ok(expected));
    }

    #[test]
    fn lists_and_changes() {
        let hardware = |requests: &[&str]| fields(requests, EventKind::Hardware, FORMAT);
        assert_eq!(hardware(&["comm,ip,trace"]), Ok(Fields::COMM | Fields::IP));
        assert_eq!(hardware(&["comm,time", "+pid,-comm"]), Ok(Fields::TIME | Fields::PID));
        assert_eq!(hardware(&["comm", "sw:ip"]), Ok(Fields::COMM));
        assert_eq!(hardware(&["hw:"]), Ok(Fields::empty()));
        assert_eq!(hardware(&["-sym"]).map(|fields| fields & Fields::STACK), Ok(Fields::IP | Fields::DSO));
    }

    #[test]
    fn refusals() {
        let hardware = |request| fields(&[request], EventKind::Hardware, FORMAT).unwrap_err().to_string();
        assert!(hardware("+cpu").contains("have no CPU: `cpu` cannot be printed"));
        assert!(hardware("comm,nonsense").contains("no field `nonsense`; the fields are comm,tid"));
        assert!(hardware("comm,+pid").contains("mixes"));
        assert!(hardware("xx:comm").contains("no kind of event `xx`"));
        assert!(hardware("ip,symoff").contains("needs `sym`"));
    }
}
