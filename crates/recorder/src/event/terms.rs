//! Parses the terms between slashes: `event=0xc0,umask=1,period=1000,name=retired`.

use decoder::Attr;

use super::{CallChain, DEFAULT_STACK_COPY, EventError, Measure, Pmu, Rate};

/// The attr of an event's terms, and its parameters (`perf-record(1)`, "parameters").
#[derive(Clone, PartialEq, Default, Debug)]
pub(super) struct Terms {
    pub(super) attr: Attr,
    pub(super) rate: Option<Rate>,
    pub(super) name: Option<String>,
    pub(super) call_chain: Option<CallChain>,
    pub(super) max_stack: Option<u16>,
    pub(super) measure: Measure,
}

/// The parameters that every event takes.
pub(super) const GENERAL: [&str; 5] = ["period", "freq", "name", "call-graph", "max-stack"];

/// The terms that set a field of the attr as a whole.
const CONFIGS: [&str; 5] = ["config", "config1", "config2", "config3", "config4"];

/// Maximum depth to which aliases may refer to each other. Kernels have none that do, but a file in `/sys` is input.
const MAX_ALIAS_DEPTH: usize = 4;

/// Parses terms with the formats and aliases of `pmu`; `text` is the whole event, for messages.
pub(super) fn read(config: &str, pmu: &Pmu, text: &str) -> Result<Terms, EventError> {
    let mut terms = Terms { attr: Attr { kind: pmu.kind, ..Attr::default() }, ..Terms::default() };
    apply(config, pmu, text, &mut terms, MAX_ALIAS_DEPTH)?;
    Ok(terms)
}

/// Parses the parameters of an event that belongs to no PMU of sysfs. It takes no `config` terms, since its name says what it counts.
pub(super) fn read_general(config: &str, name: &str, text: &str) -> Result<Terms, EventError> {
    let pmu = Pmu { name: name.to_owned(), ..Pmu::default() };
    let terms = read(config, &pmu, text)?;
    let names = config.split(',').map(|term| term.split_once('=').map_or(term, |(name, _)| name).trim());
    match names.into_iter().find(|name| CONFIGS.contains(name)) {
        Some(term) => Err(EventError::Term {
            text: text.to_owned(),
            term: term.to_owned(),
            pmu: name.to_owned(),
            known: GENERAL.join(", "),
            nearest: None,
        }),
        None => Ok(terms),
    }
}

fn apply(config: &str, pmu: &Pmu, text: &str, terms: &mut Terms, depth: usize) -> Result<(), EventError> {
    for term in config.split(',').map(str::trim).filter(|term| !term.is_empty()) {
        let (name, value) = term.split_once('=').map_or((term, None), |(name, value)| (name, Some(value)));
        let wrong = || EventError::Term {
            text: text.to_owned(),
            term: term.to_owned(),
            pmu: pmu.name.clone(),
            known: known(pmu).collect::<Vec<_>>().join(", "),
            nearest: model::near::nearest(name, known(pmu).chain(pmu.events.keys().cloned()))
                .filter(|nearest| nearest != name),
        };
        if value.is_none()
            && let Some(alias) = pmu.events.get(name).filter(|_| depth > 0)
        {
            terms.measure = pmu.measures.get(name).cloned().unwrap_or_default();
            apply(alias, pmu, text, terms, depth - 1)?;
            continue;
        }
        // A term without a value has the value 1 (`inv`).
        let number = || value.map_or(Some(1), parse_number).ok_or_else(wrong);
        if let Some(format) = pmu.formats.get(name) {
            set_bits(format, number()?, &mut terms.attr).ok_or_else(wrong)?;
            continue;
        }
        match name {
            "config" => terms.attr.config = number()?,
            "config1" => terms.attr.config1 = number()?,
            "config2" => terms.attr.config2 = number()?,
            "config3" => terms.attr.config3 = number()?,
            "config4" => terms.attr.config4 = number()?,
            "period" => terms.rate = Some(Rate::Period(number()?)),
            "freq" => terms.rate = Some(Rate::Frequency(number()?)),
            "name" => terms.name = Some(value.ok_or_else(wrong)?.trim_matches(['\'', '"']).to_owned()),
            "call-graph" => {
                terms.call_chain = Some(match value {
                    Some("fp") => CallChain::FramePointers,
                    Some("auto") => CallChain::Stacks { size: None, keep: false },
                    Some("dwarf") => CallChain::Stacks { size: Some(DEFAULT_STACK_COPY), keep: false },
                    Some("lbr") => CallChain::LastBranches,
                    Some("no") => CallChain::None,
                    _ => return Err(wrong()),
                })
            }
            "max-stack" => terms.max_stack = Some(u16::try_from(number()?).map_err(|_| wrong())?),
            _ => return Err(wrong()),
        }
    }
    if matches!(terms.rate, Some(Rate::Period(0) | Rate::Frequency(0))) {
        let problem = "a rate of 0 takes no samples";
        return Err(EventError::Malformed { text: text.to_owned(), problem });
    }
    Ok(())
}

fn known(pmu: &Pmu) -> impl Iterator<Item = String> {
    pmu.formats.keys().cloned().chain(GENERAL.map(str::to_owned))
}

/// Parses a number in decimal, or in hexadecimal behind `0x`.
pub(super) fn parse_number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// Returns the number of bits of a format (`config:0-7,32-35`: 12).
pub(super) fn width(format: &str) -> Option<u32> {
    let ranges = format.split_once(':')?.1.split(',');
    let widths = ranges.map(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        last.parse::<u32>().ok()?.checked_sub(first.parse().ok()?)?.checked_add(1)
    });
    widths.sum()
}

/// Sets the bits of `format` (`config:0-7,32-35`) to `value`, from the lowest on. `None` where it does not fit.
fn set_bits(format: &str, value: u64, attr: &mut Attr) -> Option<()> {
    let (field, ranges) = format.split_once(':')?;
    let field = match field {
        "config" => &mut attr.config,
        "config1" => &mut attr.config1,
        "config2" => &mut attr.config2,
        "config3" => &mut attr.config3,
        "config4" => &mut attr.config4,
        _ => return None,
    };
    let (mut rest, mut set) = (value, *field);
    for range in ranges.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last) = (first.parse::<u32>().ok()?, last.parse::<u32>().ok()?);
        if last > 63 || first > last {
            return None;
        }
        let width = last - first + 1;
        let mask = u64::MAX >> (64 - width);
        set = set & !(mask << first) | (rest & mask) << first;
        rest = rest.checked_shr(width).unwrap_or(0);
    }
    *field = set;
    (rest == 0).then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cpu() -> Pmu {
        let formats = [
            ("event", "config:0-7,32-35"),
            ("umask", "config:8-15"),
            ("inv", "config:23"),
            ("ldlat", "config1:0-15"),
            ("wide", "config2:0-63"),
        ];
        let events = [("mem-loads", "event=0xcd,umask=0x1,ldlat=3"), ("loop", "loop")];
        let owned =
            |pairs: &[(&str, &str)]| pairs.iter().map(|&(a, b)| (a.to_owned(), b.to_owned())).collect();
        Pmu {
            name: "cpu".to_owned(),
            kind: 4,
            formats: owned(&formats),
            events: owned(&events),
            ..Pmu::default()
        }
    }

    #[test]
    fn values_are_laid_into_the_bits_of_their_format() {
        let terms = read("event=0x1c0,umask=3,inv,wide=0xffffffffffffffff", &cpu(), "x").unwrap();
        assert_eq!(terms.attr.config, 0x1_0080_03c0);
        assert_eq!((terms.attr.kind, terms.attr.config2), (4, u64::MAX));
        let alias = read("mem-loads,period=1000,name='loads'", &cpu(), "x").unwrap();
        assert_eq!((alias.attr.config, alias.attr.config1), (0x1cd, 3));
        assert_eq!((alias.rate, alias.name.as_deref()), (Some(Rate::Period(1000)), Some("loads")));
    }

    #[test]
    fn what_an_event_counts_is_in_its_name() {
        assert_eq!(read_general("period=7", "cpu-clock", "x").unwrap().rate, Some(Rate::Period(7)));
        for bad in ["config=3", "period=7,config1=0", "name=a, config3=1"] {
            let message = read_general(bad, "cpu-clock", "cpu-clock/x/").unwrap_err().to_string();
            assert!(message.contains("cpu-clock does not take \"config"), "{message}");
        }
    }

    #[test]
    fn unknown_terms_and_values_that_do_not_fit_are_refused() {
        for bad in ["umask=0x100", "event=0x1000", "frob=1", "umask=x", "loop", "freq=0", "call-graph=maybe"]
        {
            assert!(read(bad, &cpu(), "cpu/x/").is_err(), "{bad}");
        }
        let message = read("frob=1", &cpu(), "cpu/frob=1/").unwrap_err().to_string();
        assert!(message.contains("frob=1") && message.contains("umask"), "{message}");
    }
}
