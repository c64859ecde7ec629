//! Lists the events that can be selected on this machine, by kind, for `prof list`.

use super::catalogue::{Catalogue, Pmu};
use super::names;
use super::{EventError, matches};

/// Kinds of events, in the order in which they are shown.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum EventKind {
    /// `enum perf_hw_id`.
    Hardware,
    /// The cache events.
    Cache,
    /// `enum perf_sw_ids`.
    Software,
    /// Aliases and terms of the PMU of this name.
    Pmu(String),
    /// Forms with an address or a number: raw events, breakpoints, probes.
    Form,
    /// Tracepoints.
    Tracepoint,
}

/// An event that can be selected, or the form of some.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ListedEvent {
    /// The kind of event.
    pub kind: EventKind,
    /// The names of one event, the usual one first, or a form with its variable parts in capitals.
    pub names: Vec<String>,
    /// An event of this form that [`super::select`] accepts; `None` for a form whose numbers only the user knows.
    pub example: Option<String>,
}

impl EventKind {
    /// Returns the words that stand for all events of this kind, as in `perf list`.
    pub fn words(&self) -> &'static [&'static str] {
        match self {
            Self::Hardware => &["hw", "hardware"],
            Self::Cache => &["cache", "hwcache"],
            Self::Software => &["sw", "software"],
            Self::Pmu(_) => &["pmu"],
            Self::Form => &["form", "probe"],
            Self::Tracepoint => &["tracepoint"],
        }
    }
}

impl ListedEvent {
    fn named(kind: EventKind, names: &[&str]) -> Self {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        Self { kind, example: names.first().cloned(), names }
    }

    fn form(kind: EventKind, form: &str, example: Option<&str>) -> Self {
        Self { kind, names: vec![form.to_owned()], example: example.map(str::to_owned) }
    }

    /// Returns true if `pattern` is a word for the event's kind, a pattern with `*` or `?` that one of its names matches, or a part
    /// of one of its names. Case does not matter.
    pub fn is_meant_by(&self, pattern: &str) -> bool {
        let pattern = pattern.to_ascii_lowercase();
        let by_name = |name: &String| {
            let name = name.to_ascii_lowercase();
            if pattern.contains(['*', '?']) { matches(&pattern, &name) } else { name.contains(&pattern) }
        };
        self.kind.words().contains(&pattern.as_str()) || self.names.iter().any(by_name)
    }
}

/// Returns all events and forms of the machine of `catalogue`, by kind. Where tracepoints cannot be read, they are missing, and the
/// second value is the reason.
pub fn listing(catalogue: &dyn Catalogue) -> (Vec<ListedEvent>, Option<EventError>) {
    let hardware = names::hardware_names().map(|names| ListedEvent::named(EventKind::Hardware, names));
    let cache = names::cache_names().map(|name| ListedEvent::named(EventKind::Cache, &[name.as_str()]));
    let software = names::software_names().map(|names| ListedEvent::named(EventKind::Software, names));
    let mut listed: Vec<ListedEvent> = hardware.chain(cache).chain(software).collect();
    listed.extend(catalogue.pmus().iter().flat_map(of_pmu));
    listed.push(ListedEvent::form(EventKind::Form, "rHEX", Some("r0")));
    listed.push(ListedEvent::form(EventKind::Form, "mem:ADDR[/LEN][:rwx]", Some("mem:0x1000")));
    let own = catalogue.pmus().iter().any(|pmu| pmu.name == "uprobe");
    let own = own.then_some("uprobe:/proc/self/exe:0");
    listed.push(ListedEvent::form(EventKind::Form, "uprobe:PATH:SYMBOL[+OFFSET][%return]", own));
    listed.push(ListedEvent::form(EventKind::Form, "uprobe:PATH:OFFSET[%return]", own));
    if catalogue.pmus().iter().any(|pmu| pmu.name == "kprobe") {
        listed.push(ListedEvent::form(
            EventKind::Form,
            "kprobe:FUNCTION[+OFFSET][%return]",
            Some("kprobe:vfs_read"),
        ));
    }
    let (points, problem) = match catalogue.tracepoints("*", "*") {
        Ok(points) => (points, None),
        Err(error) => (Vec::new(), Some(error)),
    };
    let points = points.iter().map(|point| format!("{}:{}", point.system, point.name));
    listed.extend(points.map(|name| ListedEvent::named(EventKind::Tracepoint, &[&name])));
    (listed, problem)
}

/// Returns a PMU's aliases, and the form of its terms; nothing for PMUs whose events have forms of their own.
fn of_pmu(pmu: &Pmu) -> Vec<ListedEvent> {
    if matches!(pmu.name.as_str(), "software" | "tracepoint" | "breakpoint" | "uprobe" | "kprobe") {
        return Vec::new();
    }
    let name = &pmu.name;
    let kind = || EventKind::Pmu(name.clone());
    let aliases = pmu.events.keys().map(|alias| ListedEvent::named(kind(), &[&format!("{name}/{alias}/")]));
    let mut listed: Vec<ListedEvent> = aliases.collect();
    if !pmu.formats.is_empty() {
        let terms: Vec<String> = pmu.formats.iter().map(|(term, format)| term_form(term, format)).collect();
        listed.push(ListedEvent::form(kind(), &format!("{name}/{}/", terms.join(",")), None));
    }
    listed
}

/// Returns a term with its range, as `[umask=0..0xff]`, or alone where it is one bit.
fn term_form(term: &str, format: &str) -> String {
    match super::terms::width(format) {
        Some(1) | None => format!("[{term}]"),
        Some(width) => format!("[{term}=0..{:#x}]", u64::MAX >> (64 - width.clamp(1, 64))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::select;

    fn machine() -> Vec<Pmu> {
        let owned =
            |pairs: &[(&str, &str)]| pairs.iter().map(|&(a, b)| (a.to_owned(), b.to_owned())).collect();
        vec![
            Pmu { name: "software".to_owned(), kind: 1, ..Pmu::default() },
            Pmu {
                name: "cpu".to_owned(),
                kind: 4,
                formats: owned(&[
                    ("event", "config:0-7,32-35"),
                    ("inv", "config:23"),
                    ("all", "config1:0-63"),
                ]),
                events: owned(&[("mem-loads", "event=0xcd")]),
                ..Pmu::default()
            },
            Pmu {
                name: "uprobe".to_owned(),
                kind: 8,
                formats: owned(&[("retprobe", "config:0")]),
                ..Pmu::default()
            },
        ]
    }

    #[test]
    fn each_example_is_an_event_of_the_grammar() {
        let machine = machine();
        let (listed, problem) = listing(&machine);
        assert_eq!(problem, None);
        for one in &listed {
            if let Some(example) = &one.example {
                assert!(select(example, &machine).is_ok(), "{example}");
            }
        }
        let kinds: std::collections::BTreeSet<EventKind> =
            listed.iter().map(|one| one.kind.clone()).collect();
        assert_eq!(kinds.len(), 5, "{kinds:?}");
    }

    #[test]
    fn a_pmu_shows_its_aliases_and_its_terms() {
        let machine = machine();
        let (listed, _) = listing(&machine);
        let names: Vec<&str> = listed
            .iter()
            .filter(|one| matches!(one.kind, EventKind::Pmu(_)))
            .flat_map(|one| &one.names)
            .map(|s| s.as_str())
            .collect();
        assert_eq!(names, ["cpu/mem-loads/", "cpu/[all=0..0xffffffffffffffff],[event=0..0xfff],[inv]/"]);
    }

    #[test]
    fn patterns_are_names_parts_of_names_or_kinds() {
        let (listed, _) = listing(&Vec::new());
        let count = |pattern: &str| listed.iter().filter(|one| one.is_meant_by(pattern)).count();
        assert_eq!(count("cs"), 1, "an alias is a name, too");
        assert_eq!(count("L1-DCACHE*"), 6);
        assert_eq!(count("faults"), 5);
        assert_eq!(count("fault?"), 1);
        assert_eq!(count("sw"), 12);
        assert_eq!(count("nothing-like-it"), 0);
    }
}
