//! The names of hardware events (`enum perf_hw_id`), software events (`enum perf_sw_ids`) and cache events.

use decoder::Attr;
use decoder::attr::{TYPE_HARDWARE, TYPE_HW_CACHE, TYPE_SOFTWARE};

/// Names of `enum perf_hw_id`, the first being the one to show.
const HARDWARE: [&[&str]; 10] = [
    &["cycles", "cpu-cycles"],
    &["instructions"],
    &["cache-references"],
    &["cache-misses"],
    &["branches", "branch-instructions"],
    &["branch-misses"],
    &["bus-cycles"],
    &["stalled-cycles-frontend", "idle-cycles-frontend"],
    &["stalled-cycles-backend", "idle-cycles-backend"],
    &["ref-cycles"],
];

/// Names of `enum perf_sw_ids`.
const SOFTWARE: [&[&str]; 12] = [
    &["cpu-clock"],
    &["task-clock"],
    &["page-faults", "faults"],
    &["context-switches", "cs"],
    &["cpu-migrations", "migrations"],
    &["minor-faults"],
    &["major-faults"],
    &["alignment-faults"],
    &["emulation-faults"],
    &["dummy"],
    &["bpf-output"],
    &["cgroup-switches"],
];

/// `enum perf_hw_cache_id`.
const CACHES: [&[&str]; 7] = [
    &["L1-dcache", "l1-d", "l1d", "L1-data"],
    &["L1-icache", "l1-i", "l1i", "L1-instruction"],
    &["LLC", "L2"],
    &["dTLB", "d-tlb", "Data-TLB"],
    &["iTLB", "i-tlb", "Instruction-TLB"],
    &["branch", "branches", "bpu", "btb", "bpc"],
    &["node"],
];

/// `enum perf_hw_cache_op_id`: the plural first, then the singular.
const OPERATIONS: [&[&str]; 3] = [
    &["loads", "load", "read"],
    &["stores", "store", "write"],
    &["prefetches", "prefetch", "speculative-read", "speculative-load"],
];

/// `enum perf_hw_cache_op_result_id`.
const RESULTS: [&[&str]; 2] = [&["refs", "Reference", "ops", "access"], &["misses", "miss"]];

/// Returns the names of each hardware event, the usual one first.
pub(super) fn hardware_names() -> impl Iterator<Item = &'static [&'static str]> {
    HARDWARE.iter().copied()
}

/// Returns the names of each software event, the usual one first.
pub(super) fn software_names() -> impl Iterator<Item = &'static [&'static str]> {
    SOFTWARE.iter().copied()
}

/// Returns the usual names of the cache events (`L1-dcache-load-misses`).
pub(super) fn cache_names() -> impl Iterator<Item = String> {
    CACHES.iter().flat_map(|cache| {
        OPERATIONS.iter().flat_map(|operation| {
            let cache = cache.first().unwrap_or(&"");
            let (plural, singular) = (operation.first().unwrap_or(&""), operation.get(1).unwrap_or(&""));
            [format!("{cache}-{plural}"), format!("{cache}-{singular}-misses")]
        })
    })
}

/// Looks up a hardware, software or cache event.
pub(super) fn generic(name: &str) -> Option<Attr> {
    let index_in =
        |table: &[&[&str]]| table.iter().position(|names| names.contains(&name)).map(|index| index as u64);
    if let Some(config) = index_in(&HARDWARE) {
        return Some(Attr { kind: TYPE_HARDWARE, config, ..Attr::default() });
    }
    if let Some(config) = index_in(&SOFTWARE) {
        return Some(Attr { kind: TYPE_SOFTWARE, config, ..Attr::default() });
    }
    cache(name).map(|config| Attr { kind: TYPE_HW_CACHE, config, ..Attr::default() })
}

/// Returns the config of `CACHE[-OPERATION][-RESULT]`, with the last two in any order, as perf parses it.
fn cache(name: &str) -> Option<u64> {
    let (mut rest, cache) = prefix_of(name, &CACHES)?;
    let (mut operation, mut result) = (None, None);
    while let Some(more) = rest.strip_prefix('-') {
        if let Some((after, found)) = prefix_of(more, &OPERATIONS).filter(|_| operation.is_none()) {
            (rest, operation) = (after, Some(found));
        } else if let Some((after, found)) = prefix_of(more, &RESULTS).filter(|_| result.is_none()) {
            (rest, result) = (after, Some(found));
        } else {
            return None;
        }
    }
    // A cache without operation means its loads.
    rest.is_empty().then_some(cache | operation.unwrap_or(0) << 8 | result.unwrap_or(0) << 16)
}

/// Returns the index of the row with the longest name that is a prefix of `text` up to its end or a dash, and the rest of `text`.
fn prefix_of<'a>(text: &'a str, table: &[&[&str]]) -> Option<(&'a str, u64)> {
    let mut best: Option<(&'a str, u64)> = None;
    for (index, names) in table.iter().enumerate() {
        for name in *names {
            let Some((head, rest)) = text.split_at_checked(name.len()) else { continue };
            if head.eq_ignore_ascii_case(name)
                && (rest.is_empty() || rest.starts_with('-'))
                && best.is_none_or(|(shortest, _)| rest.len() < shortest.len())
            {
                best = Some((rest, index as u64));
            }
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cache_events_are_three_numbers() {
        let config = |name: &str| generic(name).map(|attr| (attr.kind, attr.config));
        assert_eq!(config("L1-dcache-load-misses"), Some((3, 0x1_00_00)));
        assert_eq!(config("L1-dcache-loads"), Some((3, 0)));
        assert_eq!(config("LLC-stores"), Some((3, 0x1_02)));
        assert_eq!(config("LLC-store-misses"), Some((3, 0x1_01_02)));
        assert_eq!(config("dTLB-prefetch-misses"), Some((3, 0x1_02_03)));
        assert_eq!(config("iTLB-load-misses"), Some((3, 0x1_00_04)));
        assert_eq!(config("node-loads"), Some((3, 6)));
        assert_eq!(config("branch-loads"), Some((3, 5)));
        assert_eq!(config("branch-misses"), Some((0, 5)), "the hardware event comes first");
        assert_eq!(config("L1-dcache-load-load"), None);
        assert_eq!(config("L1-dcacheloads"), None);
        for name in cache_names() {
            assert!(config(&name).is_some(), "{name}");
        }
    }

    #[test]
    fn aliases_are_the_same_event() {
        assert_eq!(generic("cs"), generic("context-switches"));
        assert_eq!(generic("cpu-cycles"), generic("cycles"));
        assert_eq!(generic("cgroup-switches").map(|attr| attr.config), Some(11));
        assert_eq!(generic("nonsense"), None);
    }
}
