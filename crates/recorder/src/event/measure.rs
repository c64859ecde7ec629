//! The unit and scale of a count, by the files that sysfs has beside an alias
//! (Documentation/ABI/testing/sysfs-bus-event_source-devices-events).

use std::collections::BTreeMap;

/// The unit and scale in which a count is read.
#[derive(Clone, PartialEq, Debug)]
pub struct Measure {
    /// The factor by which the count is multiplied to be in [`Measure::unit`].
    pub scale: f64,
    /// The unit (`Joules`, `MiB`); empty for a number of events.
    pub unit: String,
    /// True if all CPUs of a socket have the same count, so that one of them is read.
    pub per_socket: bool,
    /// True if the count is a state, as a temperature is, and not a sum: intervals show the newest value, and no difference.
    pub snapshot: bool,
}

impl Default for Measure {
    fn default() -> Self {
        Self { scale: 1.0, unit: String::new(), per_socket: false, snapshot: false }
    }
}

impl Measure {
    /// Parses the texts of the files `NAME.unit`, `NAME.scale`, `NAME.per-pkg` and `NAME.snapshot`, by the names of the files. Returns
    /// the measures by NAME. A scale that is no finite number above 0 counts as 1.
    pub fn from_sysfs_files(files: &BTreeMap<String, String>) -> BTreeMap<String, Self> {
        let mut measures: BTreeMap<String, Self> = BTreeMap::new();
        for (file, text) in files {
            let Some((name, extension)) = file.rsplit_once('.') else { continue };
            let measure = measures.entry(name.to_owned()).or_default();
            match extension {
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
    fn files_beside_an_alias_have_its_unit_and_scale() {
        let files = [
            ("energy-pkg.scale", "2.3283064365386962890625e-10"),
            ("energy-pkg.unit", "Joules"),
            ("energy-pkg.per-pkg", "1"),
            ("temp.snapshot", "1"),
            ("temp.scale", "inf"),
        ];
        let files = files.iter().map(|&(a, b)| (a.to_owned(), b.to_owned())).collect();
        let measures = Measure::from_sysfs_files(&files);
        let energy = &measures["energy-pkg"];
        assert_eq!((energy.unit.as_str(), energy.per_socket, energy.snapshot), ("Joules", true, false));
        assert!((energy.scale * 4_294_967_296.0 - 1.0).abs() < 1e-9);
        assert_eq!(measures["temp"], Measure { snapshot: true, ..Measure::default() });
    }
}
