//! Observations: what the runs say of each item, as logarithms with their noise of counting.

/// The weight of an item in one run.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Observation {
    /// The natural logarithm of the weight.
    pub log: f64,
    /// The variance of the logarithm that comes from counting samples; 0 for exact figures.
    pub variance: f64,
}

impl Observation {
    /// The weight of so many samples, each of which stands for `weight_per_sample`. Half a sample is added, so that none has a
    /// logarithm, too; this is the least biased (F. J. Anscombe, 1956).
    pub fn of_samples(samples: f64, weight_per_sample: f64) -> Self {
        let samples = samples.max(0.0) + 0.5;
        Self { log: (samples * weight_per_sample.max(f64::MIN_POSITIVE)).ln(), variance: 1.0 / samples }
    }

    /// An exact figure, which counts no samples.
    pub fn exact(value: f64) -> Self {
        Self { log: value.max(0.5).ln(), variance: 0.0 }
    }
}

/// An item that is compared: a function, or a total.
#[derive(Clone, Debug, Default)]
pub struct Item {
    /// Its weights in the runs before and after.
    pub sides: [Vec<Observation>; 2],
    /// True if it is tested; others only help to find the scale.
    pub is_tested: bool,
}

impl Item {
    /// Returns the logarithm in each run, those before first.
    pub(super) fn values(&self) -> Vec<f64> {
        self.sides.iter().flatten().map(|run| run.log).collect()
    }

    /// Returns the mean variance of a run that comes from counting.
    pub(super) fn counting_variance(&self) -> f64 {
        let runs = self.sides.iter().flatten();
        runs.clone().map(|run| run.variance).sum::<f64>() / runs.count().max(1) as f64
    }

    /// Returns the number of samples of a side: the inverse of the variance of their counts.
    pub(super) fn samples(&self, side: usize) -> f64 {
        self.sides[side].iter().map(|run| 1.0 / run.variance.max(f64::MIN_POSITIVE)).sum()
    }
}

/// Returns the difference of the sides, and the variance of the runs of each side around its mean; 0 if it cannot be estimated. `after`
/// says of each run which side it is of.
pub(super) fn difference(values: &[f64], after: &[bool]) -> (f64, f64) {
    let mean = |side: bool| {
        let of_side = values.iter().zip(after).filter(|&(_, &after)| after == side);
        of_side.clone().map(|(value, _)| value).sum::<f64>() / of_side.count().max(1) as f64
    };
    let [before_mean, after_mean] = [mean(false), mean(true)];
    let squares = values.iter().zip(after).map(|(value, &after)| {
        let mean = if after { after_mean } else { before_mean };
        (value - mean).powi(2)
    });
    let degrees = values.len().saturating_sub(2).max(1);
    (after_mean - before_mean, squares.sum::<f64>() / degrees as f64)
}
