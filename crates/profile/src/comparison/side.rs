//! A side of a comparison: the runs of one version, added up.

use super::names::compared_frame;
use crate::queries::{CallTree, CallTreeBuilder, FunctionTable, NodeId, RowKeys, Weights};
use crate::{FrameId, FrameTable, View};

/// The weight and the number of samples of one run.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct RunTotal {
    /// The weight of all samples, in the unit of the comparison.
    pub weight: u64,
    /// Samples.
    pub samples: u64,
}

impl RunTotal {
    /// The weight that a sample stands for, on average; 1 without samples.
    pub fn mean_weight(&self) -> f64 {
        if self.samples == 0 || self.weight == 0 { 1.0 } else { self.weight as f64 / self.samples as f64 }
    }
}

/// The runs of one version, added up by path and counted by function. Keeps neither views nor recordings.
pub struct Side {
    pub(super) frames: FrameTable,
    pub(super) tree: CallTreeBuilder,
    pub(super) runs: Vec<Run>,
    keeps_threads: bool,
}

/// The weights of one run.
pub(super) struct Run {
    pub(super) total: RunTotal,
    /// By frame; shorter than the table where later runs had new frames.
    pub(super) functions: Vec<Weights>,
}

impl Default for Side {
    fn default() -> Self {
        Self::new()
    }
}

impl Side {
    /// A side without runs. Threads and processes are no part of its tree.
    pub fn new() -> Self {
        Self {
            frames: FrameTable::default(),
            tree: CallTreeBuilder::new(1),
            runs: Vec::new(),
            keeps_threads: false,
        }
    }

    /// Keeps the threads and processes below the functions, as the views have them. Those of the other side are the same only if
    /// they have the same label.
    #[must_use]
    pub fn with_threads(self) -> Self {
        Self { keeps_threads: true, ..self }
    }

    /// Adds a run. Both sides need views with the same weight and choice of frames.
    pub fn add_run(&mut self, view: &View<'_>) {
        self.add_tree(&CallTree::of(&[view]), view.profile().total().samples);
    }

    /// Adds a run as a tree with one column, and the number of its samples.
    pub fn add_tree(&mut self, tree: &CallTree, samples: u64) {
        let frames: Vec<FrameId> =
            tree.frames().iter().map(|frame| self.frames.intern(compared_frame(frame))).collect();
        let mut functions = vec![Weights::default(); self.frames.frames().len()];
        for (_, frame, weights) in FunctionTable::new(tree, &mut ByComparedFrame(&frames)).rows() {
            if let (Some(sum), Some(&weights)) = (functions.get_mut(frame as usize), weights.first()) {
                *sum = weights;
            }
        }
        let mut places = vec![NodeId::ROOT; tree.nodes().len()];
        for node in tree.nodes() {
            let parent = places[tree.parent(node).index()];
            let place = match tree.frame(node) {
                Some(frame) if self.keeps_threads || !tree.frames()[frame.index()].label.is_thread() => {
                    self.tree.child(parent, frames[frame.index()])
                }
                _ => parent,
            };
            places[node.index()] = place;
            self.tree.add(place, tree.self_weights(node));
        }
        let weight = tree.totals(NodeId::ROOT).first().copied().unwrap_or_default();
        self.runs.push(Run { total: RunTotal { weight, samples }, functions });
    }
}

/// A row for each compared frame, whichever thread it ran in.
struct ByComparedFrame<'f>(&'f [FrameId]);

/// The key of stacks without a frame.
const NO_FRAME: u32 = u32::MAX;

impl RowKeys for ByComparedFrame<'_> {
    fn of_thread(&mut self, _: Option<FrameId>, _: FrameId) -> u32 {
        0
    }

    fn of_frame(&mut self, frame: Option<FrameId>) -> u32 {
        let compared = frame.and_then(|frame| self.0.get(frame.index()));
        compared.map_or(NO_FRAME, |frame| frame.index() as u32)
    }
}
