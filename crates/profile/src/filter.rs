//! Which samples count.

use std::ops::RangeInclusive;

use model::{CpuId, EventIndex, Name, Pid, Tid, Timestamp};

/// A sample's thread, CPU, event and time: filters on samples look at these.
#[derive(Clone, Copy, Debug)]
pub struct SampleFacts<'a> {
    /// The thread's name at that time.
    pub comm: &'a Name,
    /// The process.
    pub pid: Pid,
    /// The thread.
    pub tid: Tid,
    /// The CPU, if the sample states one.
    pub cpu: Option<CpuId>,
    /// The event that took it.
    pub event: EventIndex,
    /// The time, if the sample states one.
    pub time: Option<Timestamp>,
    /// In which container; `None` on the host, and where the filter does not ask.
    pub container: Option<&'a Name>,
    /// The path of its cgroup; `None` where the sample does not say, and where the filter does not ask.
    pub cgroup: Option<&'a Name>,
}

/// The container name for samples outside all containers.
pub const HOST: &str = "host";

/// A choice of samples. An empty list admits all; several kinds of conditions must all hold.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct SampleFilter {
    /// Thread names.
    pub comms: Vec<Vec<u8>>,
    /// Processes.
    pub pids: Vec<Pid>,
    /// Threads.
    pub tids: Vec<Tid>,
    /// CPUs. With a list, a sample that does not say where it was taken is not admitted.
    pub cpus: Vec<RangeInclusive<u32>>,
    /// The event.
    pub event: Option<EventIndex>,
    /// Containers: as they are shown (`docker:0123456789ab`, `host`), or by id, whole or its beginning.
    pub containers: Vec<String>,
    /// Cgroups by path, each with those below it. With a list, a sample that does not say its cgroup is not admitted.
    pub cgroups: Vec<String>,
    /// The time. With a bound, a sample that does not say when it was taken is not admitted. Must be on the recording's clock when
    /// samples are asked for.
    pub time: TimeRange,
    /// How many threads of a process ran at the time of a sample. Only with time on a CPU as the weight.
    pub parallelism: Vec<RangeInclusive<u32>>,
}

impl SampleFilter {
    /// Returns true if every sample is admitted.
    pub fn admits_all(&self) -> bool {
        *self == Self::default()
    }

    /// Returns true if the sample counts.
    pub fn admits(&self, sample: &SampleFacts<'_>) -> bool {
        (self.comms.is_empty() || self.comms.iter().any(|comm| comm == sample.comm.as_bytes()))
            && (self.pids.is_empty() || self.pids.contains(&sample.pid))
            && (self.tids.is_empty() || self.tids.contains(&sample.tid))
            && (self.cpus.is_empty()
                || sample.cpu.is_some_and(|cpu| self.cpus.iter().any(|range| range.contains(&cpu.0))))
            && self.event.is_none_or(|event| event == sample.event)
            && self.time.admits(sample.time)
            && (self.containers.is_empty()
                || self.admits_container(&sample.container.map_or_else(|| HOST.to_owned(), Name::to_string)))
            && (self.cgroups.is_empty()
                || sample
                    .cgroup
                    .is_some_and(|path| self.cgroups.iter().any(|typed| is_in_cgroup(path, typed))))
    }

    fn admits_container(&self, name: &str) -> bool {
        self.containers.iter().any(|typed| is_container(name, typed))
    }
}

/// Returns true if a container is the one that was typed.
pub fn is_container(name: &str, typed: &str) -> bool {
    if name == HOST {
        return typed == HOST;
    }
    let id = name.rsplit([':', '/']).next().unwrap_or(name);
    let is_id = typed.len() >= SHORTEST_ID && (id.starts_with(typed) || typed.starts_with(id));
    name == typed || is_id || name.split_once(':').is_some_and(|(_, rest)| rest == typed)
}

/// Returns true if a cgroup is the one that was typed, or below it. Slashes around what was typed do not matter.
pub fn is_in_cgroup(path: &Name, typed: &str) -> bool {
    fn without_slash(path: &[u8]) -> &[u8] {
        path.strip_prefix(b"/").unwrap_or(path)
    }
    let typed = typed.trim_matches('/').as_bytes();
    let rest = without_slash(path.as_bytes()).strip_prefix(typed);
    rest.is_some_and(|rest| typed.is_empty() || rest.is_empty() || rest.starts_with(b"/"))
}

/// Fewer letters are not taken for the beginning of an id.
const SHORTEST_ID: usize = 4;

/// A span of time, both ends included.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct TimeRange {
    /// The first moment; the recording's beginning if absent.
    pub start: Option<Timestamp>,
    /// The last moment; the recording's end if absent.
    pub end: Option<Timestamp>,
    /// True if both count from the start of the recording, false if they are times of its clock.
    pub from_start: bool,
}

impl TimeRange {
    /// Returns the range on the recording's clock, given the start of the recording on it. Changes nothing if it is already.
    #[must_use]
    pub fn on_clock(self, origin: Timestamp) -> Self {
        if !self.from_start {
            return self;
        }
        let at = |time: Timestamp| Timestamp(time.0.saturating_add(origin.0));
        Self { start: self.start.map(at), end: self.end.map(at), from_start: false }
    }

    fn admits(&self, time: Option<Timestamp>) -> bool {
        if *self == Self::default() {
            return true;
        }
        time.is_some_and(|time| {
            self.start.is_none_or(|start| start <= time) && self.end.is_none_or(|end| time <= end)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_condition_must_hold() {
        let comm = Name::from("cc1");
        let cgroup = Name::from("/build.slice/one.service");
        let sample = SampleFacts {
            comm: &comm,
            pid: Pid(1),
            tid: Tid(2),
            cpu: Some(CpuId(3)),
            event: EventIndex(0),
            time: Some(Timestamp(4_000_000_000)),
            container: None,
            cgroup: Some(&cgroup),
        };
        let all = SampleFilter {
            comms: vec![b"ld".to_vec(), b"cc1".to_vec()],
            pids: vec![Pid(1)],
            tids: vec![Tid(2)],
            cpus: vec![0..=1, 3..=3],
            event: Some(EventIndex(0)),
            time: TimeRange { start: Some(Timestamp(4_000_000_000)), ..TimeRange::default() },
            containers: vec!["docker:0123456789ab".to_owned(), HOST.to_owned()],
            cgroups: vec!["/build.slice".to_owned()],
            parallelism: Vec::new(),
        };
        assert!(SampleFilter::default().admits(&sample) && all.admits(&sample));
        let without = [
            SampleFilter { comms: vec![b"cc".to_vec()], ..all.clone() },
            SampleFilter { pids: vec![Pid(2)], ..all.clone() },
            SampleFilter { tids: vec![Tid(1)], ..all.clone() },
            SampleFilter { cpus: vec![0..=2], ..all.clone() },
            SampleFilter { event: Some(EventIndex(1)), ..all.clone() },
            SampleFilter { containers: vec!["docker:0123456789ab".to_owned()], ..all.clone() },
            SampleFilter { cgroups: vec!["/user.slice".to_owned()], ..all.clone() },
            SampleFilter {
                time: TimeRange { end: Some(Timestamp(3_999_999_999)), ..TimeRange::default() },
                ..all.clone()
            },
        ];
        assert!(without.iter().all(|filter| !filter.admits(&sample)));
        let nowhere = SampleFacts { cpu: None, ..sample };
        let never = SampleFacts { time: None, ..sample };
        let in_no_group = SampleFacts { cgroup: None, ..sample };
        assert!(!all.admits(&nowhere) && !all.admits(&never) && !all.admits(&in_no_group));
    }

    #[test]
    fn a_cgroup_has_those_below_it() {
        let path = Name::from("/system.slice/db.service");
        for typed in ["/", "/system.slice", "system.slice/", "/system.slice/db.service"] {
            assert!(is_in_cgroup(&path, typed), "{typed}");
        }
        for other in ["/system", "/system.slice/db", "db.service", "/system.slice/db.service/worker"] {
            assert!(!is_in_cgroup(&path, other), "{other}");
        }
        assert!(is_in_cgroup(&Name::from("/"), "/") && !is_in_cgroup(&Name::from("/"), "/a"));
    }

    #[test]
    fn containers_are_known_by_their_names_and_ids() {
        let (docker, pod) = ("docker:0123456789ab", "k8s:1b2c3d4e/0123456789ab");
        for typed in ["0123", "0123456789ab", &"0123456789ab".repeat(4)] {
            assert!(is_container(docker, typed) && is_container(pod, typed), "{typed}");
        }
        assert!(is_container(docker, "docker:0123456789ab"));
        assert!(is_container(pod, "1b2c3d4e/0123456789ab"));
        assert!(is_container("lxc:web", "web"));
        for other in ["012", "docker", "host", "", "1123456789ab", "k8s:"] {
            assert!(!is_container(docker, other), "{other}");
        }
        assert!(is_container(HOST, HOST) && !is_container(HOST, "0123"));
    }
}
