//! The events of a machine, as the grammar needs them.

use std::collections::BTreeMap;

use model::CpuId;

use super::{EventError, Measure};

/// A PMU (`/sys/bus/event_source/devices/NAME`).
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Pmu {
    /// Its name.
    pub name: String,
    /// Its number, for `attr.type`.
    pub kind: u32,
    /// The bits that each term sets (`event` → `config:0-7,32-35`).
    pub formats: BTreeMap<String, String>,
    /// The terms of each alias (`inst_retired.any` → `event=0xc0`).
    pub events: BTreeMap<String, String>,
    /// The units and scales of aliases, where sysfs has any.
    pub measures: BTreeMap<String, Measure>,
    /// The CPUs on which it counts, where not on all.
    pub cpus: Option<Vec<CpuId>>,
    /// True if it is the PMU of a kind of core (`cpu_core`, `cpu_atom`).
    pub core: bool,
}

/// A catalogue of the events that the machine offers.
pub trait Catalogue {
    /// Returns the PMUs of the machine.
    fn pmus(&self) -> &[Pmu];

    /// Returns the tracepoints whose system matches `system` and whose name matches `name` (see `matches()`), in the order of their
    /// names.
    ///
    /// # Errors
    /// [`EventError::Tracepoints`] where they cannot be read.
    fn tracepoints(&self, system: &str, name: &str) -> Result<Vec<Tracepoint>, EventError>;

    /// Returns the file offset of a symbol of an object file.
    ///
    /// # Errors
    /// [`EventError::Probe`] where there is no such file or symbol.
    fn symbol_offset(&self, path: &str, symbol: &str) -> Result<u64, EventError>;
}

/// A tracepoint of the machine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tracepoint {
    /// Its system, for example `sched`.
    pub system: String,
    /// Its name, for example `sched_switch`.
    pub name: String,
    /// Its number, for `attr.config`.
    pub id: u64,
}

/// A list of PMUs is a catalogue without tracepoints and object files.
impl Catalogue for Vec<Pmu> {
    fn pmus(&self) -> &[Pmu] {
        self
    }

    fn tracepoints(&self, _system: &str, _name: &str) -> Result<Vec<Tracepoint>, EventError> {
        Ok(Vec::new())
    }

    fn symbol_offset(&self, path: &str, symbol: &str) -> Result<u64, EventError> {
        let problem = format!("it has no symbol {symbol}");
        Err(EventError::Probe { path: path.to_owned(), problem, nearest: None })
    }
}

/// Returns true if `name` matches `pattern`, in which `*` stands for any letters and `?` for one.
pub fn matches(pattern: &str, name: &str) -> bool {
    let (pattern, name) = (pattern.as_bytes(), name.as_bytes());
    let (mut p, mut n) = (0, 0);
    // Where to go on if the text behind the last `*` does not match: one letter further.
    let mut retry = None;
    while n < name.len() {
        match pattern.get(p) {
            Some(b'*') => {
                retry = Some((p, n));
                p += 1;
            }
            Some(&letter) if letter == b'?' || Some(&letter) == name.get(n) => (p, n) = (p + 1, n + 1),
            _ => match retry {
                Some((star, from)) => {
                    (p, n) = (star + 1, from + 1);
                    retry = Some((star, from + 1));
                }
                None => return false,
            },
        }
    }
    pattern.iter().skip(p).all(|&letter| letter == b'*')
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn patterns() {
        for (pattern, name) in
            [("sched_*", "sched_switch"), ("*", ""), ("a?c*", "abcd"), ("*_switch", "a_switch_switch")]
        {
            assert!(matches(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [("sched_*", "sche"), ("", "a"), ("a?", "a"), ("*b", "ba")] {
            assert!(!matches(pattern, name), "{pattern} {name}");
        }
    }
}
