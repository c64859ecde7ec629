//! Finds the existing name that is closest to a mistyped one.

use super::{Catalogue, names};

/// Returns the name of the event that is closest to `body`, if the two differ in at most a quarter of their letters.
pub fn nearest(body: &str, catalogue: &dyn Catalogue) -> Option<String> {
    if let Some((system, name)) = body.split_once(':') {
        return probe(system).or_else(|| tracepoint(system, name, catalogue));
    }
    let fixed = names::hardware_names().chain(names::software_names()).flatten().map(|&name| name.to_owned());
    let aliases = catalogue.pmus().iter().flat_map(|pmu| pmu.events.keys().cloned());
    closest(body, fixed.chain(names::cache_names()).chain(aliases)).or_else(|| {
        // The name of a tracepoint without its system: `sched_switch`.
        let points = catalogue.tracepoints("*", body).ok()?;
        points.first().map(|point| format!("{}:{}", point.system, point.name))
    })
}

/// Returns the closest name of a PMU, if it differs little.
pub(super) fn pmu(name: &str, catalogue: &dyn Catalogue) -> Option<String> {
    closest(name, catalogue.pmus().iter().map(|pmu| pmu.name.clone()))
}

/// Returns the form of the closest kind of probe or breakpoint: these have forms, and no names.
fn probe(kind: &str) -> Option<String> {
    match closest(kind, ["uprobe", "uretprobe", "mem"].map(str::to_owned).into_iter())?.as_str() {
        "mem" => Some("mem:ADDR[/LEN][:rwx]".to_owned()),
        "uprobe" => Some("uprobe:PATH:SYMBOL".to_owned()),
        _ => Some("uprobe:PATH:SYMBOL%return".to_owned()),
    }
}

/// Returns the closest tracepoint: of this system, else of this name, else of all.
fn tracepoint(system: &str, name: &str, catalogue: &dyn Catalogue) -> Option<String> {
    [(system, "*"), ("*", name), ("*", "*")].into_iter().find_map(|(system_pattern, name_pattern)| {
        let points = catalogue.tracepoints(system_pattern, name_pattern).ok()?;
        let names = points.into_iter().map(|point| format!("{}:{}", point.system, point.name));
        closest(&format!("{system}:{name}"), names)
    })
}

/// Returns the one of `names` that is closest to `body`, if the two differ in at most a quarter of their letters.
pub(crate) fn closest(body: &str, names: impl Iterator<Item = String>) -> Option<String> {
    names
        .map(|name| (distance(body, &name), name))
        .min()
        .filter(|(distance, name)| *distance <= name.len().min(body.len()).div_ceil(4).max(1))
        .map(|(_, name)| name)
}

/// Returns the number of letters to change, add, remove or swap with their neighbour to get from `a` to `b` (optimal string
/// alignment), by their first 64 letters.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().take(64).collect(), b.chars().take(64).collect());
    let (mut before, mut row): (Vec<usize>, Vec<usize>) = (Vec::new(), (0..=b.len()).collect());
    for (i, from) in a.iter().enumerate() {
        let mut next = vec![i + 1];
        for (j, to) in b.iter().enumerate() {
            let at = |row: &[usize], column: usize| row.get(column).copied().unwrap_or(usize::MAX / 2);
            let mut best =
                (at(&next, j) + 1).min(at(&row, j + 1) + 1).min(at(&row, j) + usize::from(from != to));
            let swapped = i > 0 && j > 0 && a.get(i - 1) == Some(to) && b.get(j - 1) == Some(from);
            if swapped {
                best = best.min(at(&before, j - 1) + 1);
            }
            next.push(best);
        }
        (before, row) = (row, next);
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::select;

    #[test]
    fn a_typo_suggests_the_nearest_name() {
        let message = |text| select(text, &Vec::new()).unwrap_err().to_string();
        assert!(message("page-fualts").contains("page-faults"), "{}", message("page-fualts"));
        assert!(message("cyclse").contains("did you mean cycles?"));
        assert!(!message("xyzzy-frobnicate").contains("mean"));
        assert!(message("cycles:pppp").contains("ppp"));
        assert!(message("cycles:pP").contains("exclude"));
        assert!(message("cs:q").contains("'q'"), "{}", message("cs:q"));
    }

    #[test]
    fn distances() {
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("same", "same"), 0);
        assert_eq!((distance("bmup", "bump"), distance("ab", "ba"), distance("abc", "")), (1, 1, 3));
    }
}
