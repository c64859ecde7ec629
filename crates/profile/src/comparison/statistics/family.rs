//! A family of items that are tested together, and what is known of each.

use super::distribution::{normal_quantile, student_quantile};
use super::moderation::{Moderation, Observed};
use super::observations::{Design, Item, Layout};
use super::relabelling::Relabellings;
use super::scale::{Scale, Scaled};

/// Probability with which a family without any change has a mark.
pub const LEVEL: f64 = 0.01;

/// Probability with which intervals contain the true value.
pub const CONFIDENCE: f64 = 0.95;

/// Probability with which a change of the smallest size is found.
pub const POWER: f64 = 0.8;

/// Rounds in which the scale, its members and the excess are estimated by each other.
const ROUNDS: usize = 3;

/// Maximum number of steps in which the smallest change is looked for. In `cargo xtask simulate smallest` none needed more than nine.
const MAX_STEPS: usize = 20;

/// The part of the smallest change below which a step is the last: what is said of it has two digits.
const STEP: f64 = 0.01;

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
    /// The smallest growth, as a logarithm, that is found with the probability [`POWER`]; `None` as for `probability`.
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

/// The estimates of a family of items, in their order, and of what they have in common.
#[derive(Clone, Debug)]
pub struct Family {
    /// The items, relative to the scale.
    pub items: Vec<Estimate>,
    /// The scale: the change of everything that does not stand out. Its `probability` is that of no item.
    pub scale: Estimate,
    /// The scale as an item, to be tested among totals.
    pub scale_item: Item,
    /// By item: true if it is one of those that the scale is made of.
    pub in_scale: Vec<bool>,
}

/// Returns the smallest number of pairs, or of runs on each side, with which a test can reach [`LEVEL`].
pub fn needed_runs(design: Design) -> usize {
    match design {
        Design::Pairs => 8,
        Design::Groups => 5,
    }
}

/// Compares items relative to what they have in common, with marks for the whole family. `None` if a side has no run, or runs of
/// pairs lack a partner.
///
/// The difference of an item in a unit (a pair, or a run) is its own logarithm minus the precision-weighted mean of all other items
/// that do not stand out. Variances between units are moderated towards that of counting samples with a common excess. Marks come
/// from the largest distance of any item under all relabellings, in steps: what is marked is left out, and the rest tested again.
pub fn compare(items: &[Item], design: Design, runs: [usize; 2]) -> Option<Family> {
    let layout = Layout::new(design, runs)?;
    let labels = layout.labels();
    let values: Vec<Vec<f64>> = items.iter().map(|item| layout.values(item)).collect();
    let counting: Vec<f64> = items.iter().map(|item| layout.counting_variance(item)).collect();
    let differences: Vec<f64> = values.iter().map(|values| layout.difference(values, &labels).0).collect();
    let mut moderation = Moderation::estimate(&[], 0);
    let mut found = None;
    for _ in 0..ROUNDS {
        let scaled: Vec<Scaled<'_>> = values
            .iter()
            .zip(&counting)
            .zip(differences.iter().zip(items))
            .map(|((values, &counting), (&difference, item))| Scaled {
                values,
                difference,
                variance: moderation.prior(counting),
                samples: item.samples(),
            })
            .collect();
        let scale = Scale::find(&scaled, &layout);
        let relative: Vec<Relative> = (0..items.len())
            .map(|index| {
                Relative::new(&values[index], counting[index], Some(index), &scale, &layout, &labels)
            })
            .collect();
        let members = relative.iter().enumerate().filter(|&(index, _)| scale.keeps(index));
        let observed: Vec<Observed> = members.map(|(_, relative)| relative.observed).collect();
        moderation = Moderation::estimate(&observed, layout.degrees());
        found = Some((scale, relative));
    }
    let (scale, relative) = found?;
    let mut estimates: Vec<Estimate> =
        relative.iter().map(|item| item.estimate(&moderation, &layout)).collect();
    mark(&mut estimates, items, &relative, &moderation, &layout);
    let (scale_values, variance) = scale.without(None);
    let of_scale = Relative::of_values(scale_values.clone(), variance, &layout, &labels);
    Some(Family {
        items: estimates,
        scale: of_scale.estimate_alone(&layout),
        scale_item: layout.item(&scale_values, variance),
        in_scale: (0..items.len()).map(|index| scale.keeps(index)).collect(),
    })
}

/// Compares items as they are, each with its own variance alone, with marks for all of them together. As [`compare`] otherwise.
pub fn compare_totals(items: &[Item], design: Design, runs: [usize; 2]) -> Option<Vec<Estimate>> {
    let layout = Layout::new(design, runs)?;
    let labels = layout.labels();
    let relative: Vec<Relative> = items
        .iter()
        .map(|item| {
            Relative::of_values(layout.values(item), layout.counting_variance(item), &layout, &labels)
        })
        .collect();
    let mut estimates: Vec<Estimate> = relative.iter().map(|item| item.estimate_alone(&layout)).collect();
    let moderation = Moderation::alone(layout.degrees());
    mark(&mut estimates, items, &relative, &moderation, &layout);
    Some(estimates)
}

/// An item relative to the scale.
struct Relative {
    values: Vec<f64>,
    difference: f64,
    observed: Observed,
    /// The error that limits what can be shown, where it is larger than that of the estimate.
    doubt: f64,
}

impl Relative {
    fn new(
        values: &[f64],
        counting: f64,
        index: Option<usize>,
        scale: &Scale,
        layout: &Layout,
        labels: &[bool],
    ) -> Self {
        let (of_scale, variance) = scale.without(index.map(|index| (index, values)));
        // Of two items, nobody can say which one changed, unless the change is larger than what varies in both.
        let others = (0..scale.items()).filter(|&other| Some(other) != index && scale.keeps(other)).count();
        let (_, unscaled) = layout.difference(values, labels);
        let doubt = if others < 2 { (layout.factor() * unscaled).sqrt() } else { 0.0 };
        let values = values.iter().zip(&of_scale).map(|(value, scale)| value - scale).collect();
        Self { doubt, ..Self::of_values(values, counting + variance, layout, labels) }
    }

    fn of_values(values: Vec<f64>, counting: f64, layout: &Layout, labels: &[bool]) -> Self {
        let (difference, variance) = layout.difference(&values, labels);
        Self { values, difference, observed: Observed { variance, counting }, doubt: 0.0 }
    }

    fn estimate(&self, moderation: &Moderation, layout: &Layout) -> Estimate {
        let error = (layout.factor() * moderation.variance(self.observed)).sqrt();
        let quantile = if layout.degrees() == 0 {
            normal_quantile(f64::midpoint(CONFIDENCE, 1.0))
        } else {
            student_quantile(f64::midpoint(CONFIDENCE, 1.0), moderation.degrees())
        };
        let distance = self.difference / error.max(f64::MIN_POSITIVE);
        Estimate {
            log_ratio: self.difference,
            error,
            half_width: quantile * error,
            distance,
            probability: None,
            smallest: None,
        }
    }

    /// The distance of these values of the item from no change under other labels, in standard errors.
    fn distance(&self, values: &[f64], labels: &[bool], moderation: &Moderation, layout: &Layout) -> f64 {
        let (difference, variance) = layout.difference(values, labels);
        let observed = Observed { variance, ..self.observed };
        let error = (layout.factor() * moderation.variance(observed)).sqrt();
        (difference / error.max(f64::MIN_POSITIVE)).abs()
    }

    /// The estimate without what other items say of its variance; of a single pair, from counting alone.
    fn estimate_alone(&self, layout: &Layout) -> Estimate {
        self.estimate(&Moderation::alone(layout.degrees()), layout)
    }
}

/// Tests all items of a family, and says what each could have shown.
fn mark(
    estimates: &mut [Estimate],
    items: &[Item],
    relative: &[Relative],
    moderation: &Moderation,
    layout: &Layout,
) {
    if Relabellings::smallest_probability(layout) > LEVEL {
        return;
    }
    let tested: Vec<usize> = (0..items.len()).filter(|&index| items[index].is_tested).collect();
    let relabellings = Relabellings::new(layout);
    // By relabelling: the distance of each tested item.
    let distances: Vec<Vec<f64>> = relabellings
        .iter()
        .map(|labels| {
            let distance = |&index: &usize| {
                relative[index].distance(&relative[index].values, labels, moderation, layout)
            };
            tested.iter().map(distance).collect()
        })
        .collect();
    let mut left: Vec<usize> = (0..tested.len()).collect();
    let mut reached = 0.0_f64;
    while !left.is_empty() {
        // By relabelling: the largest two distances, with the position of the first.
        let leaders: Vec<Leaders> = distances.iter().map(|distances| Leaders::of(distances, &left)).collect();
        let mut largest: Vec<f64> = leaders.iter().map(|leaders| leaders.first).collect();
        largest.sort_by(f64::total_cmp);
        let probability = |distance: f64| {
            // What is equal but for rounding is as extreme.
            let as_far = largest.len() - largest.partition_point(|&other| other < distance * (1.0 - 1e-9));
            as_far as f64 / largest.len() as f64
        };
        let mut next = Vec::new();
        let mut most = reached;
        for &position in &left {
            let estimate = &mut estimates[tested[position]];
            // A step cannot find what an earlier one did not.
            let probability = probability(estimate.distance.abs()).max(reached);
            estimate.probability = Some(probability);
            if probability > LEVEL {
                next.push(position);
            } else {
                most = most.max(probability);
            }
        }
        let is_last = next.len() == left.len();
        // What is left is tested against fewer in the next step.
        for position in left.into_iter().filter(|position| is_last || !next.contains(position)) {
            let others: Vec<f64> = leaders.iter().map(|leaders| leaders.without(position)).collect();
            let item = &relative[tested[position]];
            estimates[tested[position]].smallest =
                Some(smallest_change(item, &others, &relabellings, moderation, layout));
        }
        if is_last {
            break;
        }
        (left, reached) = (next, most);
    }
}

/// The largest two distances of a family's items under one relabelling.
struct Leaders {
    first: f64,
    /// The position of the item with the largest; `None` if all are 0.
    position: Option<usize>,
    second: f64,
}

impl Leaders {
    fn of(distances: &[f64], positions: &[usize]) -> Self {
        let mut leaders = Self { first: 0.0, position: None, second: 0.0 };
        for &position in positions {
            let distance = distances[position];
            if distance > leaders.first {
                leaders = Self { first: distance, position: Some(position), second: leaders.first };
            } else {
                leaders.second = leaders.second.max(distance);
            }
        }
        leaders
    }

    /// Returns the largest distance of all items but one.
    fn without(&self, position: usize) -> f64 {
        if self.position == Some(position) { self.second } else { self.first }
    }
}

/// Returns the smallest growth of an item, as a logarithm, that its family would show with the probability [`POWER`]. `others` has
/// the largest distance of all other items by relabelling.
///
/// A change is in the relabelled values, too, and makes the distance that a mark needs larger: the fewer the units, the more. So it
/// is put into the item's values, and increased until it is found.
fn smallest_change(
    item: &Relative,
    others: &[f64],
    relabellings: &Relabellings,
    moderation: &Moderation,
    layout: &Layout,
) -> f64 {
    let own = layout.labels();
    let error = (layout.factor() * moderation.variance(item.observed)).sqrt().max(item.doubt);
    let power = student_quantile(POWER, moderation.degrees());
    let mut change = 0.0;
    for _ in 0..MAX_STEPS {
        let mut values = item.values.clone();
        for (value, &after) in values.iter_mut().zip(&own) {
            *value += if after { change - item.difference } else { 0.0 };
        }
        // The item's own labels, and their opposite.
        let mut as_far = 0;
        let mut distances: Vec<f64> = Vec::with_capacity(others.len());
        for (labels, &others) in relabellings.iter().zip(others) {
            let same = labels.iter().zip(&own).filter(|(one, own)| one == own).count();
            if same == 0 || same == own.len() {
                as_far += 1;
            } else {
                distances.push(item.distance(&values, labels, moderation, layout).max(others));
            }
        }
        let allowed = (LEVEL * others.len() as f64) as usize;
        let rank = allowed.saturating_sub(as_far);
        if rank >= distances.len() {
            break;
        }
        let critical = *distances.select_nth_unstable_by(rank, |one, other| other.total_cmp(one)).1;
        // The estimate varies, and so does its error, here and where it will be found: each by 1 / (2 × degrees) of its square.
        let uncertain = power * (1.0 + critical.powi(2) / moderation.degrees()).sqrt();
        let needed = (critical + uncertain) * error;
        if needed <= change * (1.0 + STEP) {
            break;
        }
        change = needed;
    }
    change
}
