//! Weights of both sides, added up over runs: the items that are tested, and the rows that are shown.

use super::row::{MIN_MARKED_SHARE, Presence, Row, Verdict};
use super::statistics::{Item, Observation};
use super::{AFTER, BEFORE, Comparison, FunctionRuns};
use crate::queries::Weights;

/// Weights of both sides, added up over runs.
pub(super) struct Sums {
    /// The weight of all samples.
    pub(super) weights: [f64; 2],
    pub(super) runs: [f64; 2],
    /// The weight that a sample stands for, on average.
    pub(super) mean_weights: [f64; 2],
}

impl Sums {
    pub(super) fn of(comparison: &Comparison) -> Self {
        let sides = [BEFORE, AFTER].map(|side| comparison.runs(side));
        let weights = sides.map(|runs| runs.iter().map(|run| run.weight as f64).sum::<f64>());
        Self {
            weights,
            runs: sides.map(|runs| runs.len().max(1) as f64),
            mean_weights: comparison.mean_weights(),
        }
    }

    fn self_weights(function: &FunctionRuns) -> [f64; 2] {
        [BEFORE, AFTER].map(|side| function.runs[side].iter().map(|run| run.self_weight as f64).sum::<f64>())
    }

    /// The items of the family, and of which function each is. The last item has none: all functions that are too small.
    pub(super) fn items(&self, comparison: &Comparison) -> (Vec<usize>, Vec<Item>) {
        // A side on average: each function that holds [`MIN_MARKED_SHARE`] of one side holds it of that, which is the same whichever side
        // a run is said to be of, as the test demands.
        let all = self.weights.iter().sum::<f64>() / self.weights.len() as f64;
        let is_large = |function: &FunctionRuns| {
            Self::self_weights(function).iter().sum::<f64>() >= MIN_MARKED_SHARE * all
        };
        let functions = comparison.functions().iter().enumerate();
        let (large, small): (Vec<_>, Vec<_>) =
            functions.partition(|(_, function)| all > 0.0 && is_large(function));
        let small: Vec<&FunctionRuns> = small.into_iter().map(|(_, function)| function).collect();
        let mut items: Vec<Item> =
            large.iter().map(|(_, function)| self.item(comparison, &[function], true)).collect();
        let rest: f64 = small.iter().map(|function| Self::self_weights(function).iter().sum::<f64>()).sum();
        if rest >= MIN_MARKED_SHARE * all && rest > 0.0 {
            items.push(self.item(comparison, &small, false));
        }
        (large.into_iter().map(|(index, _)| index).collect(), items)
    }

    /// The item of some functions together.
    pub(super) fn item(&self, comparison: &Comparison, functions: &[&FunctionRuns], is_tested: bool) -> Item {
        let sides = [BEFORE, AFTER].map(|side| {
            let runs = comparison.runs(side).iter().enumerate();
            runs.map(|(number, total)| {
                let weights = functions.iter().filter_map(|function| function.runs[side].get(number));
                let weight: f64 = weights.map(|weights| weights.self_weight as f64).sum();
                let unit = total.mean_weight();
                Observation::of_samples(weight / unit, unit)
            })
            .collect()
        });
        Item { sides, is_tested }
    }

    /// The row of a function, without what is tested.
    pub(super) fn row(&self, function: &FunctionRuns, factor: f64) -> Row {
        let own = Self::self_weights(function);
        let means = [BEFORE, AFTER].map(|side| own[side] / self.runs[side]);
        let total = |weights: &[Weights]| weights.iter().map(|run| run.total as f64).sum::<f64>();
        let share = [BEFORE, AFTER].map(|side| own[side] / self.weights[side].max(1.0));
        Row {
            frame: function.frame,
            means,
            totals: [BEFORE, AFTER].map(|side| total(&function.runs[side]) / self.runs[side]),
            share: share[BEFORE].max(share[AFTER]),
            difference: means[AFTER] - means[BEFORE] * factor,
            presence: match [BEFORE, AFTER].map(|side| total(&function.runs[side]) > 0.0) {
                [true, false] => Presence::Gone,
                [false, true] => Presence::New,
                _ => Presence::Both,
            },
            estimate: None,
            verdict: Verdict::Unchanged,
        }
    }
}
