//! Observations: what the runs say of each item, as logarithms with their noise of counting.

/// The way in which the runs of both sides belong together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Design {
    /// The runs of both sides were made in turns: those with one number are a pair.
    Pairs,
    /// The runs of each side are alike, and none belongs to one of the other side.
    Groups,
}

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
    /// Returns the number of samples of each side: the inverse of the variance of their counts.
    pub(super) fn samples(&self) -> [f64; 2] {
        let of = |side: &Vec<Observation>| {
            side.iter().map(|seen| 1.0 / seen.variance.max(f64::MIN_POSITIVE)).sum()
        };
        self.sides.each_ref().map(of)
    }
}

/// The runs that an estimate is made of: pairs, each with a sign, or single runs, each with a side.
pub(super) struct Layout {
    pub(super) design: Design,
    pub(super) runs: [usize; 2],
}

impl Layout {
    /// `None` if a side has no run, or pairs lack a partner.
    pub(super) fn new(design: Design, runs: [usize; 2]) -> Option<Self> {
        let [before, after] = runs;
        let fits = before > 0 && after > 0 && (design == Design::Groups || before == after);
        fits.then_some(Self { design, runs })
    }

    /// The number of units: pairs or runs.
    pub(super) fn units(&self) -> usize {
        match self.design {
            Design::Pairs => self.runs[0],
            Design::Groups => self.runs[0] + self.runs[1],
        }
    }

    /// The labels of the units as they were: true for a run after the change, or a pair with its own sign.
    pub(super) fn labels(&self) -> Vec<bool> {
        match self.design {
            Design::Pairs => vec![true; self.runs[0]],
            Design::Groups => (0..self.units()).map(|unit| unit >= self.runs[0]).collect(),
        }
    }

    /// Degrees of freedom of the variance between units; 0 if it cannot be estimated.
    pub(super) fn degrees(&self) -> usize {
        self.units().saturating_sub(if self.design == Design::Pairs { 1 } else { 2 })
    }

    /// The factor from the variance of a unit to that of the estimate.
    pub(super) fn factor(&self) -> f64 {
        let [before, after] = self.runs.map(|runs| 1.0 / runs as f64);
        if self.design == Design::Pairs { before } else { before + after }
    }

    /// The value of an item in each unit.
    pub(super) fn values(&self, item: &Item) -> Vec<f64> {
        let [before, after] = &item.sides;
        match self.design {
            Design::Pairs => before.iter().zip(after).map(|(before, after)| after.log - before.log).collect(),
            Design::Groups => before.iter().chain(after).map(|run| run.log).collect(),
        }
    }

    /// Returns a tested item with these values of its units, each with this variance from counting.
    pub(super) fn item(&self, values: &[f64], variance: f64) -> Item {
        let run = |&log: &f64| Observation { log, variance };
        let sides = match self.design {
            Design::Pairs => {
                let none = vec![Observation { log: 0.0, variance: 0.0 }; values.len()];
                [none, values.iter().map(run).collect()]
            }
            Design::Groups => {
                let (before, after) = values.split_at(self.runs[0].min(values.len()));
                [before.iter().map(run).collect(), after.iter().map(run).collect()]
            }
        };
        Item { sides, is_tested: true }
    }

    /// The mean variance of a unit that comes from counting.
    pub(super) fn counting_variance(&self, item: &Item) -> f64 {
        let sum: f64 = item.sides.iter().flatten().map(|run| run.variance).sum();
        sum / self.units() as f64
    }

    /// Returns the difference of the sides under these labels, and the variance between units around it.
    pub(super) fn difference(&self, values: &[f64], labels: &[bool]) -> (f64, f64) {
        let degrees = self.degrees();
        match self.design {
            Design::Pairs => {
                let signed =
                    || values.iter().zip(labels).map(|(&value, &own)| if own { value } else { -value });
                let mean = signed().sum::<f64>() / values.len() as f64;
                let squares: f64 = signed().map(|value| (value - mean).powi(2)).sum();
                (mean, if degrees == 0 { 0.0 } else { squares / degrees as f64 })
            }
            Design::Groups => {
                let mut sums = [(0.0, 0.0); 2];
                for (&value, &after) in values.iter().zip(labels) {
                    let (sum, count) = &mut sums[usize::from(after)];
                    *sum += value;
                    *count += 1.0;
                }
                let means = sums.map(|(sum, count)| sum / f64::max(count, 1.0));
                let squares: f64 = values
                    .iter()
                    .zip(labels)
                    .map(|(&value, &after)| (value - means[usize::from(after)]).powi(2))
                    .sum();
                (means[1] - means[0], if degrees == 0 { 0.0 } else { squares / degrees as f64 })
            }
        }
    }
}
