//! Names of events that a recording does not name, as perf would call them (`evsel__name()`).

use std::fmt::Write;

use decoder::{Attr, AttrFlags};
use model::Name;

use decoder::attr::TYPE_TRACEPOINT;

const HARDWARE: [&str; 10] = [
    "cycles",
    "instructions",
    "cache-references",
    "cache-misses",
    "branches",
    "branch-misses",
    "bus-cycles",
    "stalled-cycles-frontend",
    "stalled-cycles-backend",
    "ref-cycles",
];
const SOFTWARE: [&str; 12] = [
    "cpu-clock",
    "task-clock",
    "page-faults",
    "context-switches",
    "cpu-migrations",
    "minor-faults",
    "major-faults",
    "alignment-faults",
    "emulation-faults",
    "dummy",
    "bpf-output",
    "cgroup-switches",
];
const CACHES: [&str; 7] = ["L1-dcache", "L1-icache", "LLC", "dTLB", "iTLB", "branch", "node"];
const CACHE_OPERATIONS: [(&str, &str); 3] =
    [("load", "loads"), ("store", "stores"), ("prefetch", "prefetches")];

/// Of a tracepoint that nothing in the recording describes.
pub(super) const UNKNOWN_TRACEPOINT: &str = "unknown tracepoint";

/// A name made from type, config and modifiers.
pub fn name_of(attr: &Attr) -> Name {
    let mut name = String::new();
    let known = |table: &[&'static str]| {
        usize::try_from(attr.config & 0xffff_ffff).ok().and_then(|config| table.get(config).copied())
    };
    match attr.kind {
        0 => name.push_str(known(&HARDWARE).unwrap_or("unknown-hardware")),
        1 => name.push_str(known(&SOFTWARE).unwrap_or("unknown-software")),
        TYPE_TRACEPOINT => return Name::from(UNKNOWN_TRACEPOINT),
        3 => name.push_str(&cache(attr.config)),
        4 => {
            // Writing to a String cannot fail.
            let _ = write!(name, "raw 0x{:x}", attr.config);
        }
        5 => {
            let _ = write!(name, "mem:0x{:x}:", attr.config1);
            for (bit, letter) in [(1, 'r'), (2, 'w'), (4, 'x')] {
                if attr.bp_type & bit != 0 {
                    name.push(letter);
                }
            }
        }
        kind => {
            let _ = write!(name, "unknown attr type: {kind}");
            return Name::from(name.as_str());
        }
    }
    let modifiers = modifiers(attr);
    if !modifiers.is_empty() {
        name.push(':');
        name.push_str(&modifiers);
    }
    Name::from(name.as_str())
}

fn cache(config: u64) -> String {
    let byte = |shift: u32| usize::from((config >> shift) as u8);
    match (CACHES.get(byte(0)), CACHE_OPERATIONS.get(byte(8)), byte(16)) {
        (Some(cache), Some((_, operation)), 0) => format!("{cache}-{operation}"),
        (Some(cache), Some((operation, _)), 1) => format!("{cache}-{operation}-misses"),
        _ => "unknown-ext-hardware-cache-type".to_owned(),
    }
}

/// As `evsel__add_modifiers()`: levels only where one is left out, host and guest only against the default.
fn modifiers(attr: &Attr) -> String {
    let excludes = |flag| attr.flags.contains(flag);
    let mut text = String::new();
    let levels =
        [(AttrFlags::EXCLUDE_KERNEL, 'k'), (AttrFlags::EXCLUDE_USER, 'u'), (AttrFlags::EXCLUDE_HV, 'h')];
    let some_level = levels.iter().any(|&(flag, _)| excludes(flag));
    if some_level {
        text.extend(levels.iter().filter(|&&(flag, _)| !excludes(flag)).map(|&(_, letter)| letter));
    }
    text.extend(std::iter::repeat_n('p', attr.precise_ip.into()));
    let guest_left_out_by_default = some_level || attr.precise_ip != 0;
    if excludes(AttrFlags::EXCLUDE_HOST) || excludes(AttrFlags::EXCLUDE_GUEST) == guest_left_out_by_default {
        let sides = [(AttrFlags::EXCLUDE_HOST, 'H'), (AttrFlags::EXCLUDE_GUEST, 'G')];
        text.extend(sides.iter().filter(|&&(flag, _)| !excludes(flag)).map(|&(_, letter)| letter));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_perf_calls_them() {
        let name =
            |kind, config, flags| name_of(&Attr { kind, config, flags, ..Attr::default() }).to_string();
        let guest = AttrFlags::EXCLUDE_GUEST;
        assert_eq!(name(0, 0, guest), "cycles");
        assert_eq!(name(1, 0, AttrFlags::empty()), "cpu-clock:HG");
        assert_eq!(name(0, 1, guest | AttrFlags::EXCLUDE_KERNEL | AttrFlags::EXCLUDE_HV), "instructions:uH");
        assert_eq!(name(3, 0x10000, guest), "L1-dcache-load-misses");
        assert_eq!(name(4, 0x1a8, guest), "raw 0x1a8");
        assert_eq!(name(77, 0, AttrFlags::empty()), "unknown attr type: 77");
    }
}
