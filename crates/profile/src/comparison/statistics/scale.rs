//! The scale: by how much everything changed alike, from the items that do not stand out.

use super::observations::Layout;

/// Distance from the scale, in standard deviations, from which an item stands out. Of 20 normal items, one does in 1 of 19 families.
const STANDS_OUT: f64 = 3.0;

/// Share of the largest vote that another scale may lack and still be believed, if it is nearer to no change. Where two functions
/// contradict each other, this is the one that did not change.
const NEARLY_AS_MANY: f64 = 0.1;

/// Share of the samples of each side that the items of the scale must have. With less, both sides do different things (two phases of a
/// program): what a few samples of start and end agree on is no scale for the rest.
const LEAST_SUPPORT: f64 = 0.05;

/// Rounds in which items are left out and the scale is computed again; later ones changed nothing in simulations.
const ROUNDS: usize = 8;

/// An item as the scale sees it.
pub(super) struct Scaled<'v> {
    /// Its value in each unit.
    pub(super) values: &'v [f64],
    /// Its difference between the sides.
    pub(super) difference: f64,
    /// The expected variance of a unit, from counting and the common excess.
    pub(super) variance: f64,
    /// Its samples on each side.
    pub(super) samples: [f64; 2],
}

/// The items that did not stand out, with their weights.
pub(super) struct Scale {
    /// By item: the precision with which it counts, 0 if it stands out.
    weights: Vec<f64>,
    /// By item: the expected variance of a unit.
    variances: Vec<f64>,
    /// By unit: the sum of the weighted values.
    sums: Vec<f64>,
}

impl Scale {
    /// Finds the value that most items agree on, then leaves out those that stand out from the precision-weighted mean of the rest,
    /// until none does.
    pub(super) fn find(items: &[Scaled<'_>], layout: &Layout) -> Self {
        let precision = |item: &Scaled<'_>| 1.0 / item.variance.max(f64::MIN_POSITIVE);
        let mut centre = agreed(items, layout);
        let mut kept: Vec<bool> = Vec::new();
        for _ in 0..ROUNDS {
            let weights =
                || items.iter().zip(&kept).filter(|&(_, &kept)| kept).map(|(item, _)| precision(item));
            let total: f64 = weights().sum();
            let noise = if total > 0.0 { 1.0 / total } else { 0.0 };
            let is_near = |item: &Scaled<'_>| {
                let deviation = (layout.factor() * (item.variance + noise)).sqrt();
                (item.difference - centre).abs() <= STANDS_OUT * deviation
            };
            let next: Vec<bool> = items.iter().map(is_near).collect();
            if next == kept || next.iter().all(|kept| !kept) {
                break;
            }
            kept = next;
            let members = || items.iter().zip(&kept).filter(|&(_, &kept)| kept);
            let total: f64 = members().map(|(item, _)| precision(item)).sum();
            centre = members().map(|(item, _)| precision(item) * item.difference).sum::<f64>() / total;
        }
        kept.resize(items.len(), false);
        if !is_supported(items, &kept) {
            kept.fill(false);
        }
        let weights: Vec<f64> =
            items.iter().zip(&kept).map(|(item, &kept)| if kept { precision(item) } else { 0.0 }).collect();
        let sums = (0..layout.units()).map(|unit| {
            let weighted = items.iter().zip(&weights).filter(|&(_, &weight)| weight > 0.0);
            weighted.map(|(item, weight)| weight * item.values.get(unit).copied().unwrap_or(0.0)).sum()
        });
        Self { sums: sums.collect(), variances: items.iter().map(|item| item.variance).collect(), weights }
    }

    /// The number of items, whether they count or not.
    pub(super) fn items(&self) -> usize {
        self.weights.len()
    }

    /// Returns true if an item counts.
    pub(super) fn keeps(&self, item: usize) -> bool {
        self.weights.get(item).is_some_and(|&weight| weight > 0.0)
    }

    /// Returns the scale in each unit without an item, or of all with `None`, and the expected variance of a unit of it. Zeros if
    /// nothing else counts: then the item is compared as it is.
    pub(super) fn without(&self, item: Option<(usize, &[f64])>) -> (Vec<f64>, f64) {
        let left_out = |index: usize| item.is_some_and(|(item, _)| item == index);
        let members =
            || self.weights.iter().enumerate().filter(|&(index, &weight)| weight > 0.0 && !left_out(index));
        let total: f64 = members().map(|(_, &weight)| weight).sum();
        if total <= 0.0 {
            return (vec![0.0; self.sums.len()], 0.0);
        }
        let own = item.map_or(0.0, |(item, _)| self.weights.get(item).copied().unwrap_or(0.0));
        let values = self.sums.iter().enumerate().map(|(unit, sum)| {
            let value = item.and_then(|(_, values)| values.get(unit)).copied().unwrap_or(0.0);
            (sum - own * value) / total
        });
        let variance: f64 =
            members().map(|(index, &weight)| (weight / total).powi(2) * self.variances[index]).sum();
        (values.collect(), variance)
    }
}

/// Returns true if the items that are kept have enough samples of each side.
fn is_supported(items: &[Scaled<'_>], kept: &[bool]) -> bool {
    (0..2).all(|side| {
        let all: f64 = items.iter().map(|item| item.samples[side]).sum();
        let members = items.iter().zip(kept).filter(|&(_, &kept)| kept);
        members.map(|(item, _)| item.samples[side]).sum::<f64>() >= LEAST_SUPPORT * all
    })
}

/// Returns the difference that most items agree on: each votes for those near to its own, with its precision, and nothing for others.
fn agreed(items: &[Scaled<'_>], layout: &Layout) -> f64 {
    // A few items with many samples must not outvote all others: each counts like one with the median precision at most.
    let mut precisions: Vec<f64> =
        items.iter().map(|item| 1.0 / item.variance.max(f64::MIN_POSITIVE)).collect();
    precisions.sort_by(f64::total_cmp);
    let cap = precisions.get(precisions.len() / 2).copied().unwrap_or(1.0);
    let vote = |candidate: f64| -> f64 {
        let votes = items.iter().map(|item| {
            let precision = (1.0 / item.variance.max(f64::MIN_POSITIVE)).min(cap);
            let variance = layout.factor() * item.variance;
            let distance = (item.difference - candidate).powi(2)
                / (STANDS_OUT.powi(2) * variance).max(f64::MIN_POSITIVE);
            precision * (1.0 - distance).max(0.0)
        });
        votes.sum()
    };
    let candidates = std::iter::once(0.0).chain(items.iter().map(|item| item.difference));
    let votes: Vec<(f64, f64)> = candidates.map(|candidate| (candidate, vote(candidate))).collect();
    let most = votes.iter().map(|(_, votes)| *votes).fold(0.0, f64::max);
    let leading = votes.iter().filter(|(_, votes)| *votes >= (1.0 - NEARLY_AS_MANY) * most);
    let least =
        leading.map(|(candidate, _)| *candidate).min_by(|one, other| one.abs().total_cmp(&other.abs()));
    least.unwrap_or(0.0)
}
