//! Tables of functions, or of whatever else samples are added up by.

use std::collections::HashMap;

use rustc_hash::FxBuildHasher;

use super::call_tree::{CallTree, NodeId, add};
use crate::{FrameId, Label, ViewFrame};

/// The part of a row's key that comes from threads, and the part that comes from frames: equal parts are equal numbers.
pub trait RowKeys {
    /// The part of a thread, which its frames have in common. `process` is the frame below it, where there is one.
    fn of_thread(&mut self, process: Option<FrameId>, thread: FrameId) -> u32;

    /// The part of a frame; `None` where a stack has no frame above its thread.
    fn of_frame(&mut self, frame: Option<FrameId>) -> u32;
}

/// A row for each label, whichever thread it ran in, and whether it was inlined or not. The key of a frame is the position
/// of the first frame with its label.
#[derive(Debug)]
pub struct ByLabel(Vec<u32>);

impl ByLabel {
    /// The key of stacks without a frame.
    pub const NO_FRAME: u32 = u32::MAX;

    /// Finds frames with equal labels.
    pub fn new(frames: &[ViewFrame]) -> Self {
        let mut labels: HashMap<&Label, u32> = HashMap::new();
        Self(
            frames
                .iter()
                .zip(0..)
                .map(|(frame, index)| *labels.entry(&frame.label).or_insert(index))
                .collect(),
        )
    }
}

impl RowKeys for ByLabel {
    fn of_thread(&mut self, _: Option<FrameId>, _: FrameId) -> u32 {
        0
    }

    fn of_frame(&mut self, frame: Option<FrameId>) -> u32 {
        frame.and_then(|frame| self.0.get(frame.index()).copied()).unwrap_or(Self::NO_FRAME)
    }
}

/// The weights of a row in one profile.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Weights {
    /// The samples whose innermost frame is of the row.
    pub self_weight: u64,
    /// The samples with a frame of the row anywhere on their stack, each counted once.
    pub total: u64,
}

#[derive(Debug)]
struct Row {
    thread: u32,
    frame: u32,
}

/// Weights by row, in no order.
#[derive(Debug)]
pub struct FunctionTable {
    rows: Vec<Row>,
    columns: usize,
    weights: Vec<Weights>,
}

impl FunctionTable {
    /// Adds up a tree by the keys of its threads and frames.
    pub fn new(tree: &CallTree, keys: &mut impl RowKeys) -> Self {
        let mut table = Self { rows: Vec::new(), columns: tree.columns(), weights: Vec::new() };
        // Keys are asked for once per frame, not per node.
        let mut of_frames: Vec<Option<u32>> = vec![None; tree.frames().len()];
        let mut numbers: HashMap<(u32, u32), u32, FxBuildHasher> = HashMap::default();
        let mut row = |table: &mut Self, thread: u32, frame: u32| -> usize {
            let next = table.rows.len() as u32;
            let number = *numbers.entry((thread, frame)).or_insert(next);
            if number == next {
                table.rows.push(Row { thread, frame });
                table.weights.resize(table.rows.len() * table.columns, Weights::default());
            }
            number as usize
        };
        // How many frames of each row the way to the node has: its samples count once.
        let mut open: Vec<u32> = Vec::new();
        let mut thread = 0;
        let mut rows_of_nodes: Vec<usize> = Vec::new();
        tree.walk(|node, entered| {
            let Some(frame) = tree.frame(node) else { return };
            if tree.is_thread(node) {
                if entered {
                    let below = tree.frame(tree.parent(node));
                    thread = keys.of_thread(below, frame);
                    if tree.self_weights(node).iter().any(|&weight| weight > 0) {
                        let without_frames = keys.of_frame(None);
                        let row = row(&mut table, thread, without_frames);
                        table.add_self(row, tree, node);
                        table.add_total(row, tree.self_weights(node));
                    }
                }
                return;
            }
            if entered {
                let of_frame = &mut of_frames[frame.index()];
                let frame = *of_frame.get_or_insert_with(|| keys.of_frame(Some(frame)));
                let row = row(&mut table, thread, frame);
                open.resize(table.rows.len().max(open.len()), 0);
                table.add_self(row, tree, node);
                if open[row] == 0 {
                    table.add_total(row, tree.totals(node));
                }
                open[row] += 1;
                rows_of_nodes.push(row);
            } else if let Some(row) = rows_of_nodes.pop() {
                open[row] -= 1;
            }
        });
        table
    }

    fn add_self(&mut self, row: usize, tree: &CallTree, node: NodeId) {
        let weights = &mut self.weights[row * self.columns..][..self.columns];
        weights
            .iter_mut()
            .zip(tree.self_weights(node))
            .for_each(|(weights, &weight)| add(&mut weights.self_weight, weight));
    }

    fn add_total(&mut self, row: usize, totals: &[u64]) {
        let weights = &mut self.weights[row * self.columns..][..self.columns];
        weights.iter_mut().zip(totals).for_each(|(weights, &total)| add(&mut weights.total, total));
    }

    /// The rows: the keys of thread and frame, and the weights of each column.
    pub fn rows(&self) -> impl Iterator<Item = (u32, u32, &[Weights])> {
        let weights = self.weights.chunks(self.columns.max(1));
        self.rows.iter().zip(weights).map(|(row, weights)| (row.thread, row.frame, weights))
    }
}
