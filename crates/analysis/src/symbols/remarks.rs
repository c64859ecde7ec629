//! Remarks on files that were found and not used, or used in part only.

use std::collections::{BTreeMap, BTreeSet};

use model::Name;

use super::generated::{MapRemarks, add};

/// The remarks on the files that names come from, with all of a kind together.
#[derive(Default)]
pub struct Remarks {
    /// Files that were found and not used, one sentence each.
    pub(super) notes: BTreeSet<String>,
    /// The number of names that were cut, by the file that has them.
    cut_names: BTreeMap<Name, usize>,
    /// The first missing file of split debug information, and the number of missing ones, by object.
    missing_units: BTreeMap<Name, (String, usize)>,
    pub(super) maps: MapRemarks,
}

/// The files with split debug information that an object names and that were not found.
pub(super) struct MissingUnits {
    pub(super) object: Name,
    /// The path of the first.
    pub(super) first: String,
    pub(super) count: usize,
}

/// Maximum number of files of a kind that [`Remarks::merge`] keeps. Processes that come and go can have any number.
const MAX_FILES: usize = 64;

impl Remarks {
    /// Records how many names of a file were cut.
    pub(super) fn add_cut_names(&mut self, file: Name, count: usize) {
        let known = self.cut_names.entry(file).or_default();
        *known = count.max(*known);
    }

    /// Records files with split debug information that were not found.
    pub(super) fn add_missing_units(&mut self, missing: MissingUnits) {
        let MissingUnits { object, first, count } = missing;
        let known = self.missing_units.entry(object).or_default();
        if count > known.1 {
            *known = (first, count);
        }
    }

    /// Adds what was said of another lookup, within a bound: for those who look names up for days. Returns whether there
    /// was anything.
    pub fn merge(&mut self, other: Self) -> bool {
        let Self { notes, cut_names, missing_units, maps } = other;
        if notes.is_empty() && cut_names.is_empty() && missing_units.is_empty() && maps.is_empty() {
            return false;
        }
        add(&mut self.notes, notes, MAX_FILES);
        for (file, count) in cut_names {
            if self.cut_names.len() < MAX_FILES || self.cut_names.contains_key(&file) {
                self.add_cut_names(file, count);
            }
        }
        for (object, (first, count)) in missing_units {
            if self.missing_units.len() < MAX_FILES || self.missing_units.contains_key(&object) {
                self.add_missing_units(MissingUnits { object, first, count });
            }
        }
        self.maps.merge(maps, MAX_FILES);
        true
    }

    /// A sentence for each file, or for all files of a kind. They name files as the profiled machine calls them.
    pub fn sentences(&self) -> Vec<String> {
        let cut = self.cut_names.iter().map(|(object, count)| {
            let (names, were) = if *count == 1 { ("name", "was") } else { ("names", "were") };
            format!("{count} {names} in {object} longer than {} bytes {were} cut", Name::MAX_BYTES)
        });
        let missing = self.missing_units.iter().map(|(object, (first, count))| {
            let more = if *count > 1 { format!(" ({} more like it)", count - 1) } else { String::new() };
            format!(
                "functions that were inlined in {object} are not shown: {first}, which describes them, is missing{more}; \
                 put it there or beside the program"
            )
        });
        self.notes.iter().cloned().chain(cut).chain(missing).chain(self.maps.sentences()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merged_remarks_stay_bounded_and_say_each_file_once() {
        let mut all = Remarks::default();
        for number in 0..1000 {
            let mut some = Remarks::default();
            some.notes.insert(format!("/lib/{number} is not used"));
            some.add_cut_names(Name::from("/lib/names"), 1 + number % 3);
            some.add_cut_names(Name::from(format!("/lib/{number}").as_str()), 1);
            all.merge(some);
        }
        let sentences = all.sentences();
        assert_eq!(sentences.len(), 2 * MAX_FILES);
        let of_names: Vec<&String> = sentences.iter().filter(|said| said.contains("/lib/names")).collect();
        assert_eq!(of_names.len(), 1);
        assert!(of_names[0].starts_with("3 names in /lib/names longer than "), "{}", of_names[0]);
    }
}
