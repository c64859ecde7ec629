//! Moderated variances: what ten runs say of one item's variance, shrunk towards what all items say together.

use super::distribution::trigamma;

/// Weight of the common variance, in degrees of freedom, where there are too few items to estimate it.
const DEFAULT_WEIGHT: f64 = 4.0;

/// Number of items from which the weight of the common variance is estimated.
const MIN_ITEMS: usize = 5;

/// Bounds of the weight of the common variance: never none, and never so much that an item's own variance is not seen.
const WEIGHTS: std::ops::RangeInclusive<f64> = 2.0..=30.0;

/// An item's variance between units.
#[derive(Clone, Copy)]
pub(super) struct Observed {
    /// As the runs show it.
    pub(super) variance: f64,
    /// The part that comes from counting samples, of the item and of the scale.
    pub(super) counting: f64,
}

/// The variance that all items have in common beyond counting, and how much it weighs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moderation {
    /// The common excess: variance of a logarithm between units.
    pub(super) excess: f64,
    /// Its weight, in degrees of freedom.
    weight: f64,
    degrees: f64,
}

impl Moderation {
    /// Estimates the excess as the weighted median of what the items have beyond counting, and its weight from how much their
    /// variances differ (G. K. Smyth, 2004). Without `degrees`, there is no excess.
    pub(super) fn estimate(observed: &[Observed], degrees: usize) -> Self {
        let degrees = degrees as f64;
        if degrees < 1.0 {
            return Self { excess: 0.0, weight: DEFAULT_WEIGHT, degrees: 0.0 };
        }
        // The median of chi-square over its degrees (E. B. Wilson and M. M. Hilferty, 1931).
        let median = (1.0 - 2.0 / (9.0 * degrees)).powi(3);
        let beyond = observed.iter().map(|item| {
            let weight = 1.0 / item.counting.max(f64::MIN_POSITIVE).powi(2);
            (item.variance / median - item.counting, weight)
        });
        let excess = weighted_median(beyond.collect()).max(0.0);
        let mut this = Self { excess, weight: DEFAULT_WEIGHT, degrees };
        if observed.len() >= MIN_ITEMS {
            let logs = observed.iter().map(|item| {
                let expected = this.prior(item.counting).max(f64::MIN_POSITIVE);
                // A variance of nothing has no logarithm.
                (item.variance / expected).max(1e-3).ln()
            });
            let logs: Vec<f64> = logs.collect();
            let mean = logs.iter().sum::<f64>() / logs.len() as f64;
            let spread = logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / (logs.len() - 1) as f64;
            this.weight = weight_for(spread - trigamma(degrees / 2.0));
        }
        this
    }

    /// Believes each item's own variance alone.
    pub(super) fn alone(degrees: usize) -> Self {
        Self { excess: 0.0, weight: 0.0, degrees: degrees as f64 }
    }

    /// The variance that is expected of an item with this variance from counting.
    pub(super) fn prior(&self, counting: f64) -> f64 {
        counting + self.excess
    }

    /// The variance of an item between units, moderated.
    pub(super) fn variance(&self, observed: Observed) -> f64 {
        if self.degrees < 1.0 {
            return self.prior(observed.counting);
        }
        (self.weight * self.prior(observed.counting) + self.degrees * observed.variance)
            / (self.weight + self.degrees)
    }

    /// The degrees of freedom of a moderated variance.
    pub(super) fn degrees(&self) -> f64 {
        self.weight + self.degrees
    }
}

/// Returns the weight at which the logarithms of variances have this variance beyond that of their own degrees.
fn weight_for(beyond: f64) -> f64 {
    let (mut low, mut high) = (*WEIGHTS.start(), *WEIGHTS.end());
    for _ in 0..40 {
        let middle = f64::midpoint(low, high);
        if trigamma(middle / 2.0) > beyond { low = middle } else { high = middle }
    }
    f64::midpoint(low, high)
}

fn weighted_median(mut values: Vec<(f64, f64)>) -> f64 {
    values.sort_by(|one, other| one.0.total_cmp(&other.0));
    let half = values.iter().map(|(_, weight)| weight).sum::<f64>() / 2.0;
    let mut sum = 0.0;
    for (value, weight) in values {
        sum += weight;
        if sum >= half {
            return value;
        }
    }
    0.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variances_move_towards_what_all_say() {
        let observed: Vec<Observed> = [1.5, 2.0, 2.5, 1.8, 2.2, 2.0]
            .iter()
            .map(|&variance| Observed { variance, counting: 1.0 })
            .collect();
        let moderation = Moderation::estimate(&observed, 9);
        assert!((moderation.excess - 1.15).abs() < 0.2, "{moderation:?}");
        // All are alike, so the common variance weighs as much as it may.
        assert!(moderation.degrees() > 38.0);
        let lucky = moderation.variance(Observed { variance: 0.1, counting: 1.0 });
        assert!((1.5..2.1).contains(&lucky), "{lucky}");
        let wild = [0.01, 40.0, 0.3, 9.0, 0.1, 2.0].map(|variance| Observed { variance, counting: 0.01 });
        assert!(Moderation::estimate(&wild, 9).degrees() < 12.0);
    }
}
