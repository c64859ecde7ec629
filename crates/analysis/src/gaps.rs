//! Finds the spans in which samples are missing: a ring was full, or the kernel throttled an event.

use std::collections::HashMap;

use decoder::Record;
use model::{CpuId, Gap, Timestamp};

/// Maximum number of gaps that are kept. A recording with more of them has hardly any samples.
const MAX_GAPS: usize = 100_000;

/// Collects gaps while a recording is read.
#[derive(Default, Debug)]
pub(crate) struct Gaps {
    pub(crate) list: Vec<Gap>,
    /// The times since which event instances are throttled, by their ids.
    throttled: HashMap<u64, Timestamp>,
    /// The times of the last samples, by CPU.
    sampled: HashMap<CpuId, Timestamp>,
    /// The time of the last sample of any CPU.
    last: Option<Timestamp>,
}

impl Gaps {
    /// Notes a sample: a gap of its CPU begins behind it.
    pub(crate) fn sample(&mut self, cpu: Option<CpuId>, time: Timestamp) {
        self.last = self.last.max(Some(time));
        let Some(cpu) = cpu else { return };
        if cpu <= CpuId::MAX {
            let last = self.sampled.entry(cpu).or_insert(time);
            *last = time.max(*last);
        }
    }

    /// Adds the gap that a record describes.
    pub(crate) fn record(&mut self, record: &Record<'_>) {
        match record {
            Record::Lost(lost) => {
                let Some(end) = lost.sample_id.time.filter(|end| end.0 > 0) else { return };
                let last = match lost.sample_id.cpu {
                    Some(cpu) => self.sampled.get(&cpu).copied(),
                    None => self.last,
                };
                let start = last.filter(|&start| start <= end).unwrap_or(end);
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

#[cfg(test)]
mod tests {
    use super::*;
    use decoder::record::{Lost, SampleId, Throttle};

    #[test]
    fn a_loss_lasts_from_the_last_sample_of_its_cpu() {
        let mut gaps = Gaps::default();
        for (time, cpu) in [(10, 0), (20, 1), (30, 0)] {
            gaps.sample(Some(CpuId(cpu)), Timestamp(time));
        }
        let lost = |cpu, time| {
            let sample_id =
                SampleId { cpu: Some(CpuId(cpu)), time: Some(Timestamp(time)), ..SampleId::default() };
            Record::Lost(Lost { id: 1, lost: 5, sample_id })
        };
        gaps.record(&lost(1, 50));
        gaps.record(&lost(7, 60));
        gaps.record(&lost(1, 0));
        let throttle =
            |time| Throttle { time: Timestamp(time), id: 1, stream_id: 9, sample_id: SampleId::default() };
        gaps.record(&Record::Unthrottle(throttle(65)));
        gaps.record(&Record::Throttle(throttle(70)));
        gaps.record(&Record::Unthrottle(throttle(80)));
        let found: Vec<_> = gaps.list.iter().map(|gap| (gap.start.0, gap.end.0, gap.lost)).collect();
        assert_eq!(found, [(20, 50, 5), (60, 60, 5), (70, 80, 0)]);
    }
}
