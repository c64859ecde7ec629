//! Latency weights: the CPU time of a sample, divided by the number of threads of its process that ran at that moment.
//!
//! When threads of a process ran is known once all intervals have ended, so samples are collected first and weighed together.
//!
//! In the gaps in which switches were not recorded, how many threads ran is not known. A sample there has the share that its thread has
//! on average where switches were recorded.

use std::collections::HashMap;

use model::{CpuId, Pid, Tid};
use profile::{StackId, ThreadId};
use rustc_hash::FxBuildHasher;

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

    /// Returns all samples with their shares of the process' time, and how many of its threads ran, where that is known; forgets them and the
    /// runs. `gaps` are the spans in which switches were not recorded, in the order of time.
    pub(super) fn take_weighed(&mut self, gaps: &[(u64, u64)]) -> Vec<(RunningSample, f64, Option<u64>)> {
        let mut weighed = Vec::new();
        for mut process in std::mem::take(&mut self.processes).into_values() {
            let mut samples = std::mem::take(&mut process.samples);
            if samples.is_empty() {
                continue;
            }
            samples.sort_by_key(|sample| sample.time);
            let parallelism = Parallelism::new(&process.runs);
            let usual = parallelism.usual_shares(&process.runs);
            weighed.extend(samples.into_iter().map(|sample| match is_in_gap(gaps, sample.time) {
                true => (sample, usual.get(&sample.tid).copied().unwrap_or(1.0), None),
                false => {
                    let number = parallelism.step(sample.time).map_or(1, |step| step.number.max(1));
                    (sample, parallelism.share(sample.time), Some(number))
                }
            }));
        }
        weighed
    }
}

fn is_in_gap(gaps: &[(u64, u64)], time: u64) -> bool {
    let last = gaps.partition_point(|&(begin, _)| begin <= time).checked_sub(1);
    last.and_then(|last| gaps.get(last)).is_some_and(|&(_, end)| time < end)
}

/// How many threads of one process ran at each time.
struct Parallelism {
    /// Times at which the number changes, in their order.
    steps: Vec<Step>,
}

/// From `time` on, `number` threads run. Until then the process has taken `weight` nanoseconds, weighed by latency.
#[derive(Clone, Copy)]
struct Step {
    time: u64,
    number: u64,
    weight: f64,
}

impl Parallelism {
    fn new(runs: &[(Tid, u64, u64)]) -> Self {
        let mut changes: Vec<(u64, i64)> =
            runs.iter().flat_map(|&(_, start, end)| [(start, 1), (end, -1)]).collect();
        changes.sort_unstable();
        let mut steps: Vec<Step> = Vec::new();
        let mut number = 0_i64;
        for (time, change) in changes {
            number += change;
            let before = steps.pop_if(|last| last.time == time).or(steps.last().copied());
            let weight = before.map_or(0.0, |before| before.weight_until(time));
            steps.push(Step { time, number: number.max(0).unsigned_abs(), weight });
        }
        Self { steps }
    }

    fn step(&self, time: u64) -> Option<&Step> {
        let behind = self.steps.partition_point(|step| step.time <= time);
        behind.checked_sub(1).and_then(|last| self.steps.get(last))
    }

    /// Returns the share of a sample at `time` in its process' time: 1 / (threads that ran). A sampled thread was running, even if records
    /// of its switches were lost.
    fn share(&self, time: u64) -> f64 {
        self.step(time).map_or(1.0, Step::share)
    }

    /// Returns the average share of each thread.
    fn usual_shares(&self, runs: &[(Tid, u64, u64)]) -> HashMap<Tid, f64, FxBuildHasher> {
        let weight = |time| self.step(time).map_or(0.0, |step| step.weight_until(time));
        let mut sums: HashMap<Tid, (f64, f64), FxBuildHasher> = HashMap::default();
        for &(tid, start, end) in runs {
            let (weights, length) = sums.entry(tid).or_default();
            *weights += weight(end) - weight(start);
            *length += end.saturating_sub(start) as f64;
        }
        let of_any = sums.into_iter().filter(|(_, (_, length))| *length > 0.0);
        of_any.map(|(tid, (weights, length))| (tid, weights / length)).collect()
    }
}

impl Step {
    fn share(&self) -> f64 {
        1.0 / self.number.max(1) as f64
    }

    fn weight_until(&self, time: u64) -> f64 {
        self.weight + time.saturating_sub(self.time) as f64 * self.share()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn periods(weighed: Vec<(RunningSample, f64, Option<u64>)>) -> Vec<u64> {
        weighed.iter().map(|(sample, share, _)| (sample.period as f64 * share).round() as u64).collect()
    }

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
        periods(latency.take_weighed(gaps))
    }

    #[test]
    fn a_sample_is_divided_by_how_many_threads_of_its_process_ran() {
        let runs = [(1, 0, 100), (2, 50, 80), (3, 60, 70)];
        let samples = [(1, 10), (1, 50), (2, 65), (1, 70), (2, 80), (9, 200)];
        assert_eq!(weights(&runs, &samples, &[]), [1000, 500, 333, 500, 1000, 1000]);
        // A thread that goes on at the same time has no moment without company.
        assert_eq!(weights(&[(1, 0, 50), (1, 50, 90), (2, 0, 90)], &[(1, 50)], &[]), [500]);
    }

    /// Weighs samples of 1 ms, each with its thread, CPU and time in milliseconds.
    fn in_gaps(runs: &[(i32, u64, u64)], samples: &[(i32, u32, u64)], gaps: &[(u64, u64)]) -> Vec<u64> {
        let ms = |time: u64| time * 1_000_000;
        let mut latency = Latency::default();
        for &(tid, start, end) in runs {
            latency.push_run(Pid(1), Tid(tid), (ms(start), ms(end)));
        }
        for &(tid, cpu, time) in samples {
            let sample = RunningSample { cpu: Some(CpuId(cpu)), ..sample(tid, ms(time)) };
            latency.push_sample(Pid(1), sample);
        }
        let gaps: Vec<_> = gaps.iter().map(|&(begin, end)| (ms(begin), ms(end))).collect();
        periods(latency.take_weighed(&gaps))
    }

    #[test]
    fn in_a_gap_a_thread_has_its_usual_share() {
        // Thread 1 all the time, with thread 2 beside it for half of it.
        let samples: Vec<_> = (0..40).map(|time| (1, 0, time)).chain([(2, 1, 30)]).collect();
        let weighed = in_gaps(&[(1, 0, 20), (2, 10, 20)], &samples, &[(20, 40)]);
        assert_eq!(weighed[..10], [1000; 10]);
        assert_eq!(weighed[10..20], [500; 10]);
        assert!(weighed[20..].iter().all(|&weight| weight == 750 || weight == 500), "{weighed:?}");
    }

    #[test]
    fn threads_that_take_turns_have_their_whole_time() {
        // On two CPUs, and never at once: thread 1 runs in even milliseconds, thread 2 in odd ones.
        let runs: Vec<_> = (0..50).map(|time| (1 + (time % 2) as i32, time, time + 1)).collect();
        let samples: Vec<_> = (0..100).map(|time| (1 + (time % 2) as i32, (time % 2) as u32, time)).collect();
        let weighed = in_gaps(&runs, &samples, &[(50, 100)]);
        assert!(weighed.iter().all(|&weight| weight >= 950), "{weighed:?}");
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
