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
    /// The time. With a bound, a sample that does not say when it was taken is not admitted.
    pub time: TimeRange,
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

/// Fewer letters are not taken for the beginning of an id.
const SHORTEST_ID: usize = 4;

/// A span of the recording's clock, both ends included.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct TimeRange {
    /// The first moment; the recording's beginning if absent.
    pub start: Option<Timestamp>,
    /// The last moment; the recording's end if absent.
    pub end: Option<Timestamp>,
}

impl TimeRange {
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
        let sample = SampleFacts {
            comm: &comm,
            pid: Pid(1),
            tid: Tid(2),
            cpu: Some(CpuId(3)),
            event: EventIndex(0),
            time: Some(Timestamp(4_000_000_000)),
            container: None,
        };
        let all = SampleFilter {
            comms: vec![b"ld".to_vec(), b"cc1".to_vec()],
            pids: vec![Pid(1)],
            tids: vec![Tid(2)],
            cpus: vec![0..=1, 3..=3],
            event: Some(EventIndex(0)),
            time: TimeRange { start: Some(Timestamp(4_000_000_000)), end: None },
            containers: vec!["docker:0123456789ab".to_owned(), HOST.to_owned()],
        };
        assert!(SampleFilter::default().admits(&sample) && all.admits(&sample));
        let without = [
            SampleFilter { comms: vec![b"cc".to_vec()], ..all.clone() },
            SampleFilter { pids: vec![Pid(2)], ..all.clone() },
            SampleFilter { tids: vec![Tid(1)], ..all.clone() },
            SampleFilter { cpus: vec![0..=2], ..all.clone() },
            SampleFilter { event: Some(EventIndex(1)), ..all.clone() },
            SampleFilter { containers: vec!["docker:0123456789ab".to_owned()], ..all.clone() },
            SampleFilter {
                time: TimeRange { start: None, end: Some(Timestamp(3_999_999_999)) },
                ..all.clone()
            },
        ];
        assert!(without.iter().all(|filter| !filter.admits(&sample)));
        let nowhere = SampleFacts { cpu: None, ..sample };
        let never = SampleFacts { time: None, ..sample };
        assert!(!all.admits(&nowhere) && !all.admits(&never));
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
