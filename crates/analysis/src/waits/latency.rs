//! Latency weights: the CPU time of a sample, divided by the number of threads of its process that ran at that moment.
//!
//! When threads of a process ran is known once all intervals have ended, so samples are collected first and weighed together.
//!
//! In the gaps in which switches were not recorded, how many threads ran is estimated: a CPU that ran threads of the process has
//! samples of it about that time. That sees phases that last longer than some samples are apart, and no faster alternation. So
//! the estimate is corrected, for each thread, by what it is wrong on average where switches were recorded.

use std::collections::HashMap;

use model::{CpuId, Pid, Tid};
use profile::{StackId, ThreadId};
use rustc_hash::FxBuildHasher;

/// Sampling intervals before and after a sample in a gap in which samples on other CPUs count. At 997 Hz that is 5 ms: phases
/// that are longer are seen, and a busy CPU has ten samples, which come irregularly while threads take turns on it.
const INTERVALS_AROUND: u64 = 5;
/// Samples of a thread in recorded time that correct its estimate; with fewer, chance would.
const MIN_CORRECTING_SAMPLES: u64 = 10;

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
            let mut samples = std::mem::take(&mut process.samples);
            if samples.is_empty() {
                continue;
            }
            samples.sort_by_key(|sample| sample.time);
            let parallelism = Parallelism::new(process.runs, gaps);
            let estimates = if gaps.is_empty() { Vec::new() } else { parallelism.estimates(&samples) };
            weighed.extend(samples.into_iter().enumerate().map(|(at, sample)| {
                let known = parallelism.known(sample.time);
                let share = known.or_else(|| estimates.get(at).copied()).unwrap_or(1.0);
                RunningSample { period: (sample.period as f64 * share).round() as u64, ..sample }
            }));
        }
        weighed
    }
}

/// How many threads of one process ran at each time.
struct Parallelism<'g> {
    gaps: &'g [(u64, u64)],
    /// Times at which the number changes, in their order, with the number from there on.
    steps: Vec<(u64, u64)>,
    /// The running time of all threads, in nanoseconds.
    ran: u64,
}

impl<'g> Parallelism<'g> {
    fn new(runs: Vec<(Tid, u64, u64)>, gaps: &'g [(u64, u64)]) -> Self {
        let mut changes: Vec<(u64, i64)> =
            runs.iter().flat_map(|&(_, start, end)| [(start, 1), (end, -1)]).collect();
        changes.sort_unstable();
        let mut steps: Vec<(u64, u64)> = Vec::new();
        let mut number = 0_i64;
        for (time, change) in changes {
            number += change;
            let step = (time, number.max(0).unsigned_abs());
            match steps.last_mut() {
                Some(last) if last.0 == time => *last = step,
                _ => steps.push(step),
            }
        }
        let lengths = runs.iter().map(|&(_, start, end)| end.saturating_sub(start));
        Self { gaps, steps, ran: lengths.fold(0, u64::saturating_add) }
    }

    /// Returns the share of a sample at `time` in its process' time: 1 / (threads that ran). `None` in a gap.
    fn known(&self, time: u64) -> Option<f64> {
        let last = self.gaps.partition_point(|&(begin, _)| begin <= time).checked_sub(1);
        if last.and_then(|last| self.gaps.get(last)).is_some_and(|&(_, end)| time < end) {
            return None;
        }
        let behind = self.steps.partition_point(|&(begin, _)| begin <= time);
        let step = behind.checked_sub(1).and_then(|last| self.steps.get(last));
        // A sampled thread was running, even if records of its switches were lost.
        Some(1.0 / step.map_or(1, |&(_, number)| number.max(1)) as f64)
    }

    /// Estimates the shares of samples, which are in the order of time, by the samples on other CPUs about their times.
    fn estimates(&self, samples: &[RunningSample]) -> Vec<f64> {
        let recorded = samples.iter().filter(|sample| self.known(sample.time).is_some()).count() as u64;
        // Without samples in recorded time, the interval between samples is unknown.
        let Some(interval) = self.ran.checked_div(recorded).filter(|interval| *interval > 0) else {
            return Vec::new();
        };
        let around = interval.saturating_mul(INTERVALS_AROUND);
        let mut counts: HashMap<CpuId, u64, FxBuildHasher> = HashMap::default();
        let (mut first, mut behind) = (0, 0);
        let mut estimates: Vec<f64> = samples
            .iter()
            .map(|sample| {
                while let Some(next) =
                    samples.get(behind).filter(|next| next.time <= sample.time.saturating_add(around))
                {
                    *counts.entry(next.cpu.unwrap_or(CpuId(0))).or_default() += 1;
                    behind += 1;
                }
                while let Some(old) =
                    samples.get(first).filter(|old| old.time < sample.time.saturating_sub(around))
                {
                    if let Some(count) = counts.get_mut(&old.cpu.unwrap_or(CpuId(0))) {
                        *count -= 1;
                    }
                    first += 1;
                }
                let others = counts.iter().filter(|(cpu, _)| **cpu != sample.cpu.unwrap_or(CpuId(0)));
                let busy = others.map(|(_, &count)| (count as f64 / (2 * INTERVALS_AROUND) as f64).min(1.0));
                1.0 / (1.0 + busy.sum::<f64>())
            })
            .collect();
        self.correct(samples, &mut estimates);
        estimates
    }

    /// Corrects the estimates of each thread by what they are wrong on average in recorded time.
    fn correct(&self, samples: &[RunningSample], estimates: &mut [f64]) {
        let mut sums: HashMap<Tid, (u64, f64, f64), FxBuildHasher> = HashMap::default();
        for (sample, estimate) in samples.iter().zip(&*estimates) {
            if let Some(known) = self.known(sample.time) {
                let (number, all_known, all_estimated) = sums.entry(sample.tid).or_default();
                *number += 1;
                *all_known += known;
                *all_estimated += estimate;
            }
        }
        for (sample, estimate) in samples.iter().zip(estimates) {
            if let Some((number, known, estimated)) = sums.get(&sample.tid)
                && *number >= MIN_CORRECTING_SAMPLES
            {
                *estimate = (*estimate * known / estimated).min(1.0);
            }
        }
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
        latency.take_weighed(&gaps).iter().map(|sample| sample.period).collect()
    }

    #[test]
    fn in_a_gap_samples_on_other_cpus_say_who_ran() {
        // Thread 1 all the time, with thread 2 beside it in the second half of the gap.
        let first = (0..100).map(|time| (1, 0, time));
        let second = (60..100).map(|time| (2, 1, time));
        let samples: Vec<_> = first.chain(second).collect();
        let weighed = in_gaps(&[(1, 0, 20)], &samples, &[(20, 100)]);
        let alone: u64 = weighed[..55].iter().sum();
        assert_eq!(alone, 55_000);
        // In the order of time: both threads have a sample in each of the last milliseconds.
        let both = &weighed[weighed.len() - 60..weighed.len() - 20];
        assert!(both.iter().all(|&weight| weight <= 550), "{both:?}");
    }

    #[test]
    fn threads_that_take_turns_faster_than_they_are_sampled_are_told_by_what_was_recorded() {
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
