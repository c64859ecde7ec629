//! Latency weights: the CPU time of a sample, divided by the number of threads of its process that ran at that moment.
//!
//! When threads of a process ran is known once all intervals have ended, so samples are collected first and weighed together.
//! In the gaps in which switches were not recorded, nobody knows how many threads ran. A sample there is weighed by what its
//! thread had on average in the recorded time before and after the gap.

use std::collections::HashMap;

use model::{CpuId, Pid, Tid};
use profile::{StackId, ThreadId};
use rustc_hash::FxBuildHasher;

/// Least running time of a thread beside a gap, in nanoseconds, by which its samples in the gap are weighed. A recorded window
/// lasts 2 ms: with less than a tenth of that, the process' threads together say more.
const MIN_RUN_BESIDE_GAP: u64 = 200_000;

/// A sample of a thread that ran.
#[derive(Clone, Copy, Debug)]
pub(super) struct RunningSample {
    pub(super) tid: Tid,
    pub(super) thread: ThreadId,
    pub(super) stack: StackId,
    pub(super) time: u64,
    pub(super) period: u64,
    pub(super) cpu: Option<CpuId>,
}

/// Samples of processes, and when their threads ran.
#[derive(Default, Debug)]
pub(super) struct Latency {
    processes: HashMap<Pid, Process, FxBuildHasher>,
}

#[derive(Default, Debug)]
struct Process {
    /// Threads with the intervals in which they ran, in nanoseconds of the recording's clock.
    runs: Vec<(Tid, u64, u64)>,
    samples: Vec<RunningSample>,
}

impl Latency {
    /// Records that a thread of `pid` ran from `start` to `end`.
    pub(super) fn push_run(&mut self, pid: Pid, tid: Tid, (start, end): (u64, u64)) {
        self.processes.entry(pid).or_default().runs.push((tid, start, end));
    }

    /// Records a sample of a thread of `pid`.
    pub(super) fn push_sample(&mut self, pid: Pid, sample: RunningSample) {
        self.processes.entry(pid).or_default().samples.push(sample);
    }

    /// Weighs all samples, and forgets them and the runs. The period of each becomes its share of the process' time. `gaps` are
    /// the spans in which switches were not recorded, in the order of time.
    pub(super) fn take_weighed(&mut self, gaps: &[(u64, u64)]) -> Vec<RunningSample> {
        let mut weighed = Vec::new();
        for mut process in std::mem::take(&mut self.processes).into_values() {
            let samples = std::mem::take(&mut process.samples);
            if samples.is_empty() {
                continue;
            }
            let parallelism = Parallelism::new(process.runs, gaps);
            weighed.extend(samples.into_iter().map(|sample| {
                let share = parallelism.share(&sample);
                RunningSample { period: (sample.period as f64 * share).round() as u64, ..sample }
            }));
        }
        weighed
    }
}

/// Running time of a thread, and the share of the process' time that it stands for, in nanoseconds.
#[derive(Clone, Copy, Default, Debug)]
struct Ran {
    time: u64,
    shared: f64,
}

impl Ran {
    fn add(&mut self, time: u64, shared: f64) {
        self.time = self.time.saturating_add(time);
        self.shared += shared;
    }

    /// Returns the mean of 1 / (threads that ran), where the thread ran for at least `least` nanoseconds.
    fn mean(self, least: u64) -> Option<f64> {
        (self.time > 0 && self.time >= least).then(|| self.shared / self.time as f64)
    }
}

/// How many threads of one process ran at each time.
struct Parallelism<'g> {
    gaps: &'g [(u64, u64)],
    /// Times at which the number changes, in their order, with the number from there on, and the sum over time of
    /// 1 / number until there.
    steps: Vec<(u64, u64, f64)>,
    /// By thread (`None` for all together) and by the number of gaps that begin before: the recorded time between two gaps.
    between: HashMap<(Option<Tid>, usize), Ran, FxBuildHasher>,
    /// By thread, or all together, over all recorded time.
    all: HashMap<Option<Tid>, Ran, FxBuildHasher>,
}

impl<'g> Parallelism<'g> {
    fn new(runs: Vec<(Tid, u64, u64)>, gaps: &'g [(u64, u64)]) -> Self {
        let mut changes: Vec<(u64, i64)> =
            runs.iter().flat_map(|&(_, start, end)| [(start, 1), (end, -1)]).collect();
        changes.sort_unstable();
        let mut steps: Vec<(u64, u64, f64)> = Vec::new();
        let (mut number, mut sum, mut since) = (0_i64, 0.0, 0);
        for (time, change) in changes {
            if number > 0 {
                sum += time.saturating_sub(since) as f64 / number as f64;
            }
            (number, since) = (number + change, time);
            let step = (time, number.max(0).unsigned_abs(), sum);
            match steps.last_mut() {
                Some(last) if last.0 == time => *last = step,
                _ => steps.push(step),
            }
        }
        let mut parallelism = Self { gaps, steps, between: HashMap::default(), all: HashMap::default() };
        if !gaps.is_empty() {
            for (tid, start, end) in runs {
                let time = end.saturating_sub(start);
                let shared = parallelism.shared_until(end) - parallelism.shared_until(start);
                // Runs end where gaps begin.
                let number = parallelism.gaps_before(start);
                for key in [Some(tid), None] {
                    parallelism.between.entry((key, number)).or_default().add(time, shared);
                    parallelism.all.entry(key).or_default().add(time, shared);
                }
            }
        }
        parallelism
    }

    /// Returns the number of gaps that begin at `time` or before.
    fn gaps_before(&self, time: u64) -> usize {
        self.gaps.partition_point(|&(begin, _)| begin <= time)
    }

    fn step(&self, time: u64) -> Option<(u64, u64, f64)> {
        let behind = self.steps.partition_point(|&(begin, ..)| begin <= time);
        self.steps.get(behind.checked_sub(1)?).copied()
    }

    /// Returns the sum over time of 1 / (threads that run) until `time`.
    fn shared_until(&self, time: u64) -> f64 {
        self.step(time).map_or(0.0, |(begin, number, sum)| {
            sum + if number > 0 { (time - begin) as f64 / number as f64 } else { 0.0 }
        })
    }

    /// Returns the share of its CPU time that a sample stands for in the time of its process.
    fn share(&self, sample: &RunningSample) -> f64 {
        let before = self.gaps_before(sample.time);
        let is_in_gap = before.checked_sub(1).and_then(|last| self.gaps.get(last));
        if is_in_gap.is_none_or(|&(_, end)| sample.time >= end) {
            // A thread that was sampled ran, whatever records of it were lost.
            return 1.0 / self.step(sample.time).map_or(1, |(_, number, _)| number.max(1)) as f64;
        }
        let beside = |key: Option<Tid>| {
            let mut ran = Ran::default();
            for number in [before - 1, before] {
                if let Some(Ran { time, shared }) = self.between.get(&(key, number)) {
                    ran.add(*time, *shared);
                }
            }
            ran
        };
        let all = |key| self.all.get(&key).copied().unwrap_or_default();
        let own = Some(sample.tid);
        let means = [
            beside(own).mean(MIN_RUN_BESIDE_GAP),
            beside(None).mean(MIN_RUN_BESIDE_GAP),
            all(own).mean(0),
            all(None).mean(0),
        ];
        means.into_iter().flatten().next().unwrap_or(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(tid: i32, time: u64) -> RunningSample {
        RunningSample {
            tid: Tid(tid),
            thread: ThreadId::default(),
            stack: StackId::EMPTY,
            time,
            period: 1_000,
            cpu: None,
        }
    }

    fn weights(runs: &[(i32, u64, u64)], samples: &[(i32, u64)], gaps: &[(u64, u64)]) -> Vec<u64> {
        let mut latency = Latency::default();
        for &(tid, start, end) in runs {
            latency.push_run(Pid(1), Tid(tid), (start, end));
        }
        for &(tid, time) in samples {
            latency.push_sample(Pid(1), sample(tid, time));
        }
        latency.take_weighed(gaps).iter().map(|sample| sample.period).collect()
    }

    #[test]
    fn a_sample_is_divided_by_how_many_threads_of_its_process_ran() {
        let runs = [(1, 0, 100), (2, 50, 80), (3, 60, 70)];
        let samples = [(1, 10), (1, 50), (2, 65), (1, 70), (2, 80), (9, 200)];
        assert_eq!(weights(&runs, &samples, &[]), [1000, 500, 333, 500, 1000, 1000]);
        // A thread that goes on at the same time has no moment without company.
        assert_eq!(weights(&[(1, 0, 50), (1, 50, 90), (2, 0, 90)], &[(1, 50)], &[]), [500]);
    }

    #[test]
    fn in_a_gap_it_is_what_its_thread_had_beside_it() {
        let ms = 1_000_000;
        // Thread 1 runs alone, then 2 and 3 together; the next gap lies between recorded time in which all is parallel.
        let runs =
            [(1, 0, ms), (2, ms, 2 * ms), (3, ms, 2 * ms), (2, 10 * ms, 12 * ms), (3, 10 * ms, 12 * ms)];
        let gaps = [(2 * ms, 10 * ms), (12 * ms, 20 * ms)];
        let samples = [(1, 5 * ms), (2, 5 * ms), (2, 13 * ms), (1, 13 * ms), (8, 13 * ms), (1, 500)];
        // Thread 1 did not run beside the second gap: it goes by its process there.
        assert_eq!(weights(&runs, &samples, &gaps), [1000, 500, 500, 500, 500, 1000]);
    }

    #[test]
    fn what_is_taken_is_forgotten() {
        let mut latency = Latency::default();
        latency.push_run(Pid(1), Tid(1), (0, 10));
        latency.push_sample(Pid(1), sample(1, 5));
        assert_eq!(latency.take_weighed(&[]).len(), 1);
        assert!(latency.take_weighed(&[]).is_empty());
    }
}
