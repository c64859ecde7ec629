//! Finds the existing name that is closest to a mistyped one.

use model::near;

use super::{Catalogue, names};

/// Returns the name of the event that is closest to `body`, if the two differ in at most a quarter of their letters.
pub fn nearest(body: &str, catalogue: &dyn Catalogue) -> Option<String> {
    if let Some((system, name)) = body.split_once(':') {
        return probe(system).or_else(|| tracepoint(system, name, catalogue));
    }
    let fixed = names::hardware_names().chain(names::software_names()).flatten().map(|&name| name.to_owned());
    let aliases = catalogue.pmus().iter().flat_map(|pmu| pmu.events.keys().cloned());
    near::nearest(body, fixed.chain(names::cache_names()).chain(aliases)).or_else(|| {
        // The name of a tracepoint without its system: `sched_switch`.
        let points = catalogue.tracepoints("*", body).ok()?;
        points.first().map(|point| format!("{}:{}", point.system, point.name))
    })
}

/// Returns the closest name of a PMU, if it differs little.
pub(super) fn pmu(name: &str, catalogue: &dyn Catalogue) -> Option<String> {
    near::nearest(name, catalogue.pmus().iter().map(|pmu| pmu.name.clone()))
}

/// Returns the form of the closest kind of probe or breakpoint: these have forms, and no names.
fn probe(kind: &str) -> Option<String> {
    match near::nearest(kind, ["uprobe", "uretprobe", "mem"].map(str::to_owned).into_iter())?.as_str() {
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
        near::nearest(&format!("{system}:{name}"), names)
    })
}

#[cfg(test)]
mod tests {
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
}
