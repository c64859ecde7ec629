//! Paths that explain changes: the stacks in which a function gained or lost most.

use super::row::Row;
use super::sums::Sums;
use super::{AFTER, BEFORE, Comparison};
use crate::FrameId;
use crate::queries::NodeId;

/// Maximum number of changed functions that are explained.
const MAX_FUNCTIONS: usize = 8;

/// Maximum number of paths of one function.
const MAX_PATHS: usize = 3;

/// Share of a function's difference from which a path of it is told.
const MIN_SHARE: f64 = 0.1;

/// The 97.5th percentile of the normal distribution, for intervals of counts.
const DEVIATIONS: f64 = 1.96;

/// A stack that ends in a function that changed. Weights are means over runs.
#[derive(Clone, PartialEq, Debug)]
pub struct PathChange {
    /// The frames, outermost first, in the table of the comparison's tree.
    pub frames: Vec<FrameId>,
    /// The self weights of the stack before and after.
    pub means: [f64; 2],
    /// The weight after, less that before times the factor of everything.
    pub difference: f64,
    /// Half the width of the interval of the difference.
    pub half_width: f64,
}

/// Returns the paths of the rows that changed, in their order, the largest difference of each first.
pub(super) fn explaining(comparison: &Comparison, rows: &[Row], factor: f64, sums: &Sums) -> Vec<PathChange> {
    let tree = comparison.tree();
    let explained = &rows[..rows.len().min(MAX_FUNCTIONS)];
    let mut nodes: Vec<Vec<(f64, NodeId)>> = vec![Vec::new(); explained.len()];
    let means = |node: NodeId| {
        let weights = tree.self_weights(node);
        [BEFORE, AFTER].map(|side| weights[side] as f64 / sums.runs[side])
    };
    let difference = |means: [f64; 2]| means[AFTER] - means[BEFORE] * factor;
    for node in tree.nodes() {
        let frame = tree.frame(node);
        if let Some(row) = explained.iter().position(|row| Some(row.frame) == frame) {
            nodes[row].push((difference(means(node)), node));
        }
    }
    let mut paths = Vec::new();
    for (row, mut nodes) in explained.iter().zip(nodes) {
        nodes.sort_by(|one, other| other.0.abs().total_cmp(&one.0.abs()));
        let tells = |change: f64| change.abs() >= MIN_SHARE * row.difference.abs() && change != 0.0;
        for (change, node) in nodes.into_iter().filter(|(change, _)| tells(*change)).take(MAX_PATHS) {
            let means = means(node);
            paths.push(PathChange {
                frames: frames(comparison, node),
                means,
                difference: change,
                half_width: half_width(row, means, factor, sums),
            });
        }
    }
    paths
}

fn frames(comparison: &Comparison, node: NodeId) -> Vec<FrameId> {
    let tree = comparison.tree();
    let (mut frames, mut at) = (Vec::new(), node);
    while let Some(frame) = tree.frame(at) {
        frames.push(frame);
        at = tree.parent(at);
    }
    frames.reverse();
    frames
}

/// The noise of counting the samples of the path, and that of its function between runs in proportion.
fn half_width(row: &Row, means: [f64; 2], factor: f64, sums: &Sums) -> f64 {
    // Samples of the runs together stand for their number of weights each; the mean over runs has so much less noise.
    let counting = [BEFORE, AFTER].map(|side| means[side] * sums.mean_weights[side] / sums.runs[side]);
    let between = row.estimate.map_or(0.0, |estimate| estimate.error) * means[BEFORE].max(means[AFTER]);
    DEVIATIONS * (counting[BEFORE] * factor * factor + counting[AFTER] + between * between).sqrt()
}
