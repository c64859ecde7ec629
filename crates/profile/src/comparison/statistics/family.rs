//! A family of items that are tested together, and what is known of each.

use super::observations::{Item, Observation, difference};
use super::relabelling::{LEVEL, relabellings};
use super::scale::Scale;

/// Probability with which intervals contain the true value.
pub const CONFIDENCE: f64 = 0.95;

/// The quantile of the normal distribution of which both sides leave out what [`CONFIDENCE`] does.
pub(in crate::comparison) const WITHIN: f64 = 1.959_964;

/// The 80th percentile of the normal distribution: a change of the smallest size is found in 8 of 10 cases.
const POWER: f64 = 0.841_621;

/// Rounds in which the scale, its members and the excess are estimated by each other.
const ROUNDS: usize = 3;

/// Weight of the variance that all items have in common beside that of an item, in degrees of freedom.
const COMMON_DEGREES: f64 = 4.0;

/// The estimate of one item: its change, and how sure it is.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Estimate {
    /// The logarithm of the factor from before to after, beyond the scale.
    pub log_ratio: f64,
    /// Its standard error, with that of the scale.
    pub error: f64,
    /// Half the width of its interval, which contains the true value with the probability [`CONFIDENCE`].
    pub half_width: f64,
    /// The distance from no change in standard errors.
    pub distance: f64,
    /// The probability that any item of a family without changes is as far from no change; `None` if the item is not tested, or
    /// the runs are too few to have one below [`LEVEL`].
    pub probability: Option<f64>,
    /// The smallest growth, as a logarithm, that is found in 8 of 10 cases; `None` as for `probability`.
    pub smallest: Option<f64>,
}

impl Estimate {
    /// Returns true if the item differs from no change at the level of its family.
    pub fn is_marked(&self) -> bool {
        self.probability.is_some_and(|probability| probability <= LEVEL)
    }

    /// The factor from before to after, and the ends of its interval.
    pub fn factors(&self) -> [f64; 3] {
        [self.log_ratio, self.log_ratio - self.half_width, self.log_ratio + self.half_width].map(f64::exp)
    }
}

/// The estimates of a family of items, in their order, and what they have in common.
#[derive(Clone, Debug)]
pub struct Family {
    /// The items, relative to the scale.
    pub items: Vec<Estimate>,
    /// The scale, to be tested among totals: the change of everything that does not stand out. `None` if everything does.
    pub scale: Option<Item>,
}

/// The noise of runs that all items have in common.
#[derive(Clone, Copy)]
struct Noise {
    /// The variance of a logarithm between runs beyond that of counting.
    excess: f64,
    /// Weight of the common variance, in degrees of freedom.
    weight: f64,
    /// Degrees of freedom of an item's own variance.
    degrees: f64,
    /// The factor from the variance of a run to that of a difference of the sides.
    factor: f64,
}

impl Noise {
    /// Believes each item's own variance alone; of two runs, that of counting.
    fn alone(runs: [usize; 2]) -> Self {
        let factor = runs.iter().map(|&runs| 1.0 / runs as f64).sum();
        Self { excess: 0.0, weight: 0.0, degrees: (runs[0] + runs[1]).saturating_sub(2) as f64, factor }
    }

    /// The common excess is the median of what the items have beyond counting, weighted by how well that is known.
    fn of<'r>(items: impl Iterator<Item = &'r Relative>, runs: [usize; 2]) -> Self {
        let this = Self { weight: COMMON_DEGREES, ..Self::alone(runs) };
        // The median of chi-square over its degrees (E. B. Wilson and M. M. Hilferty, 1931).
        let median = (1.0 - 2.0 / (9.0 * this.degrees.max(1.0))).powi(3);
        let beyond = items.map(|item| {
            (item.variance / median - item.counting, item.counting.max(f64::MIN_POSITIVE).powi(-2))
        });
        Self { excess: weighted_median(beyond.collect()).max(0.0), ..this }
    }

    /// The standard error of an item whose runs have this variance.
    fn error(&self, variance: f64, counting: f64) -> f64 {
        let prior = counting + self.excess;
        let variance = match self.degrees {
            0.0 => prior,
            degrees => (self.weight * prior + degrees * variance) / (self.weight + degrees),
        };
        (self.factor * variance).sqrt().max(f64::MIN_POSITIVE)
    }

    /// The quantile of Student's distribution that corresponds to one of the normal distribution. The expansion by Cornish and Fisher has
    /// an error below 1 % for the quantile of 97.5 % from 2 degrees on, and of 11 % with 1.
    fn student(&self, normal: f64) -> f64 {
        let z = |exponent: i32| normal.powi(exponent);
        let terms = [
            (z(3) + z(1)) / 4.0,
            (5.0 * z(5) + 16.0 * z(3) + 3.0 * z(1)) / 96.0,
            (3.0 * z(7) + 19.0 * z(5) + 17.0 * z(3) - 15.0 * z(1)) / 384.0,
            (79.0 * z(9) + 776.0 * z(7) + 1482.0 * z(5) - 1920.0 * z(3) - 945.0 * z(1)) / 92_160.0,
        ];
        let degrees = if self.degrees > 0.0 { self.weight + self.degrees } else { f64::INFINITY };
        normal + terms.iter().zip(1..).map(|(term, exponent)| term / degrees.powi(exponent)).sum::<f64>()
    }
}

fn weighted_median(mut values: Vec<(f64, f64)>) -> f64 {
    values.sort_by(|one, other| one.0.total_cmp(&other.0));
    let half = values.iter().map(|(_, weight)| weight).sum::<f64>() / 2.0;
    let mut sum = 0.0;
    let reaches_half = |(_, weight): &&(f64, f64)| {
        sum += weight;
        sum >= half
    };
    values.iter().find(reaches_half).map_or(0.0, |(value, _)| *value)
}

/// An item relative to the scale.
struct Relative {
    /// Its logarithm in each run.
    values: Vec<f64>,
    difference: f64,
    /// The variance between runs, as they show it.
    variance: f64,
    /// The part of it that comes from counting samples, of the item and of the scale.
    counting: f64,
    /// The variance that limits what can be shown, where it is larger.
    doubt: f64,
    is_tested: bool,
}

impl Relative {
    fn new(item: &Item, scale: Option<(Vec<f64>, f64)>, labels: &[bool]) -> Self {
        let (mut values, mut counting) = (item.values(), item.counting_variance());
        if let Some((scale, variance)) = scale {
            values.iter_mut().zip(scale).for_each(|(value, scale)| *value -= scale);
            counting += variance;
        }
        let (difference, variance) = difference(&values, labels);
        Self { values, difference, variance, counting, doubt: 0.0, is_tested: item.is_tested }
    }

    fn estimate(&self, noise: &Noise) -> Estimate {
        let error = noise.error(self.variance, self.counting);
        Estimate {
            log_ratio: self.difference,
            error,
            half_width: noise.student(WITHIN) * error,
            distance: self.difference / error,
            probability: None,
            smallest: None,
        }
    }
}

/// Compares items relative to what they have in common, with marks for the whole family. `None` if a side has no run.
///
/// The difference of an item is that of its logarithm minus the precision-weighted mean of all other items that do not stand out. An
/// item's variance between runs is moderated towards that of counting samples with a common excess.
pub fn compare(items: &[Item], runs: [usize; 2]) -> Option<Family> {
    let labels = own_labels(runs)?;
    let mut noise = Noise::alone(runs);
    let mut found = None;
    for _ in 0..ROUNDS {
        let scale = Scale::find(items, &labels, noise.excess, noise.factor);
        let relative: Vec<Relative> = items
            .iter()
            .enumerate()
            .map(|(index, item)| {
                let values = item.values();
                let relative = Relative::new(item, scale.without(Some((index, &values))), &labels);
                // Of two items, nobody can say which one changed, unless the change is larger than what varies in both.
                let others = (0..items.len()).filter(|&other| other != index && scale.keeps(other)).count();
                let doubt = if others < 2 { difference(&values, &labels).1 } else { 0.0 };
                Relative { doubt, ..relative }
            })
            .collect();
        let members = relative.iter().enumerate().filter(|&(index, _)| scale.keeps(index));
        noise = Noise::of(members.map(|(_, item)| item), runs);
        found = Some((scale, relative));
    }
    let (scale, relative) = found?;
    let scale = scale.without(None).map(|(values, variance)| {
        let run = |&log: &f64| Observation { log, variance };
        let (before, after) = values.split_at(runs[0]);
        Item { sides: [before, after].map(|side| side.iter().map(run).collect()), is_tested: true }
    });
    Some(Family { items: test(&relative, &noise, runs), scale })
}

/// Compares items as they are, each with its own variance alone, with marks for all of them together. `None` if a side has no run.
pub fn compare_totals(items: &[Item], runs: [usize; 2]) -> Option<Vec<Estimate>> {
    let labels = own_labels(runs)?;
    let items: Vec<Relative> = items.iter().map(|item| Relative::new(item, None, &labels)).collect();
    Some(test(&items, &Noise::alone(runs), runs))
}

/// The labels of the runs as they were: true for those after the change.
fn own_labels([before, after]: [usize; 2]) -> Option<Vec<bool>> {
    (before > 0 && after > 0).then(|| (0..before + after).map(|run| run >= before).collect())
}

/// Estimates all items of a family, and tests them: an item is as far from no change as so many relabellings have any item.
fn test(items: &[Relative], noise: &Noise, runs: [usize; 2]) -> Vec<Estimate> {
    let mut estimates: Vec<Estimate> = items.iter().map(|item| item.estimate(noise)).collect();
    let farthest = |labels: Vec<bool>| {
        let distance = |item: &Relative| {
            let (difference, variance) = difference(&item.values, &labels);
            (difference / noise.error(variance, item.counting)).abs()
        };
        items.iter().filter(|item| item.is_tested).map(distance).fold(0.0, f64::max)
    };
    let mut farthest: Vec<f64> = relabellings(runs).into_iter().map(farthest).collect();
    farthest.sort_by(|one, other| other.total_cmp(one));
    // An item beyond this distance is marked.
    let Some(&critical) = farthest.get((LEVEL * farthest.len() as f64) as usize) else { return estimates };
    // The estimate varies, and so does its error, here and where it will be found: each by 1 / (2 × degrees) of its square.
    let uncertain = (1.0 + critical.powi(2) / (noise.weight + noise.degrees)).sqrt();
    let smallest = critical + noise.student(POWER) * uncertain;
    for (estimate, item) in estimates.iter_mut().zip(items).filter(|(_, item)| item.is_tested) {
        // What is equal but for rounding is as far.
        let as_far = farthest.partition_point(|&other| other >= estimate.distance.abs() * (1.0 - 1e-9));
        estimate.probability = Some(as_far as f64 / farthest.len() as f64);
        estimate.smallest = Some(smallest * estimate.error.max((noise.factor * item.doubt).sqrt()));
    }
    estimates
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_tables() {
        let near = |normal: f64, degrees: f64, expected: f64, error: f64| {
            let noise = Noise { degrees, ..Noise::alone([1, 1]) };
            let value = noise.student(normal);
            assert!((value / expected - 1.0).abs() < error, "{value} {expected}");
        };
        for (degrees, quantile) in [(2.0, 4.303), (3.0, 3.182), (4.0, 2.776), (9.0, 2.262), (30.0, 2.042)] {
            near(WITHIN, degrees, quantile, 0.01);
        }
        near(2.575_829, 9.0, 3.250, 0.005);
        near(WITHIN, 0.0, 1.96, 1e-4);
    }
}
