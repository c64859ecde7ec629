//! How a count is read: the notes that sysfs has beside an alias (Documentation/ABI/testing/sysfs-bus-event_source-devices-events).

use std::collections::BTreeMap;

/// The unit and scale in which a count is read.
#[derive(Clone, PartialEq, Debug)]
pub struct Measure {
    /// The factor that gives the count in [`Measure::unit`].
    pub scale: f64,
    /// The unit (`Joules`, `MiB`); empty for a number of events.
    pub unit: String,
    /// Each CPU of a socket tells the same count: one of them is asked.
    pub per_socket: bool,
    /// The count is a state, as a temperature, and not a sum: the newest is taken, and no difference.
    pub snapshot: bool,
}

impl Default for Measure {
    fn default() -> Self {
        Self { scale: 1.0, unit: String::new(), per_socket: false, snapshot: false }
    }
}

impl Measure {
    /// The measures that the files `NAME.unit`, `NAME.scale`, `NAME.per-pkg` and `NAME.snapshot` tell, by NAME. A scale that is
    /// no finite number above 0 is left at 1.
    pub fn of_notes(notes: &BTreeMap<String, String>) -> BTreeMap<String, Self> {
        let mut measures: BTreeMap<String, Self> = BTreeMap::new();
        for (file, text) in notes {
            let Some((name, note)) = file.rsplit_once('.') else { continue };
            let measure = measures.entry(name.to_owned()).or_default();
            match note {
                "unit" => measure.unit.clone_from(text),
                "scale" => {
                    let scale = text.parse().ok().filter(|scale: &f64| scale.is_finite() && *scale > 0.0);
                    measure.scale = scale.unwrap_or(1.0);
                }
                "per-pkg" => measure.per_socket = text == "1",
                "snapshot" => measure.snapshot = text == "1",
                _ => {}
            }
        }
        measures
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_say_how_a_count_is_read() {
        let notes = [
            ("energy-pkg.scale", "2.3283064365386962890625e-10"),
            ("energy-pkg.unit", "Joules"),
            ("energy-pkg.per-pkg", "1"),
            ("temp.snapshot", "1"),
            ("temp.scale", "inf"),
        ];
        let notes = notes.iter().map(|&(a, b)| (a.to_owned(), b.to_owned())).collect();
        let measures = Measure::of_notes(&notes);
        let energy = &measures["energy-pkg"];
        assert_eq!((energy.unit.as_str(), energy.per_socket, energy.snapshot), ("Joules", true, false));
        assert!((energy.scale * 4_294_967_296.0 - 1.0).abs() < 1e-9);
        assert_eq!(measures["temp"], Measure { snapshot: true, ..Measure::default() });
    }
}
