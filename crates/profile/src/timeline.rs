//! Weight over time, in buckets.

use std::collections::BTreeMap;

use model::{CpuId, Timestamp};

use crate::{Samples, ThreadId, Weight};

/// The meaning of a lane of a timeline.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lanes {
    /// One lane for everything.
    One,
    /// One for each thread.
    Threads,
    /// One for each CPU.
    Cpus,
}

/// The owner of a lane.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Lane {
    /// Everything.
    All,
    /// A thread.
    Thread(ThreadId),
    /// A CPU; `None` for samples that do not say on which they were taken.
    Cpu(Option<CpuId>),
}

/// Weight over time, in buckets of equal length.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Timeline {
    /// The time at which the first bucket begins.
    pub start: Timestamp,
    /// Length of a bucket, nanoseconds; at least 1.
    pub bucket_ns: u64,
    /// The lanes, each with the weight in every bucket.
    pub lanes: Vec<(Lane, Vec<u64>)>,
    /// The weight of samples without a time: they are in no bucket.
    pub untimed: u64,
}

/// Sorts samples into `buckets` (at least one) of equal length between the first and the last time. Needs the column of times;
/// lanes of CPUs need that of CPUs.
pub fn timeline(samples: &Samples, lanes: Lanes, weight: Weight, buckets: usize) -> Timeline {
    let buckets = buckets.max(1);
    let times = || samples.iter().filter_map(|sample| sample.time);
    let start = times().min().unwrap_or(Timestamp(0));
    let last = times().max().unwrap_or(start);
    let bucket_ns = (last.0 - start.0) / buckets as u64 + 1;
    let mut by_lane: BTreeMap<Lane, Vec<u64>> = BTreeMap::new();
    let mut untimed = 0_u64;
    for sample in samples.iter() {
        let weight = sample.weight(weight);
        let Some(time) = sample.time else {
            untimed = untimed.saturating_add(weight);
            continue;
        };
        let lane = match lanes {
            Lanes::One => Lane::All,
            Lanes::Threads => Lane::Thread(sample.thread),
            Lanes::Cpus => Lane::Cpu(sample.cpu),
        };
        let lane = by_lane.entry(lane).or_insert_with(|| vec![0; buckets]);
        let bucket = &mut lane[((time.0 - start.0) / bucket_ns) as usize];
        *bucket = bucket.saturating_add(weight);
    }
    Timeline { start, bucket_ns, lanes: by_lane.into_iter().collect(), untimed }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Columns, Sample, StackId};
    use proptest::prelude::*;

    fn samples(times: &[(Option<u64>, u32)]) -> Samples {
        let mut samples = Samples::new(Columns { times: true, cpus: true });
        for &(time, cpu) in times {
            let (time, cpu) = (time.map(Timestamp), Some(CpuId(cpu)));
            samples.push(Sample {
                thread: ThreadId::default(),
                stack: StackId::EMPTY,
                period: 10,
                time,
                cpu,
                is_continued: false,
            });
        }
        samples
    }

    #[test]
    fn samples_fall_into_the_bucket_of_their_time() {
        let samples = samples(&[(Some(100), 0), (Some(149), 1), (Some(150), 0), (Some(199), 1), (None, 0)]);
        let all = timeline(&samples, Lanes::One, Weight::Period, 2);
        assert_eq!((all.start, all.bucket_ns, all.untimed), (Timestamp(100), 50, 10));
        assert_eq!(all.lanes, [(Lane::All, vec![20, 20])]);
        let cpus = timeline(&samples, Lanes::Cpus, Weight::Samples, 2);
        let lane = |cpu| Lane::Cpu(Some(CpuId(cpu)));
        assert_eq!(cpus.lanes, [(lane(0), vec![1, 1]), (lane(1), vec![1, 1])]);
    }

    #[test]
    fn nothing_is_no_lane() {
        assert_eq!(timeline(&samples(&[]), Lanes::One, Weight::Samples, 8).lanes, []);
    }

    proptest! {
        #[test]
        fn the_buckets_sum_to_the_whole(
            times in prop::collection::vec((prop::option::of(0..u64::MAX), 0..4_u32), 0..50),
            buckets in 0_usize..20,
        ) {
            for lanes in [Lanes::One, Lanes::Threads, Lanes::Cpus] {
                let line = timeline(&samples(&times), lanes, Weight::Samples, buckets);
                let sum: u64 = line.lanes.iter().flat_map(|(_, buckets)| buckets).sum();
                prop_assert_eq!(sum + line.untimed, times.len() as u64);
            }
        }
    }
}
