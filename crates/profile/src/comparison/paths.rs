//! Paths that explain changes: the stacks in which a function gained or lost most. A function whose own weight did not change has some, too,
//! if it is called otherwise than before.

use std::collections::BTreeMap;

use super::row::{MIN_MARKED_SHARE, Row};
use super::sums::Sums;
use super::{AFTER, BEFORE, Comparison};
use crate::FrameId;
use crate::queries::{CallTree, NodeId};

/// Maximum number of functions that are explained, of those that changed and of the others.
const MAX_FUNCTIONS: usize = 8;

/// Maximum number of paths of one function.
const MAX_PATHS: usize = 3;

/// Number of frames of a path. What lies further out differs between builds that inline otherwise, and makes two paths of one.
const MAX_FRAMES: usize = 6;

/// Share of a function's difference from which a path of it is told.
const MIN_SHARE: f64 = 0.1;

/// Number of half widths from which a path to a function without a change is told. Some hundred paths are looked at, of which an interval
/// alone would show several by chance; beyond two half widths is one of 10,000.
const MIN_HALF_WIDTHS: f64 = 2.0;

/// The 97.5th percentile of the normal distribution, for intervals of counts.
const DEVIATIONS: f64 = 1.96;

/// The innermost frames of stacks that end in a function. Weights are means over runs.
#[derive(Clone, PartialEq, Debug)]
pub struct PathChange {
    /// The frames, outermost first, in the table of the comparison's tree.
    pub frames: Vec<FrameId>,
    /// True if the stacks have frames outside of these.
    pub is_cut: bool,
    /// The self weights of the stacks before and after.
    pub means: [f64; 2],
    /// The weight after, less that before times the factor of everything.
    pub difference: f64,
    /// Half the width of the interval of the difference.
    pub half_width: f64,
}

/// The innermost frames of a stack, outermost first, and whether there are others outside of them.
type Innermost = (Vec<FrameId>, bool);

/// Returns paths to the first rows: to those that changed (`changed` rows) in their order, the largest difference of each first, then to
/// the others those that changed beyond doubt, the largest difference first. `error` is the standard error of the logarithm of the factor of
/// the whole weight.
pub(super) fn explaining(
    comparison: &Comparison,
    rows: &[Row],
    changed: usize,
    factor: f64,
    error: f64,
    sums: &Sums,
) -> Vec<PathChange> {
    let tree = comparison.tree();
    let (changed, unchanged) = rows.split_at(changed.min(rows.len()));
    let unchanged = unchanged.iter().filter(|row| row.share >= MIN_MARKED_SHARE).take(MAX_FUNCTIONS);
    let mut explained: Vec<(&Row, BTreeMap<Innermost, [f64; 2]>)> =
        changed.iter().take(MAX_FUNCTIONS).chain(unchanged).map(|row| (row, BTreeMap::new())).collect();
    for node in tree.nodes() {
        let frame = tree.frame(node);
        if let Some((_, paths)) = explained.iter_mut().find(|(row, _)| Some(row.frame) == frame) {
            let weights = tree.self_weights(node);
            let means = paths.entry(innermost(tree, node)).or_default();
            for side in [BEFORE, AFTER] {
                means[side] += weights[side] as f64 / sums.runs[side];
            }
        }
    }
    let weight_of = |side: usize| sums.weights[side] / sums.runs[side];
    let least = MIN_MARKED_SHARE * weight_of(BEFORE).max(weight_of(AFTER));
    let by_size = |paths: &mut Vec<PathChange>| {
        paths.sort_by(|one, other| other.difference.abs().total_cmp(&one.difference.abs()));
    };
    let (mut told, mut to_unchanged) = (Vec::new(), Vec::new());
    for (index, (row, paths)) in explained.into_iter().enumerate() {
        // The error of a function that changed is its own. That of another one says how well its weight as a whole is known beside
        // others, which is little if it holds nearly all.
        let error = match row.estimate.filter(|_| index < changed.len()) {
            Some(estimate) => estimate.error,
            None => error,
        };
        let change = |((frames, is_cut), means): (Innermost, [f64; 2])| PathChange {
            frames,
            is_cut,
            means,
            difference: means[AFTER] - means[BEFORE] * factor,
            half_width: half_width(error, means, factor, sums),
        };
        let paths = paths.into_iter().map(change).filter(|path| path.difference != 0.0);
        if index < changed.len() {
            let share = MIN_SHARE * row.difference.abs();
            let mut paths: Vec<PathChange> = paths.filter(|path| path.difference.abs() >= share).collect();
            by_size(&mut paths);
            told.extend(paths.into_iter().take(MAX_PATHS));
        } else {
            to_unchanged.extend(paths.filter(|path| {
                let difference = path.difference.abs();
                difference >= least && difference >= MIN_HALF_WIDTHS * path.half_width
            }));
        }
    }
    by_size(&mut to_unchanged);
    to_unchanged.truncate(MAX_FUNCTIONS);
    told.extend(to_unchanged);
    told
}

fn innermost(tree: &CallTree, node: NodeId) -> Innermost {
    let (mut frames, mut at) = (Vec::new(), node);
    while let Some(frame) = tree.frame(at) {
        if frames.len() == MAX_FRAMES {
            frames.reverse();
            return (frames, true);
        }
        frames.push(frame);
        at = tree.parent(at);
    }
    frames.reverse();
    (frames, false)
}

/// The noise of counting the samples of the path, and that between runs in proportion.
fn half_width(error: f64, means: [f64; 2], factor: f64, sums: &Sums) -> f64 {
    // Samples of the runs together stand for their number of weights each; the mean over runs has so much less noise.
    let counting = [BEFORE, AFTER].map(|side| means[side] * sums.mean_weights[side] / sums.runs[side]);
    let between = error * means[BEFORE].max(means[AFTER]);
    DEVIATIONS * (counting[BEFORE] * factor * factor + counting[AFTER] + between * between).sqrt()
}
