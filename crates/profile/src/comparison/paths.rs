//! Paths that explain changes: the stacks in which a function gained or lost most. A function whose own weight did not change has some, too,
//! if it is called otherwise than before.

use std::collections::BTreeMap;

use super::row::{MIN_MARKED_SHARE, Row};
use super::statistics::WITHIN;
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

/// Number of half widths from which a path is told. Some hundred paths are looked at, of which an interval alone would show several by
/// chance; beyond two half widths is one of 10,000.
const MIN_HALF_WIDTHS: f64 = 2.0;

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

/// Returns the paths of the first rows that changed beyond doubt, the largest difference of each row first: of those that changed (`changed`
/// rows), then of others. `error` is the standard error of the logarithm of the factor of the whole weight.
pub(super) fn explaining(
    comparison: &Comparison,
    rows: &[Row],
    changed: usize,
    factor: f64,
    error: f64,
    sums: &Sums,
) -> Vec<PathChange> {
    let tree = comparison.tree();
    let (changed, unchanged) = rows.split_at(changed);
    // The error of a function that changed is its own. That of another one says how well its weight as a whole is known beside others,
    // which is little if it holds nearly all.
    let own = |row: &Row| row.estimate.map_or(error, |estimate| estimate.error);
    let changed = changed.iter().take(MAX_FUNCTIONS).map(|row| (row.frame, own(row)));
    let unchanged =
        unchanged.iter().filter(|row| row.share >= MIN_MARKED_SHARE).map(|row| (row.frame, error));
    let functions: Vec<(FrameId, f64)> = changed.chain(unchanged.take(MAX_FUNCTIONS)).collect();
    let mut weights: Vec<BTreeMap<Innermost, [f64; 2]>> = vec![BTreeMap::new(); functions.len()];
    for node in tree.nodes() {
        let frame = tree.frame(node);
        if let Some(position) = functions.iter().position(|(function, _)| Some(*function) == frame) {
            let means = weights[position].entry(innermost(tree, node)).or_default();
            for side in [BEFORE, AFTER] {
                means[side] += tree.self_weights(node)[side] as f64 / sums.runs[side];
            }
        }
    }
    let weight_of = |side: usize| sums.weights[side] / sums.runs[side];
    let least = MIN_MARKED_SHARE * weight_of(BEFORE).max(weight_of(AFTER));
    let paths = weights.into_iter().zip(functions).flat_map(|(paths, (_, error))| {
        let change = |((frames, is_cut), means): (Innermost, [f64; 2])| PathChange {
            frames,
            is_cut,
            means,
            difference: means[AFTER] - means[BEFORE] * factor,
            half_width: half_width(error, means, factor, sums),
        };
        let is_told =
            |path: &PathChange| path.difference.abs() >= least.max(MIN_HALF_WIDTHS * path.half_width);
        let mut paths: Vec<PathChange> = paths.into_iter().map(change).filter(is_told).collect();
        paths.sort_by(|one, other| other.difference.abs().total_cmp(&one.difference.abs()));
        paths.truncate(MAX_PATHS);
        paths
    });
    paths.collect()
}

fn innermost(tree: &CallTree, node: NodeId) -> Innermost {
    let callers = std::iter::successors(Some(node), |&node| Some(tree.parent(node)));
    let mut frames: Vec<FrameId> = callers.map_while(|node| tree.frame(node)).take(MAX_FRAMES + 1).collect();
    let is_cut = frames.len() > MAX_FRAMES;
    frames.truncate(MAX_FRAMES);
    frames.reverse();
    (frames, is_cut)
}

/// The noise of counting the samples of the path, and that between runs in proportion.
fn half_width(error: f64, means: [f64; 2], factor: f64, sums: &Sums) -> f64 {
    // Samples of the runs together stand for their number of weights each; the mean over runs has so much less noise.
    let counting = [BEFORE, AFTER].map(|side| means[side] * sums.mean_weights[side] / sums.runs[side]);
    let between = error * means[BEFORE].max(means[AFTER]);
    WITHIN * (counting[BEFORE] * factor * factor + counting[AFTER] + between * between).sqrt()
}
