//! Which samples count.

use std::ops::RangeInclusive;

use model::{CpuId, EventIndex, Name, Pid, Tid, Timestamp};

/// What a filter looks at in a sample.
#[derive(Clone, Copy, Debug)]
pub struct SampleFacts<'a> {
    /// The thread's name at that time.
    pub comm: &'a Name,
    /// The process.
    pub pid: Pid,
    /// The thread.
    pub tid: Tid,
    /// Where, if the sample says.
    pub cpu: Option<CpuId>,
    /// Which event.
    pub event: EventIndex,
    /// When, if the sample says.
    pub time: Option<Timestamp>,
}

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
    /// The time. With a bound, a sample that does not say when it was taken is not admitted.
    pub time: TimeRange,
}

impl SampleFilter {
    /// Whether every sample is admitted.
    pub fn admits_all(&self) -> bool {
        *self == Self::default()
    }

    /// Whether the sample counts.
    pub fn admits(&self, sample: &SampleFacts<'_>) -> bool {
        (self.comms.is_empty() || self.comms.iter().any(|comm| comm == sample.comm.as_bytes()))
            && (self.pids.is_empty() || self.pids.contains(&sample.pid))
            && (self.tids.is_empty() || self.tids.contains(&sample.tid))
            && (self.cpus.is_empty()
                || sample.cpu.is_some_and(|cpu| self.cpus.iter().any(|range| range.contains(&cpu.0))))
            && self.event.is_none_or(|event| event == sample.event)
            && self.time.admits(sample.time)
    }
}

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
        };
        let all = SampleFilter {
            comms: vec![b"ld".to_vec(), b"cc1".to_vec()],
            pids: vec![Pid(1)],
            tids: vec![Tid(2)],
            cpus: vec![0..=1, 3..=3],
            event: Some(EventIndex(0)),
            time: TimeRange { start: Some(Timestamp(4_000_000_000)), end: None },
        };
        assert!(SampleFilter::default().admits(&sample) && all.admits(&sample));
        let without = [
            SampleFilter { comms: vec![b"cc".to_vec()], ..all.clone() },
            SampleFilter { pids: vec![Pid(2)], ..all.clone() },
            SampleFilter { tids: vec![Tid(1)], ..all.clone() },
            SampleFilter { cpus: vec![0..=2], ..all.clone() },
            SampleFilter { event: Some(EventIndex(1)), ..all.clone() },
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
}
