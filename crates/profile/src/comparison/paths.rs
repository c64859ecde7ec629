//! Paths that explain changes: the stacks in which a function gained or lost most.

use std::collections::BTreeMap;

use super::row::Row;
use super::sums::Sums;
use super::{AFTER, BEFORE, Comparison};
use crate::FrameId;
use crate::queries::{CallTree, NodeId};

/// Maximum number of changed functions that are explained.
const MAX_FUNCTIONS: usize = 8;

/// Maximum number of paths of one function.
const MAX_PATHS: usize = 3;

/// Number of frames of a path. What lies further out differs between builds that inline otherwise, and makes two paths of one.
const MAX_FRAMES: usize = 6;

/// Share of a function's difference from which a path of it is told.
const MIN_SHARE: f64 = 0.1;

/// The 97.5th percentile of the normal distribution, for intervals of counts.
const DEVIATIONS: f64 = 1.96;

/// The innermost frames of stacks that end in a function that changed. Weights are means over runs.
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

/// Returns the paths of the rows that changed, in their order, the largest difference of each first.
pub(super) fn explaining(comparison: &Comparison, rows: &[Row], factor: f64, sums: &Sums) -> Vec<PathChange> {
    let tree = comparison.tree();
    let explained = &rows[..rows.len().min(MAX_FUNCTIONS)];
    let mut paths: Vec<BTreeMap<Innermost, [f64; 2]>> = vec![BTreeMap::new(); explained.len()];
    for node in tree.nodes() {
        let frame = tree.frame(node);
        if let Some(row) = explained.iter().position(|row| Some(row.frame) == frame) {
            let weights = tree.self_weights(node);
            let means = paths[row].entry(innermost(tree, node)).or_default();
            for side in [BEFORE, AFTER] {
                means[side] += weights[side] as f64 / sums.runs[side];
            }
        }
    }
    let mut told = Vec::new();
    for (row, paths) in explained.iter().zip(paths) {
        let change = |((frames, is_cut), means): (Innermost, [f64; 2])| PathChange {
            frames,
            is_cut,
            means,
            difference: means[AFTER] - means[BEFORE] * factor,
            half_width: half_width(row, means, factor, sums),
        };
        let tells = |path: &PathChange| {
            path.difference != 0.0 && path.difference.abs() >= MIN_SHARE * row.difference.abs()
        };
        let mut paths: Vec<PathChange> = paths.into_iter().map(change).filter(tells).collect();
        paths.sort_by(|one, other| other.difference.abs().total_cmp(&one.difference.abs()));
        told.extend(paths.into_iter().take(MAX_PATHS));
    }
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

/// The noise of counting the samples of the path, and that of its function between runs in proportion.
fn half_width(row: &Row, means: [f64; 2], factor: f64, sums: &Sums) -> f64 {
    // Samples of the runs together stand for their number of weights each; the mean over runs has so much less noise.
    let counting = [BEFORE, AFTER].map(|side| means[side] * sums.mean_weights[side] / sums.runs[side]);
    let between = row.estimate.map_or(0.0, |estimate| estimate.error) * means[BEFORE].max(means[AFTER]);
    DEVIATIONS * (counting[BEFORE] * factor * factor + counting[AFTER] + between * between).sqrt()
}
