//! A filter of samples that can explain why it let none pass: it then lists the names, processes and times that the recording has.

use std::collections::{BTreeSet, HashMap};
use std::fmt::Display;
use std::hash::Hash;

use export::summary::grouped;
use model::{Name, Pid, Tid, Timestamp};
use perfdata::features::Features;

use crate::notices::MAX_LISTED;
use profile::{HOST, SampleFacts, SampleFilter, TimeRange};

/// Filters samples. Until a sample passes, it counts the names, processes and other properties of those that it rejects, so
/// that [`Self::why_none`] can list them.
///
/// A range of times that counts from the start of the recording, and is still not on its clock, counts from the first sample.
pub struct ExplainedFilter {
    filter: SampleFilter,
    /// The range of times as it was asked for.
    asked_time: TimeRange,
    /// The start of the recording that it counts from.
    origin: Option<Timestamp>,
    /// `None` once a sample has passed.
    rejected: Option<RejectedSamples>,
}

/// The numbers of rejected samples, by each property that a filter can ask for.
#[derive(Default)]
struct RejectedSamples {
    comms: HashMap<Name, u64>,
    pids: HashMap<Pid, u64>,
    tids: HashMap<Tid, u64>,
    cpus: BTreeSet<u32>,
    containers: HashMap<String, u64>,
    cgroups: HashMap<Name, u64>,
    /// The times of the first and the last sample, in nanoseconds.
    times: Option<(u64, u64)>,
}

/// Maximum number of different values that are counted of each property: only the most frequent [`MAX_LISTED`] are shown.
const MAX_COUNTED_VALUES: usize = 4096;

impl ExplainedFilter {
    /// Creates a filter that has seen no sample.
    pub fn new(filter: SampleFilter) -> Self {
        let rejected = (!filter.admits_all()).then(RejectedSamples::default);
        Self { asked_time: filter.time, origin: None, filter, rejected }
    }

    /// Returns the filter.
    pub fn filter(&self) -> &SampleFilter {
        &self.filter
    }

    /// Counts times from the start of the recording, if its header says when its first sample was taken.
    #[must_use]
    pub fn with_start_of(mut self, features: &Features) -> Self {
        self.origin = start_of(features);
        if let Some(origin) = self.origin {
            self.filter.time = self.filter.time.on_clock(origin);
        }
        self
    }

    /// Returns true if the sample passes.
    pub fn admits(&mut self, sample: &SampleFacts<'_>) -> bool {
        if self.filter.time.from_start {
            // Without a time, no sample is in the range.
            let Some(time) = sample.time else { return false };
            self.origin = Some(time);
            self.filter.time = self.filter.time.on_clock(time);
        }
        let admits = self.filter.admits(sample);
        if let Some(rejected) = &mut self.rejected {
            if admits {
                self.rejected = None;
            } else {
                rejected.count(sample);
            }
        }
        admits
    }

    /// Explains why no sample passed: a sentence that lists what the recording has instead. Returns `None` if a sample passed, or
    /// if there was no sample at all.
    pub fn why_none(&self) -> Option<String> {
        let rejected = self.rejected.as_ref().filter(|rejected| !rejected.comms.is_empty())?;
        let RejectedSamples { comms, pids, tids, cpus, containers, cgroups, times } = rejected;
        let filter = &self.filter;
        let mut reasons = Vec::new();
        let asked: Vec<String> = filter.comms.iter().map(|comm| Name::new(comm).to_string()).collect();
        if !asked.is_empty() && !filter.comms.iter().any(|comm| comms.contains_key(&Name::new(comm))) {
            reasons.push(format!("of --comm {}: there are {}", asked.join(", "), most(comms)));
        }
        reasons.extend(missing("--pid", &filter.pids, pids));
        reasons.extend(missing("--tid", &filter.tids, tids));
        if !filter.cpus.is_empty()
            && !cpus.iter().any(|cpu| filter.cpus.iter().any(|range| range.contains(cpu)))
        {
            let there: Vec<String> = cpus.iter().take(MAX_LISTED).map(u32::to_string).collect();
            let others = if cpus.len() > MAX_LISTED { ", …" } else { "" };
            reasons.push(match there.is_empty() {
                true => "of --cpu: the samples do not say where they were taken".to_owned(),
                false => format!("of --cpu: there are {}{others}", there.join(", ")),
            });
        }
        reasons.extend(missing_container(&filter.containers, containers));
        reasons.extend(missing_cgroup(&filter.cgroups, cgroups));
        let range = filter.time;
        match times {
            _ if range == Default::default() => {}
            None => reasons.push("of --time: the samples have no times".to_owned()),
            Some((first, last))
                if range.start.is_some_and(|start| start.0 > *last)
                    || range.end.is_some_and(|end| end.0 < *first) =>
            {
                reasons.push(self.missing_time(*first, *last));
            }
            Some(_) => {}
        }
        Some(match reasons.is_empty() {
            true => "no sample meets all conditions at once".to_owned(),
            false => format!("no sample is {}", reasons.join("; none is ")),
        })
    }
}

impl ExplainedFilter {
    /// Explains that the recording has no samples in the range asked for, and says what to type if it fits the other clock.
    fn missing_time(&self, first: u64, last: u64) -> String {
        let asked = self.asked_time;
        let origin = self.origin.map_or(0, |origin| origin.0);
        let (sign, shift) = if asked.from_start { ("", origin) } else { ("@", 0) };
        let [from, to] = [first, last].map(|time| seconds(time.saturating_sub(shift)));
        let there = format!("of --time: they are from {sign}{from} to {sign}{to} s");
        let fits_clock =
            asked.start.is_none_or(|start| start.0 <= last) && asked.end.is_none_or(|end| end.0 >= first);
        if !asked.from_start || !fits_clock {
            return there;
        }
        let typed = |time: Option<Timestamp>| {
            time.map_or(String::new(), |time| format!("@{}", exact_seconds(time.0)))
        };
        let typed = format!("{},{}", typed(asked.start), typed(asked.end));
        format!("{there} after the start; for times of the recorder's clock, try: --time {typed}")
    }
}

/// Returns when the first sample was taken, if the header says so.
pub fn start_of(features: &Features) -> Option<Timestamp> {
    features.sample_time.filter(|&(first, last)| (first, last) != (0, 0)).map(|(first, _)| Timestamp(first))
}

/// Formats a time without rounding.
fn exact_seconds(nanoseconds: u64) -> String {
    let text = format!("{}.{:09}", nanoseconds / 1_000_000_000, nanoseconds % 1_000_000_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

impl RejectedSamples {
    fn count(&mut self, sample: &SampleFacts<'_>) {
        increment(&mut self.comms, sample.comm);
        increment(&mut self.pids, &sample.pid);
        increment(&mut self.tids, &sample.tid);
        increment(&mut self.containers, &sample.container.map_or_else(|| HOST.to_owned(), Name::to_string));
        if let Some(cgroup) = sample.cgroup {
            increment(&mut self.cgroups, cgroup);
        }
        self.cpus.extend(sample.cpu.map(|cpu| cpu.0));
        if let Some(time) = sample.time {
            let (first, last) = self.times.unwrap_or((time.0, time.0));
            self.times = Some((first.min(time.0), last.max(time.0)));
        }
    }
}

fn increment<K: Clone + Eq + Hash>(counts: &mut HashMap<K, u64>, key: &K) {
    if let Some(count) = counts.get_mut(key) {
        *count += 1;
    } else if counts.len() < MAX_COUNTED_VALUES {
        counts.insert(key.clone(), 1);
    }
}

/// Explains that the recording has none of the processes or threads asked for, and lists those that it has.
fn missing<K: Eq + Hash + Ord + Display>(flag: &str, asked: &[K], there: &HashMap<K, u64>) -> Option<String> {
    if asked.is_empty() || asked.iter().any(|asked| there.contains_key(asked)) {
        return None;
    }
    let asked: Vec<String> = asked.iter().map(K::to_string).collect();
    Some(format!("of {flag} {}: there are {}", asked.join(","), most(there)))
}

/// Explains that the recording has none of the containers asked for, and lists those that it has.
fn missing_container(asked: &[String], there: &HashMap<String, u64>) -> Option<String> {
    let is_there = |typed: &String| there.keys().any(|known| profile::is_container(known, typed));
    if asked.is_empty() || asked.iter().any(is_there) {
        return None;
    }
    let all_host = there.keys().all(|known| known == HOST);
    let why = if all_host { " (the recording tells of no other)" } else { "" };
    Some(format!("of --container {}: there are {}{why}", asked.join(", "), most(there)))
}

/// Explains that the recording has none of the cgroups asked for, and lists those that it has.
fn missing_cgroup(asked: &[String], there: &HashMap<Name, u64>) -> Option<String> {
    let is_there = |typed: &String| there.keys().any(|known| profile::is_in_cgroup(known, typed));
    if asked.is_empty() || asked.iter().any(is_there) {
        return None;
    }
    let of = format!("of --cgroup {}", asked.join(", "));
    Some(match there.is_empty() {
        true => format!("{of}: the samples do not say their cgroups; try: prof record --all-cgroups"),
        false => format!("{of}: there are {}", most(there)),
    })
}

/// Lists the values with the most samples: `rustc (1,234 samples), ld (12) and 3 others`.
fn most<K: Ord + Display>(counts: &HashMap<K, u64>) -> String {
    let mut all: Vec<(&K, u64)> = counts.iter().map(|(key, count)| (key, *count)).collect();
    all.sort_by(|(one, of_one), (other, of_other)| of_other.cmp(of_one).then_with(|| one.cmp(other)));
    let word = |index| if index > 0 { "" } else { " samples" };
    let listed = all.iter().take(MAX_LISTED).enumerate();
    let listed: Vec<String> =
        listed.map(|(index, (key, count))| format!("{key} ({}{})", grouped(*count), word(index))).collect();
    match all.len().saturating_sub(MAX_LISTED) {
        0 => listed.join(", "),
        others => format!("{} and {others} others", listed.join(", ")),
    }
}

/// Formats a time as `perf script` prints it and `--time` accepts it: seconds with six decimals.
fn seconds(nanoseconds: u64) -> String {
    format!("{}.{:06}", nanoseconds / 1_000_000_000, nanoseconds % 1_000_000_000 / 1000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{CpuId, EventIndex};

    fn why(filter: SampleFilter) -> Option<String> {
        let mut explained = ExplainedFilter::new(filter);
        for (comm, pid, time) in
            [("work", 7, 1_500_000_000), ("work", 7, 2_500_000_000), ("sh", 8, 3_000_000_000)]
        {
            let cgroup = (comm == "work").then(|| Name::from("/build.slice"));
            explained.admits(&SampleFacts {
                comm: &Name::from(comm),
                pid: Pid(pid),
                tid: Tid(pid),
                cpu: Some(CpuId(1)),
                event: EventIndex(0),
                time: Some(Timestamp(time)),
                container: None,
                cgroup: cgroup.as_ref(),
            });
        }
        explained.why_none()
    }

    #[test]
    fn times_count_from_the_start() {
        let range = |start: u64, end: u64| TimeRange {
            start: Some(Timestamp(start)),
            end: Some(Timestamp(end)),
            from_start: true,
        };
        let filter = |time| SampleFilter { time, ..SampleFilter::default() };
        // The samples are taken 0, 1 and 1.5 s after the first.
        assert_eq!(why(filter(range(900_000_000, 1_000_000_000))), None);
        assert_eq!(
            why(filter(range(1_600_000_000, 2_500_000_000))).unwrap(),
            "no sample is of --time: they are from 0.000000 to 1.500000 s after the start; for times of the recorder's clock, \
             try: --time @1.6,@2.5"
        );
        let said = why(filter(range(4_000_000_000, 5_000_000_000))).unwrap();
        assert_eq!(said, "no sample is of --time: they are from 0.000000 to 1.500000 s");
        // The header knows of a sample before.
        let features = Features { sample_time: Some((1_000_000_000, 3_000_000_000)), ..Features::default() };
        let filter = ExplainedFilter::new(filter(range(0, 400_000_000))).with_start_of(&features);
        assert_eq!(filter.filter.time.end, Some(Timestamp(1_400_000_000)));
    }

    #[test]
    fn what_the_recording_has_is_listed_where_no_sample_passes() {
        let nothing = SampleFilter::default();
        let comms = vec![b"nosuch".to_vec()];
        let said = why(SampleFilter { comms, ..nothing.clone() }).unwrap();
        assert_eq!(said, "no sample is of --comm nosuch: there are work (2 samples), sh (1)");
        let said = why(SampleFilter { pids: vec![Pid(9)], cpus: vec![4..=5], ..nothing.clone() }).unwrap();
        assert_eq!(
            said,
            "no sample is of --pid 9: there are 7 (2 samples), 8 (1); none is of --cpu: there are 1"
        );
        let time = TimeRange { start: Some(Timestamp(9_000_000_000)), ..TimeRange::default() };
        let said = why(SampleFilter { time, ..nothing.clone() }).unwrap();
        assert_eq!(said, "no sample is of --time: they are from @1.500000 to @3.000000 s");
        let cgroups = vec!["/user.slice".to_owned()];
        let said = why(SampleFilter { cgroups: cgroups.clone(), ..nothing.clone() }).unwrap();
        assert_eq!(said, "no sample is of --cgroup /user.slice: there are /build.slice (2 samples)");
        assert_eq!(
            missing_cgroup(&cgroups, &HashMap::new()).unwrap(),
            "of --cgroup /user.slice: the samples do not say their cgroups; try: prof record --all-cgroups"
        );
        let both = SampleFilter { comms: vec![b"sh".to_vec()], pids: vec![Pid(7)], ..nothing.clone() };
        assert_eq!(why(both).unwrap(), "no sample meets all conditions at once");
        assert_eq!(why(SampleFilter { pids: vec![Pid(8)], ..nothing.clone() }), None);
        assert_eq!(why(nothing), None);
    }
}
