//! Single samples as columns, in the order of time: what views need that tell when, and not only how much.

use model::{CpuId, Timestamp};

use crate::{Count, StackId, ThreadId, Weight};

/// The choice of columns that are kept beside thread, stack and period.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Columns {
    /// True to keep the time of each sample.
    pub times: bool,
    /// On which CPU.
    pub cpus: bool,
}

/// One sample, with its columns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sample {
    /// The thread that it was taken of.
    pub thread: ThreadId,
    /// Its stack.
    pub stack: StackId,
    /// The number of events that it stands for.
    pub period: u64,
    /// The time at which it was taken, if the sample states one and the column is kept.
    pub time: Option<Timestamp>,
    /// The CPU, if the sample states one and the column is kept.
    pub cpu: Option<CpuId>,
}

impl Sample {
    /// The sample's weight.
    pub fn weight(&self, weight: Weight) -> u64 {
        Count { samples: 1, period: self.period }.weight(weight)
    }
}

/// Stands for "not known" in the column of CPUs: more CPUs than any kernel has.
const NO_CPU: u32 = u32::MAX;
/// Stands for "not known" in the column of times.
const NO_TIME: u64 = u64::MAX;

/// The samples of a profile, a column for each property. Samples are kept in the order in which they are pushed, which is that
/// of time.
#[derive(Clone, Default, Debug)]
pub struct Samples {
    columns: Columns,
    threads: Vec<ThreadId>,
    stacks: Vec<StackId>,
    periods: Vec<u64>,
    times: Vec<u64>,
    cpus: Vec<u32>,
}

impl Samples {
    /// A table without samples.
    pub fn new(columns: Columns) -> Self {
        Self { columns, ..Self::default() }
    }

    /// Appends a sample. Time and CPU are dropped where their columns are not kept.
    pub fn push(&mut self, sample: Sample) {
        self.threads.push(sample.thread);
        self.stacks.push(sample.stack);
        self.periods.push(sample.period);
        if self.columns.times {
            self.times.push(sample.time.map_or(NO_TIME, |time| time.0));
        }
        if self.columns.cpus {
            self.cpus.push(sample.cpu.map_or(NO_CPU, |cpu| cpu.0));
        }
    }

    /// Returns how many samples there are.
    pub fn len(&self) -> usize {
        self.threads.len()
    }

    /// Returns true if there is no sample.
    pub fn is_empty(&self) -> bool {
        self.threads.is_empty()
    }

    /// Returns which columns are kept.
    pub fn columns(&self) -> Columns {
        self.columns
    }

    /// Returns the samples in their order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Sample> + '_ {
        (0..self.len()).map(|index| Sample {
            thread: self.threads[index],
            stack: self.stacks[index],
            period: self.periods[index],
            time: self.times.get(index).filter(|&&time| time != NO_TIME).map(|&time| Timestamp(time)),
            cpu: self.cpus.get(index).filter(|&&cpu| cpu != NO_CPU).map(|&cpu| CpuId(cpu)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(time: Option<u64>, cpu: Option<u32>) -> Sample {
        Sample {
            thread: ThreadId::default(),
            stack: StackId::EMPTY,
            period: 7,
            time: time.map(Timestamp),
            cpu: cpu.map(CpuId),
        }
    }

    #[test]
    fn only_the_columns_that_were_asked_for_are_kept() {
        let given = [sample(Some(5), Some(1)), sample(None, None)];
        for (times, cpus) in [(false, false), (true, false), (false, true), (true, true)] {
            let mut samples = Samples::new(Columns { times, cpus });
            given.iter().for_each(|&sample| samples.push(sample));
            let kept: Vec<_> = samples.iter().map(|sample| (sample.time, sample.cpu)).collect();
            let first = (Some(Timestamp(5)).filter(|_| times), Some(CpuId(1)).filter(|_| cpus));
            assert_eq!(kept, [first, (None, None)]);
            assert_eq!(
                (samples.times.len(), samples.cpus.len()),
                (2 * usize::from(times), 2 * usize::from(cpus))
            );
        }
    }
}
