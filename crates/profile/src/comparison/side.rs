//! A side of a comparison: the runs of one version, added up.

use super::names::compared_frame;
use crate::queries::{ByLabel, CallTree, CallTreeBuilder, FunctionTable, NodeId, Place, Weights};
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

impl Side {
    /// A side without runs. With `keeps_threads`, its tree has the threads and processes below the functions, as the views have them; those
    /// of the other side are the same only if they have the same label.
    pub fn new(keeps_threads: bool) -> Self {
        Self { frames: FrameTable::default(), tree: CallTreeBuilder::new(1), runs: Vec::new(), keeps_threads }
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
        let mut compared = ByLabel(frames.iter().map(|frame| frame.index() as u32).collect());
        for (_, frame, weights) in FunctionTable::new(tree, &mut compared).rows() {
            if let (Some(sum), Some(&weights)) = (functions.get_mut(frame as usize), weights.first()) {
                *sum = weights;
            }
        }
        self.tree.add(NodeId::ROOT, tree.self_weights(NodeId::ROOT));
        self.tree.graft(tree, 0, |node, frame| match self.keeps_threads || !tree.is_thread(node) {
            true => Place::Child(frames[frame.index()]),
            false => Place::Same,
        });
        let weight = tree.totals(NodeId::ROOT).first().copied().unwrap_or_default();
        self.runs.push(Run { total: RunTotal { weight, samples }, functions });
    }
}
