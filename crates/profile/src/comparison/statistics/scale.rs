//! The scale: by how much everything changed alike, from the items that do not stand out.

use super::observations::{Item, difference};

/// Distance from the scale, in standard deviations, from which an item stands out. Of 20 normal items, one does in 1 of 19 families.
/// From this distance on, the difference of everything is believed of single recordings, and taken out of rows.
pub(in crate::comparison) const STANDS_OUT: f64 = 3.0;

/// Share of the largest vote from which another scale is believed, too, if it is nearer to no change. Where two functions contradict
/// each other, this is the one that did not change.
const NEARLY_AS_MANY: f64 = 0.9;

/// Share of the samples of each side that the items of the scale must have. With less, both sides do different things (two phases of a
/// program): what a few samples of start and end agree on is no scale for the rest.
const LEAST_SUPPORT: f64 = 0.05;

/// Rounds in which items are left out and the scale is computed again; later ones changed nothing in simulations.
const ROUNDS: usize = 8;

/// The items that did not stand out, with their weights.
pub(super) struct Scale {
    /// By item: the precision with which it counts, 0 if it stands out.
    weights: Vec<f64>,
    /// By run: the sum of the weighted values.
    sums: Vec<f64>,
}

impl Scale {
    /// Finds the value that most items agree on, then leaves out those that stand out from the precision-weighted mean of the rest.
    /// `excess` is the variance of a run beyond counting, `factor` that of a difference in variances of a run.
    pub(super) fn find(items: &[Item], labels: &[bool], excess: f64, factor: f64) -> Self {
        let values: Vec<Vec<f64>> = items.iter().map(Item::values).collect();
        // The difference of each item, and the precision of a run of it.
        let seen: Vec<(f64, f64)> = items
            .iter()
            .zip(&values)
            .map(|(item, values)| {
                let variance = item.counting_variance() + excess;
                (difference(values, labels).0, 1.0 / variance.max(f64::MIN_POSITIVE))
            })
            .collect();
        let mut centre = agreed(&seen, factor);
        let mut weights = vec![0.0; items.len()];
        for _ in 0..ROUNDS {
            let total: f64 = weights.iter().sum();
            let noise = if total > 0.0 { 1.0 / total } else { 0.0 };
            weights.clear();
            weights.extend(seen.iter().map(|&(difference, precision)| {
                let deviation = (factor * (1.0 / precision + noise)).sqrt();
                if (difference - centre).abs() <= STANDS_OUT * deviation { precision } else { 0.0 }
            }));
            let weighted = weights.iter().zip(&seen).map(|(weight, (difference, _))| weight * difference);
            centre = weighted.sum::<f64>() / weights.iter().sum::<f64>().max(f64::MIN_POSITIVE);
        }
        if !is_supported(items, &weights) {
            weights.fill(0.0);
        }
        let sum = |run: usize| weights.iter().zip(&values).map(|(weight, values)| weight * values[run]).sum();
        Self { sums: (0..labels.len()).map(sum).collect(), weights }
    }

    /// Returns true if an item counts.
    pub(super) fn keeps(&self, item: usize) -> bool {
        self.weights[item] > 0.0
    }

    /// Returns the scale in each run without an item, or of all with `None`, and the expected variance of a run of it. `None` if
    /// nothing else counts: then the item is compared as it is.
    pub(super) fn without(&self, item: Option<(usize, &[f64])>) -> Option<(Vec<f64>, f64)> {
        let counts = |other: usize| self.keeps(other) && item.is_none_or(|(item, _)| item != other);
        let others = (0..self.weights.len()).filter(|&other| counts(other));
        let total = others.map(|other| self.weights[other]).reduce(|sum, weight| sum + weight)?;
        let own = |run: usize| item.map_or(0.0, |(item, values)| self.weights[item] * values[run]);
        let values = self.sums.iter().enumerate().map(|(run, sum)| (sum - own(run)) / total);
        Some((values.collect(), 1.0 / total))
    }
}

/// Returns true if the items that count have enough samples of each side.
fn is_supported(items: &[Item], weights: &[f64]) -> bool {
    (0..2).all(|side| {
        let all: f64 = items.iter().map(|item| item.samples(side)).sum();
        let members = items.iter().zip(weights).filter(|&(_, &weight)| weight > 0.0);
        members.map(|(item, _)| item.samples(side)).sum::<f64>() >= LEAST_SUPPORT * all
    })
}

/// Returns the difference that most items agree on: each votes for those near to its own, with its precision, and nothing for others.
fn agreed(seen: &[(f64, f64)], factor: f64) -> f64 {
    // A few items with many samples must not outvote all others: each counts like one with the median precision at most.
    let mut precisions: Vec<f64> = seen.iter().map(|&(_, precision)| precision).collect();
    precisions.sort_by(f64::total_cmp);
    let cap = precisions.get(precisions.len() / 2).copied().unwrap_or(1.0);
    let votes = |candidate: f64| -> f64 {
        let votes = seen.iter().map(|&(difference, precision)| {
            let distance = (difference - candidate).powi(2) * precision / (STANDS_OUT.powi(2) * factor);
            precision.min(cap) * (1.0 - distance).max(0.0)
        });
        votes.sum()
    };
    let candidates = || std::iter::once(0.0).chain(seen.iter().map(|&(difference, _)| difference));
    let most = candidates().map(votes).fold(0.0, f64::max);
    let leading = candidates().filter(|&candidate| votes(candidate) >= NEARLY_AS_MANY * most);
    leading.min_by(|one, other| one.abs().total_cmp(&other.abs())).unwrap_or(0.0)
}
