//! Finds the spans in which samples are missing: a ring was full, or the kernel throttled an event.

use std::collections::HashMap;

use decoder::Record;
use model::{CpuId, Timestamp};
use profile::Profile;

/// A stretch of time in which samples are missing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Gap {
    /// The last sample of the CPU before it, or when the event was throttled.
    pub start: Timestamp,
    /// The time at which the kernel could write again, or let the event go on.
    pub end: Timestamp,
    /// Records of any kind that were lost; 0 where the event was throttled.
    pub lost: u64,
}

/// Maximum number of samples that are searched for the last one of a CPU.
const MAX_SEARCHED_SAMPLES: usize = 4096;

/// Maximum number of gaps that are kept. A recording with more of them has hardly any samples.
const MAX_GAPS: usize = 100_000;

/// Collects gaps while a recording is read.
#[derive(Default, Debug)]
pub(crate) struct Gaps {
    pub(crate) list: Vec<Gap>,
    /// The times since which event instances are throttled, by their ids.
    throttled: HashMap<u64, Timestamp>,
}

impl Gaps {
    /// Adds the gap that a record describes. `profiles` have the samples before the record.
    pub(crate) fn record<'p>(&mut self, record: &Record<'_>, profiles: impl Iterator<Item = &'p Profile>) {
        match record {
            Record::Lost(lost) => {
                let Some(end) = lost.sample_id.time.filter(|end| end.0 > 0) else { return };
                let cpu = lost.sample_id.cpu;
                let start =
                    profiles.filter_map(|profile| last_before(profile, cpu, end)).max().unwrap_or(end);
                self.push(Gap { start, end, lost: lost.lost });
            }
            Record::Throttle(throttle) => {
                self.throttled.insert(throttle.stream_id, throttle.time);
            }
            Record::Unthrottle(throttle) => {
                if let Some(start) = self.throttled.remove(&throttle.stream_id) {
                    self.push(Gap { start, end: throttle.time, lost: 0 });
                }
            }
            _ => {}
        }
    }

    fn push(&mut self, gap: Gap) {
        if self.list.len() < MAX_GAPS && gap.start <= gap.end {
            self.list.push(gap);
        }
    }
}

/// Returns the time of the last sample of a CPU before `end`.
fn last_before(profile: &Profile, cpu: Option<CpuId>, end: Timestamp) -> Option<Timestamp> {
    let samples = profile.samples();
    let skipped = samples.len().saturating_sub(MAX_SEARCHED_SAMPLES);
    let last = samples.iter().skip(skipped).filter(|sample| cpu.is_none() || sample.cpu == cpu);
    last.filter_map(|sample| sample.time).filter(|&time| time <= end).max()
}

#[cfg(test)]
mod tests {
    use decoder::record::{Lost, SampleId, Throttle};
    use model::{Name, Pid, Tid};
    use profile::{Columns, Detail, Sample, StackId};

    use super::*;

    #[test]
    fn a_loss_lasts_from_the_last_sample_of_its_cpu() {
        let samples = Some(Columns { times: true, cpus: true });
        let mut profile = Profile::new(Detail { samples, ..Detail::default() });
        let thread = profile.thread(&Name::from("a"), Pid(1), Tid(1), || Name::from("a"));
        for (time, cpu) in [(10, 0), (20, 1), (30, 0)] {
            let (time, cpu) = (Some(Timestamp(time)), Some(CpuId(cpu)));
            profile.count(Sample { thread, stack: StackId::EMPTY, period: 1, time, cpu });
        }
        let mut gaps = Gaps::default();
        let lost = |cpu, time| {
            let sample_id =
                SampleId { cpu: Some(CpuId(cpu)), time: Some(Timestamp(time)), ..SampleId::default() };
            Record::Lost(Lost { id: 1, lost: 5, sample_id })
        };
        gaps.record(&lost(1, 50), std::iter::once(&profile));
        gaps.record(&lost(7, 60), std::iter::once(&profile));
        gaps.record(&lost(1, 0), std::iter::once(&profile));
        let throttle =
            |time| Throttle { time: Timestamp(time), id: 1, stream_id: 9, sample_id: SampleId::default() };
        gaps.record(&Record::Unthrottle(throttle(65)), std::iter::empty());
        gaps.record(&Record::Throttle(throttle(70)), std::iter::empty());
        gaps.record(&Record::Unthrottle(throttle(80)), std::iter::empty());
        let found: Vec<_> = gaps.list.iter().map(|gap| (gap.start.0, gap.end.0, gap.lost)).collect();
        assert_eq!(found, [(20, 50, 5), (60, 60, 5), (70, 80, 0)]);
    }
}
