//! Remarks on files that were found and not used, or used in part only.

use std::collections::{BTreeMap, BTreeSet};

use host::perf_map::MAX_MAP_BYTES;
use model::{MapRefusal, Name};

use crate::generated_code::jit_dumps::DumpRemarks;

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
                "inlined functions of {object} are not shown: {first} is missing{more}; try it there, or beside the program"
            )
        });
        self.notes.iter().cloned().chain(cut).chain(missing).chain(self.maps.sentences()).collect()
    }
}

/// The remarks on maps that were not used, or in part only.
#[derive(Default)]
pub(super) struct MapRemarks {
    pub(super) refused: BTreeMap<MapRefusal, BTreeSet<String>>,
    pub(super) ageless: BTreeSet<String>,
    /// They list several functions at a sampled address.
    pub(super) ambiguous: BTreeSet<String>,
    /// Their processes ran other programs with generated code as well.
    pub(super) of_other_programs: BTreeSet<String>,
    /// Files that are too long to be read, with their sizes in bytes.
    pub(super) long: BTreeMap<String, u64>,
    /// Sentences about jitdump files.
    dumps: BTreeSet<String>,
    /// Maps that came in time. That they did not, at an earlier look, is no longer true.
    pub(super) answered: BTreeSet<String>,
}

impl MapRemarks {
    /// Adds remarks about jitdump files.
    pub(super) fn add_dumps(&mut self, remarks: DumpRemarks) {
        for refused in remarks.refused {
            self.refused.entry(refused.why).or_default().insert(refused.path);
        }
        self.dumps.extend(remarks.sentences);
    }

    /// Returns true if there are no remarks.
    pub(super) fn is_empty(&self) -> bool {
        let Self { refused, ageless, ambiguous, of_other_programs, long, dumps, answered } = self;
        let sets = [ageless, ambiguous, of_other_programs, dumps, answered];
        refused.is_empty() && long.is_empty() && sets.into_iter().all(BTreeSet::is_empty)
    }

    /// Adds those of a later look, so that each list has at most `most`.
    pub(super) fn merge(&mut self, others: Self, most: usize) {
        let Self { refused, ageless, ambiguous, of_other_programs, long, dumps, answered } = others;
        if let Some(unanswered) = self.refused.get_mut(&MapRefusal::Unanswered) {
            unanswered.retain(|path| !answered.contains(path));
        }
        self.refused.retain(|_, paths| !paths.is_empty());
        for (why, paths) in refused {
            add(self.refused.entry(why).or_default(), paths, most);
        }
        add(&mut self.ageless, ageless, most);
        add(&mut self.ambiguous, ambiguous, most);
        add(&mut self.of_other_programs, of_other_programs, most);
        add(&mut self.dumps, dumps, most);
        for (path, size) in long {
            if self.long.len() < most || self.long.contains_key(&path) {
                self.long.insert(path, size);
            }
        }
    }

    /// A sentence for each kind.
    pub(super) fn sentences(&self) -> Vec<String> {
        let refused = self.refused.iter().map(|(why, paths)| match several(paths) {
            (path, 0) => format!("{path} is not used: {why}"),
            (path, more) => format!("{path} is not used: {why} ({more} more like it)"),
        });
        let of_all = |paths: &BTreeSet<String>, what: &str| {
            let (path, more) = several(paths);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            (!paths.is_empty()).then(|| format!("{path}{more} {what}"))
        };
        let ageless = of_all(
            &self.ageless,
            "may be from an earlier process with the same number: the recording has no wall-clock time",
        );
        let ambiguous = of_all(
            &self.ambiguous,
            "has several functions at one address, shown as `NAME (or EARLIER NAME)`; a jitdump would tell them apart",
        );
        let of_other_programs = of_all(
            &self.of_other_programs,
            "names the generated code of one program only, not of others that the process ran",
        );
        let partly = ambiguous.into_iter().chain(of_other_programs);
        let long = self.long.iter().map(|(path, size)| {
            format!("{path} has {} MiB: only the last {} MiB are read", size >> 20, MAX_MAP_BYTES >> 20)
        });
        refused.chain(ageless).chain(partly).chain(long).chain(self.dumps.iter().cloned()).collect()
    }
}

/// Adds texts, so that there are at most `most`.
fn add(texts: &mut BTreeSet<String>, more: BTreeSet<String>, most: usize) {
    let room = most.saturating_sub(texts.len());
    let new: Vec<String> = more.into_iter().filter(|text| !texts.contains(text)).take(room).collect();
    texts.extend(new);
}

/// The first path, and how many others there are.
fn several(paths: &BTreeSet<String>) -> (&str, usize) {
    (paths.first().map_or("", String::as_str), paths.len().saturating_sub(1))
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

    #[test]
    fn a_map_that_came_in_time_is_no_longer_said_to_be_late() {
        let path = || "/tmp/perf-1.map".to_owned();
        let refused = |why| {
            let mut remarks = MapRemarks::default();
            remarks.refused.insert(why, [path()].into());
            remarks
        };
        let answered = || MapRemarks { answered: [path()].into(), ..MapRemarks::default() };
        let mut all = refused(MapRefusal::Unanswered);
        all.merge(MapRemarks::default(), 9);
        assert_eq!(all.sentences(), ["/tmp/perf-1.map is not used: it could not be read in time"]);
        assert!(!answered().is_empty(), "it is to be merged");
        all.merge(answered(), 9);
        assert!(all.sentences().is_empty());
        // A later answer does not make a foreign file ours.
        all.merge(refused(MapRefusal::Foreign), 9);
        all.merge(answered(), 9);
        assert_eq!(all.sentences().len(), 1);
    }

    #[test]
    fn each_kind_is_said_once() {
        let mut remarks = MapRemarks::default();
        let paths =
            |numbers: &[u32]| numbers.iter().map(|number| format!("/tmp/perf-{number}.map")).collect();
        remarks.refused.insert(MapRefusal::Foreign, paths(&[2, 1]));
        remarks.refused.insert(MapRefusal::Older, paths(&[3]));
        remarks.ageless = paths(&[4, 5]);
        let said = remarks.sentences();
        assert_eq!(
            said,
            [
                "/tmp/perf-1.map is not used: it belongs to another user than the process (1 more like it)",
                "/tmp/perf-3.map is not used: it is older than the process",
                "/tmp/perf-4.map and 1 more may be from an earlier process with the same number: the recording has no \
                 wall-clock time",
            ]
        );
    }
}
