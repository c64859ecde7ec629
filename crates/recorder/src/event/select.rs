//! Looks up the terms of a list in the catalogue, and makes events of them.

use decoder::Attr;
use decoder::attr::{SW_DUMMY, TYPE_HARDWARE, TYPE_HW_CACHE, TYPE_RAW, TYPE_SOFTWARE, TYPE_TRACEPOINT};

use super::modifiers::{Modifiers, Precision};
use super::names;
use super::nearest::nearest;
use super::parse::{Term, parse};
use super::{Catalogue, Event, EventError, Pmu, matches, probes, terms};

/// Returns the events of a list (`cycles:u,page-faults`): several for a term that means several PMUs or tracepoints.
///
/// # Errors
/// [`EventError`], naming the event as typed.
pub fn select(list: &str, catalogue: &dyn Catalogue) -> Result<Vec<Event>, EventError> {
    let mut events = Vec::new();
    for group in parse(list)? {
        let group_modifiers = Modifiers::parse(group.modifiers, list)?;
        let mut members = Vec::new();
        for (position, term) in group.terms.iter().enumerate() {
            let term = &without_modifiers(term, catalogue);
            // The name first: in `uprobes:/bin/x:main` that is wrong, and not the letters behind the last colon.
            let found = look_up(term, catalogue)?;
            let modifiers = Modifiers::parse(term.modifiers, term.text)?;
            if group.braces && position > 0 && (modifiers.pinned || modifiers.exclusive) {
                return Err(EventError::Malformed {
                    text: term.text.to_owned(),
                    problem: "only the first event of a group can be pinned (D) or exclusive (e), and then all of it is",
                });
            }
            let modifiers = modifiers.with(group_modifiers);
            members.push(found.into_iter().map(|event| Event { modifiers, ..event }).collect());
        }
        if group.braces {
            for together in by_pmu(members) {
                let leader = events.len();
                events.extend(together.into_iter().map(|event| Event { leader: Some(leader), ..event }));
                for member in events.iter_mut().skip(leader + 1) {
                    (member.modifiers.pinned, member.modifiers.exclusive) = (false, false);
                }
            }
        } else {
            events.extend(members.into_iter().flatten());
        }
    }
    Ok(events)
}

/// Returns the term with its modifiers split off, if the text behind its only colon are modifiers (`cycles:u`), and not the name of a
/// tracepoint (`iommu:map`), which may consist of the letters of modifiers (`probe:D`).
fn without_modifiers<'a>(term: &Term<'a>, catalogue: &dyn Catalogue) -> Term<'a> {
    let has_form = ["mem:", "uprobe:", "kprobe:"].iter().any(|form| term.body.starts_with(form));
    let Some((name, letters)) = term.body.split_once(':').filter(|_| !has_form && term.modifiers.is_empty())
    else {
        return term.clone();
    };
    let is_known = names::generic(name).is_some()
        || raw(name).is_some()
        || catalogue.pmus().iter().any(|pmu| pmu.events.contains_key(name));
    let is_tracepoint = || catalogue.tracepoints(name, letters).is_ok_and(|found| !found.is_empty());
    let may_be_letters =
        !letters.is_empty() && letters.chars().all(|letter| Modifiers::LETTERS.contains(letter));
    if is_known && (may_be_letters || !is_tracepoint()) || may_be_letters && !is_tracepoint() {
        return Term { body: name, modifiers: letters, ..term.clone() };
    }
    term.clone()
}

/// Splits a group by PMU, since the kernel schedules groups on one PMU each. Events without a PMU of their own go with the first.
fn by_pmu(members: Vec<Vec<Event>>) -> Vec<Vec<Event>> {
    let pmu = |event: &Event| event.attr.pmu();
    let is_bound = |event: &Event| event.cpus.is_some();
    let mut pmus: Vec<u32> = members.iter().flatten().filter(|event| is_bound(event)).map(pmu).collect();
    pmus.sort_unstable();
    pmus.dedup();
    let Some((first, _)) = pmus.split_first() else { return vec![members.into_iter().flatten().collect()] };
    let events_of = |wanted: u32| {
        let belongs = |event: &&Event| if is_bound(event) { pmu(event) == wanted } else { wanted == *first };
        members.iter().flatten().filter(belongs).cloned().collect()
    };
    pmus.iter().map(|pmu| events_of(*pmu)).collect()
}

/// Returns the event that is recorded when none is named: cycles, on each kind of core.
pub(crate) fn default_events(pmus: &[Pmu]) -> Vec<Event> {
    let modifiers = Modifiers { precision: Precision::Highest, ..Modifiers::default() };
    let attr = Attr { kind: TYPE_HARDWARE, ..Attr::default() };
    let events = on_core_pmus("cycles:P", attr, pmus).into_iter();
    events.map(|event| Event { modifiers, is_default: true, ..event }).collect()
}

/// Returns the event that samples where there is no PMU.
pub(crate) fn clock_event() -> Event {
    event("cpu-clock", Attr { kind: TYPE_SOFTWARE, ..Attr::default() })
}

/// Returns an event that counts nothing.
pub(crate) fn dummy_event(name: &str) -> Event {
    event(name, Attr { kind: TYPE_SOFTWARE, config: SW_DUMMY, ..Attr::default() })
}

fn event(name: &str, attr: Attr) -> Event {
    Event { name: name.to_owned(), attr, ..Event::default() }
}

fn look_up(term: &Term<'_>, catalogue: &dyn Catalogue) -> Result<Vec<Event>, EventError> {
    let Some(config) = term.config else { return named(term, catalogue) };
    let pmus = pmus_named(term.body, catalogue.pmus());
    if !pmus.is_empty() {
        return pmus.into_iter().map(|pmu| of_pmu(term, config, pmu)).collect();
    }
    // There is no such PMU, but an event of this name takes the parameters that every event has.
    let events = named(term, catalogue).map_err(|error| match error {
        EventError::Unknown { name, nearest } => {
            let pmu = super::nearest::pmu(term.body, catalogue).filter(|_| !term.body.contains(':'));
            EventError::Unknown { name, nearest: pmu.or(nearest) }
        }
        other => other,
    })?;
    let read = terms::read_general(config, term.body, term.text)?;
    Ok(events.into_iter().map(|event| with_parameters(event, &read)).collect())
}

/// Returns the events that a term without slashes means: by name, or by one of the forms.
fn named(term: &Term<'_>, catalogue: &dyn Catalogue) -> Result<Vec<Event>, EventError> {
    if let Some(attr) = names::generic(term.body) {
        let every_occurrence = super::is_bpf_output(&attr);
        let events = on_core_pmus(term.text, attr, catalogue.pmus()).into_iter();
        return Ok(events.map(|event| Event { every_occurrence, ..event }).collect());
    }
    if let Some(config) = raw(term.body) {
        return Ok(on_core_pmus(term.text, raw_attr(config), catalogue.pmus()));
    }
    if term.body.starts_with("mem:") {
        let attr = probes::breakpoint(term.body)?;
        return Ok(vec![Event { every_occurrence: true, ..event(term.text, attr) }]);
    }
    if term.body.starts_with("uprobe:") || term.body.starts_with("kprobe:") {
        let probe = if term.body.starts_with("kprobe:") { probes::kprobe } else { probes::uprobe };
        let (attr, probe) = probe(term.body, catalogue)?;
        return Ok(vec![Event { every_occurrence: true, probe: Some(probe), ..event(term.text, attr) }]);
    }
    if let Some((system, name)) = term.body.split_once(':') {
        return tracepoints(term, system, name, catalogue);
    }
    // An alias of some PMU, without its name (`mem-loads`).
    let aliases: Vec<Event> = catalogue
        .pmus()
        .iter()
        .filter(|pmu| pmu.events.contains_key(term.body))
        .map(|pmu| of_pmu(term, term.body, pmu))
        .collect::<Result<_, _>>()?;
    if aliases.is_empty() {
        return Err(EventError::Unknown {
            name: term.text.to_owned(),
            nearest: nearest(term.body, catalogue),
        });
    }
    Ok(aliases)
}

fn raw_attr(config: u64) -> Attr {
    Attr { kind: TYPE_RAW, config, ..Attr::default() }
}

fn of_pmu(term: &Term<'_>, config: &str, pmu: &Pmu) -> Result<Event, EventError> {
    let read = terms::read(config, pmu, term.text)?;
    let mut event = with_parameters(event(term.text, read.attr.clone()), &read);
    event.cpus.clone_from(&pmu.cpus);
    event.core = pmu.core;
    Ok(event)
}

fn with_parameters(event: Event, read: &terms::Terms) -> Event {
    Event {
        name: read.name.clone().unwrap_or(event.name),
        rate: read.rate,
        call_chain: read.call_chain,
        max_stack: read.max_stack,
        measure: read.measure.clone(),
        ..event
    }
}

/// Returns the PMUs that a name means: the PMU of this name; or all whose names match it as a pattern, with or without the number at
/// their end (`uncore_imc` for `uncore_imc_0`…) and `uncore_` before it; for `cpu` also the PMUs of all kinds of cores.
fn pmus_named<'a>(name: &str, pmus: &'a [Pmu]) -> Vec<&'a Pmu> {
    if let Some(pmu) = pmus.iter().find(|pmu| pmu.name == name) {
        return vec![pmu];
    }
    let is_meant = |pmu: &&Pmu| {
        let numbered = pmu.name.trim_end_matches(|letter: char| letter.is_ascii_digit());
        let family = numbered.strip_suffix('_').unwrap_or(&pmu.name);
        let names = [pmu.name.as_str(), family, family.strip_prefix("uncore_").unwrap_or(family)];
        names.iter().any(|known| matches(name, known)) || name == "cpu" && pmu.core
    };
    pmus.iter().filter(is_meant).collect()
}

/// Returns one event for each kind of core, for a hardware, cache or raw event on a machine with several kinds; else one event.
fn on_core_pmus(name: &str, attr: Attr, pmus: &[Pmu]) -> Vec<Event> {
    let cores: Vec<&Pmu> = pmus.iter().filter(|pmu| pmu.core).collect();
    if cores.len() < 2 || !matches!(attr.kind, TYPE_HARDWARE | TYPE_HW_CACHE | TYPE_RAW) {
        return vec![event(name, attr)];
    }
    cores
        .into_iter()
        .map(|pmu| {
            let mut attr = attr.clone();
            attr.set_pmu(pmu.kind);
            Event { cpus: pmu.cpus.clone(), core: true, ..event(name, attr) }
        })
        .collect()
}

fn tracepoints(
    term: &Term<'_>,
    system: &str,
    name: &str,
    catalogue: &dyn Catalogue,
) -> Result<Vec<Event>, EventError> {
    let found = catalogue.tracepoints(system, name)?;
    if found.is_empty() {
        let nearest = nearest(term.body, catalogue);
        return Err(EventError::Unknown { name: term.text.to_owned(), nearest });
    }
    let events = found.into_iter().map(|point| {
        let attr = Attr { kind: TYPE_TRACEPOINT, config: point.id, ..Attr::default() };
        let name = format!("{}:{}", point.system, point.name);
        let tracepoint = Some((point.system, point.name));
        Event { every_occurrence: true, tracepoint, ..event(&name, attr) }
    });
    Ok(events.collect())
}

/// Parses a raw event: `r1a8`, a number of the CPU's manual.
fn raw(body: &str) -> Option<u64> {
    let digits = body.strip_prefix('r').filter(|digits| !digits.starts_with('+'))?;
    u64::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use decoder::AttrFlags;

    fn one(text: &str) -> Event {
        select(text, &Vec::new()).unwrap().remove(0)
    }

    #[test]
    fn clocks_and_cycles_run_with_time() {
        let runs = |text: &str| one(text).attr.runs_with_time();
        assert!(runs("cpu-clock") && runs("task-clock:u") && runs("cycles:P") && runs("ref-cycles"));
        assert!(!runs("page-faults") && !runs("instructions") && !runs("cs"));
    }

    /// A machine with these tracepoints, or one that does not show them.
    struct Tracepoints(Option<&'static [&'static str]>);

    impl Catalogue for Tracepoints {
        fn pmus(&self) -> &[Pmu] {
            &[]
        }

        fn tracepoints(&self, system: &str, name: &str) -> Result<Vec<super::super::Tracepoint>, EventError> {
            let refused = || EventError::Tracepoints { cause: "no".to_owned(), remedy: "" };
            let all = self.0.ok_or_else(refused)?.iter().filter_map(|point| point.split_once(':'));
            let found = all.filter(|(of, point)| matches(system, of) && matches(name, point));
            let tracepoint = |(system, name): (&str, &str)| super::super::Tracepoint {
                system: system.to_owned(),
                name: name.to_owned(),
                id: 7,
            };
            Ok(found.map(tracepoint).collect())
        }

        fn symbol_offset(&self, path: &str, symbol: &str) -> Result<u64, EventError> {
            Vec::new().symbol_offset(path, symbol)
        }
    }

    #[test]
    fn a_tracepoint_is_told_from_an_event_with_modifiers() {
        let machine = Tracepoints(Some(&["iommu:map", "x:main", "probe:D", "probe:pp", "cycles:uk"]));
        let seen = |text: &str, machine: &Tracepoints| {
            let event = select(text, machine)?.remove(0);
            Ok::<_, EventError>((
                event.tracepoint.map(|(system, name)| format!("{system}:{name}")),
                event.modifiers.user,
            ))
        };
        for name in ["iommu:map", "x:main", "probe:D", "probe:pp"] {
            assert_eq!(seen(name, &machine).unwrap(), (Some(name.to_owned()), false));
            assert_eq!(seen(&format!("{name}:u"), &machine).unwrap(), (Some(name.to_owned()), true));
            assert!(seen(&format!("{name}:x"), &machine).is_err(), "there is no modifier x");
        }
        for machine in [&machine, &Tracepoints(None)] {
            // Events with names of their own are no tracepoints.
            for event in ["cycles:uk", "r1a8:u", "cs:u"] {
                assert_eq!(seen(event, machine).unwrap(), (None, true), "{event}");
            }
            let wrong = seen("cycles:ux", machine).unwrap_err();
            assert!(matches!(wrong, EventError::Modifier { letter: 'x', .. }), "{wrong}");
            let unknown = seen("cyclse:u", machine).unwrap_err();
            assert!(unknown.to_string().contains("did you mean cycles?"), "{unknown}");
        }
        assert!(matches!(seen("iommu:map", &Tracepoints(None)), Err(EventError::Tracepoints { .. })));
    }

    #[test]
    fn names_modifiers_and_raw_numbers() {
        let event = one("cycles:upp");
        assert_eq!((event.attr.kind, event.attr.config), (0, 0));
        assert_eq!(event.modifiers.precision, Precision::Level(2));
        let flags = event.modifiers.flags();
        assert!(flags.contains(AttrFlags::EXCLUDE_KERNEL | AttrFlags::EXCLUDE_HV));
        assert!(!flags.contains(AttrFlags::EXCLUDE_USER));
        assert_eq!(event.name, "cycles:upp");
        assert_eq!((one("r1a8").attr.kind, one("r1a8").attr.config), (4, 0x1a8));
        assert_eq!(one("cs").attr.config, 3);
    }

    #[test]
    fn a_groups_letters_hold_for_its_members() {
        let events = select("cs,{cycles:u,instructions}:S", &Vec::new()).unwrap();
        assert_eq!(events.iter().map(|event| event.leader).collect::<Vec<_>>(), [None, Some(1), Some(1)]);
        assert!(events[1].modifiers.sample_read && events[2].modifiers.sample_read);
        assert!(events[1].modifiers.user && !events[2].modifiers.user);
    }

    #[test]
    fn a_group_is_pinned_or_exclusive_by_its_first_event() {
        for list in ["{cycles,instructions}:De", "{cycles:De,instructions}"] {
            let events = select(list, &Vec::new()).unwrap();
            let pinned = events.iter().map(|event| (event.modifiers.pinned, event.modifiers.exclusive));
            assert_eq!(pinned.collect::<Vec<_>>(), [(true, true), (false, false)], "{list}");
        }
        for list in ["{cycles,instructions:D}", "{cycles:D,instructions:De}", "{cycles,cs,instructions:e}"] {
            let error = select(list, &Vec::new()).unwrap_err().to_string();
            assert!(error.contains("only the first event of a group"), "{error}");
        }
    }

    /// sysfs of an Intel machine with two kinds of cores, as far as it matters here.
    fn hybrid() -> Vec<Pmu> {
        let pmu = |name: &str, kind, cpus: std::ops::Range<u32>| Pmu {
            name: name.to_owned(),
            kind,
            formats: [("event".to_owned(), "config:0-7".to_owned())].into(),
            events: [("mem-stores".to_owned(), "event=0xd0".to_owned())].into(),
            cpus: Some(cpus.map(model::CpuId).collect()),
            core: !name.contains("uncore"),
            ..Pmu::default()
        };
        vec![
            pmu("cpu_core", 4, 0..8),
            pmu("cpu_atom", 10, 8..16),
            pmu("uncore_imc_0", 20, 0..1),
            pmu("uncore_imc_1", 21, 0..1),
        ]
    }

    #[test]
    fn a_group_is_one_group_per_kind_of_core() {
        let events = select("{cycles,cs,instructions}:u", &hybrid()).unwrap();
        let shape: Vec<_> = events.iter().map(|event| (event.attr.config, event.leader)).collect();
        let (core, atom) = (4 << 32, 10 << 32);
        let first = [(core, Some(0)), (3, Some(0)), (core | 1, Some(0))];
        assert_eq!(shape, [&first[..], &[(atom, Some(3)), (atom | 1, Some(3))]].concat());
        assert!(events.iter().all(|event| event.modifiers.user));
    }

    #[test]
    fn pmus_of_a_family_are_meant_by_their_name_without_a_number() {
        let kinds = |text: &str| {
            let events = select(text, &hybrid()).unwrap();
            events.iter().map(|event| event.attr.kind).collect::<Vec<_>>()
        };
        assert_eq!(kinds("uncore_imc_1/event=1/"), [21]);
        for family in ["uncore_imc/event=1/", "imc/event=1/", "uncore_*/event=1/"] {
            assert_eq!(kinds(family), [20, 21], "{family}");
        }
        assert_eq!(kinds("cpu/event=1/u"), [4, 10]);
        assert_eq!(kinds("r1a8"), [4, 10]);
        assert!(select("uncor/event=1/", &hybrid()).is_err());
    }

    #[test]
    fn each_kind_of_core_has_its_own_event() {
        let events = select("cycles", &hybrid()).unwrap();
        let configs: Vec<u64> = events.iter().map(|event| event.attr.config).collect();
        assert_eq!(configs, [4 << 32, 10 << 32]);
        assert_eq!(events[1].cpus.as_ref().map(Vec::len), Some(8));
        assert_eq!(select("cpu-clock", &hybrid()).unwrap().len(), 1);
        let stores = select("mem-stores", &hybrid()).unwrap();
        assert_eq!(
            stores.iter().map(|event| (event.attr.kind, event.attr.config)).collect::<Vec<_>>()[..2],
            [(4, 0xd0), (10, 0xd0)]
        );
        assert_eq!(default_events(&hybrid()).len(), 2);
        assert_eq!(default_events(&[]).len(), 1);
    }

    #[test]
    fn parameters_of_one_event() {
        let event = one("cycles/period=1000,name=slow,call-graph=no/u");
        assert_eq!((event.rate, event.name.as_str()), (Some(crate::event::Rate::Period(1000)), "slow"));
        assert_eq!(event.call_chain, Some(crate::event::CallChain::None));
        assert!(event.modifiers.user);
        assert!(select("cycles/umask=1/", &Vec::new()).is_err());
    }
}
