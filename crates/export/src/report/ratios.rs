//! Ratios of the counts of two events: instructions per cycle, misses per thousand instructions.

use super::EventReport;

/// A ratio of two events.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Ratio {
    /// The name of the ratio: `instructions per cycle`.
    pub(super) name: String,
    /// The heading of its column.
    pub(super) heading: String,
    /// The columns of the numerator and the denominator.
    part: usize,
    whole: usize,
    /// The factor that the quotient is multiplied by.
    factor: u32,
}

impl Ratio {
    /// Returns the ratio for the weights of a row, by column; `None` if the denominator is 0.
    pub(super) fn value(&self, weights: impl Fn(usize) -> u64) -> Option<f64> {
        let (part, whole) = (weights(self.part), weights(self.whole));
        (whole > 0).then(|| part as f64 / whole as f64 * f64::from(self.factor))
    }
}

/// Returns the ratios of events whose weights are counts, not samples.
pub(super) fn ratios(events: &[EventReport<'_>]) -> Vec<Ratio> {
    let counted = |event: &EventReport<'_>| {
        let counts = event.summary.weight == profile::Weight::Period;
        if counts { kind(event.summary.event) } else { String::new() }
    };
    between(&events.iter().map(counted).collect::<Vec<_>>())
}

fn between(kinds: &[String]) -> Vec<Ratio> {
    let column = |name: &str| kinds.iter().position(|kind| kind == name);
    let mut ratios = Vec::new();
    let mut push = |name: &str, heading: &str, part: Option<usize>, whole: Option<usize>, factor: u32| {
        if let (Some(part), Some(whole)) = (part, whole) {
            ratios.push(Ratio { name: name.to_owned(), heading: heading.to_owned(), part, whole, factor });
        }
    };
    let (cycles, instructions) = (column("cycles"), column("instructions"));
    push("instructions per cycle", "IPC", instructions, cycles, 1);
    let branches = column("branches").or_else(|| column("branch-instructions"));
    push("branch misses per cent", "br-miss%", column("branch-misses"), branches, 100);
    push("cache misses per cent", "c-miss%", column("cache-misses"), column("cache-references"), 100);
    for (misses, kind) in kinds.iter().enumerate().filter(|(_, kind)| kind.ends_with("-misses")) {
        let name = format!("{kind} per thousand instructions");
        push(&name, &format!("{kind}/k"), Some(misses), instructions, 1000);
    }
    ratios
}

/// Returns an event's name without PMU and modifiers: `cycles` for `cycles:P` and `cpu_core/cycles/u`.
fn kind(event: &str) -> String {
    let bare = match event.split('/').nth(1) {
        Some(of_unit) => of_unit,
        None => event.split(':').next().unwrap_or(event),
    };
    match bare {
        "cpu-cycles" => "cycles".to_owned(),
        other => other.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_that_belong_together_are_divided() {
        let kinds = ["cpu_core/cycles/u", "instructions:P", "LLC-load-misses", "faults"].map(kind);
        let ratios = between(&kinds);
        let names: Vec<_> = ratios.iter().map(|ratio| &*ratio.name).collect();
        assert_eq!(names, ["instructions per cycle", "LLC-load-misses per thousand instructions"]);
        let weights = [1000, 2500, 5, 7];
        let values: Vec<_> = ratios.iter().map(|ratio| ratio.value(|column| weights[column])).collect();
        assert_eq!(values, [Some(2.5), Some(2.0)]);
        assert_eq!(ratios[0].value(|_| 0), None);
    }
}
