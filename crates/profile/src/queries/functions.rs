//! Tables of functions, or of whatever else samples are added up by.

use std::collections::HashMap;

use rustc_hash::FxBuildHasher;

use super::call_tree::{CallTree, NodeId, Place, add};
use crate::async_rust::Fold;
use crate::branches::{BranchId, Branches};
use crate::{FrameId, Label, View, ViewFrame};

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
pub struct ByLabel(pub(crate) Vec<u32>);

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

impl CallTree {
    /// The same calls, in which frames of equal labels are one: inlined calls of a function and other ones.
    pub fn merged_kinds(&self) -> Self {
        let ByLabel(first) = ByLabel::new(self.frames());
        self.regrown(|_, _, frame| Place::Child(FrameId::from_index(first[frame.index()] as usize)))
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
        let mut rows = Rows::new(keys, tree.columns(), tree.frames().len());
        let mut rows_of_nodes: Vec<usize> = Vec::new();
        tree.walk(|node, entered| {
            let Some(frame) = tree.frame(node) else { return };
            if tree.is_thread(node) {
                if entered {
                    let below = tree.frame(tree.parent(node));
                    rows.begin_thread(below, frame);
                    if tree.self_weights(node).iter().any(|&weight| weight > 0) {
                        let row = rows.without_frames();
                        rows.table.add_self(row, tree, node);
                        rows.table.add_total(row, tree.self_weights(node));
                    }
                }
                return;
            }
            if entered {
                let row = rows.enter(frame, |table, row| table.add_total(row, tree.totals(node)));
                rows.table.add_self(row, tree, node);
                rows_of_nodes.push(row);
            } else if let Some(row) = rows_of_nodes.pop() {
                rows.leave(row);
            }
        });
        rows.table
    }

    /// Adds up the samples of one view, as [`Self::new`] does with its [`CallTree`], but without making one: a tree of frames takes
    /// as long to grow as the samples take to be read. `None` where filters on stacks need the tree.
    pub fn of_view(view: &View<'_>, keys: &mut impl RowKeys) -> Option<Self> {
        if view.changes_stacks() {
            return None;
        }
        let branches = Branches::of(view.profile(), view.weight());
        let mut walk = Walk {
            view,
            branches: &branches,
            rows: Rows::new(keys, 1, view.frames().frames().len()),
            path: Vec::new(),
            steps: Vec::new(),
        };
        for &(thread, branch) in branches.roots() {
            let (below, root) = view.roots(thread);
            walk.rows.begin_thread(below, root);
            walk.go(branch);
        }
        Some(walk.rows.table)
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

/// Rows while they are added up along a way through stacks.
struct Rows<'k, K> {
    keys: &'k mut K,
    table: FunctionTable,
    /// Keys are asked for once per frame, not each time.
    of_frames: Vec<Option<OfFrame>>,
    numbers: HashMap<(u32, u32), u32, FxBuildHasher>,
    /// The number of frames of each row on the way: its samples count once.
    open: Vec<u32>,
    thread: u32,
}

/// The key of a frame, and its row in the thread where it was met last.
#[derive(Clone, Copy)]
struct OfFrame {
    key: u32,
    thread: u32,
    row: usize,
}

impl<'k, K: RowKeys> Rows<'k, K> {
    fn new(keys: &'k mut K, columns: usize, frames: usize) -> Self {
        Self {
            keys,
            table: FunctionTable { rows: Vec::new(), columns, weights: Vec::new() },
            of_frames: vec![None; frames],
            numbers: HashMap::default(),
            open: Vec::new(),
            thread: 0,
        }
    }

    fn begin_thread(&mut self, below: Option<FrameId>, thread: FrameId) {
        self.thread = self.keys.of_thread(below, thread);
    }

    fn row(&mut self, frame: u32) -> usize {
        let table = &mut self.table;
        let next = table.rows.len() as u32;
        let number = *self.numbers.entry((self.thread, frame)).or_insert(next);
        if number == next {
            table.rows.push(Row { thread: self.thread, frame });
            table.weights.resize(table.rows.len() * table.columns, Weights::default());
            self.open.push(0);
        }
        number as usize
    }

    /// The row of the thread's stacks without a frame.
    fn without_frames(&mut self) -> usize {
        let frame = self.keys.of_frame(None);
        self.row(frame)
    }

    /// Goes on to a frame; calls `first` where the way had none of its row yet.
    fn enter(&mut self, frame: FrameId, first: impl FnOnce(&mut FunctionTable, usize)) -> usize {
        let thread = self.thread;
        let row = match self.of_frames[frame.index()] {
            Some(known) if known.thread == thread => known.row,
            known => {
                let key = known.map_or_else(|| self.keys.of_frame(Some(frame)), |known| known.key);
                let row = self.row(key);
                self.of_frames[frame.index()] = Some(OfFrame { key, thread, row });
                row
            }
        };
        if self.open[row] == 0 {
            first(&mut self.table, row);
        }
        self.open[row] += 1;
        row
    }

    fn leave(&mut self, row: usize) {
        self.open[row] -= 1;
    }
}

/// A walk through the branches of a view.
struct Walk<'a, K> {
    view: &'a View<'a>,
    branches: &'a Branches,
    rows: Rows<'a, K>,
    /// The frames on the way, outermost first, with their rows.
    path: Vec<(FrameId, usize)>,
    steps: Vec<Step>,
}

enum Step {
    Branch(BranchId),
    /// Goes back until the way is so long.
    Back(usize),
}

impl<K: RowKeys> Walk<'_, K> {
    fn go(&mut self, root: BranchId) {
        self.steps.push(Step::Branch(root));
        while let Some(step) = self.steps.pop() {
            match step {
                Step::Branch(branch) => self.branch(branch),
                Step::Back(length) => {
                    for (_, row) in self.path.drain(length..) {
                        self.rows.leave(row);
                    }
                }
            }
        }
    }

    fn branch(&mut self, branch: BranchId) {
        self.steps.push(Step::Back(self.path.len()));
        let total = self.branches.total(branch);
        let mut stack = Some(self.branches.first(branch));
        let mut last = self.branches.first(branch);
        while let Some(at) = stack {
            if let Some((place, _)) = self.view.profile().stacks.split(at) {
                for &(frame, fold) in self.view.shown(place) {
                    let is_seen = match (fold, self.path.last()) {
                        (Fold::Pass, _) => false,
                        (Fold::Merge, Some(&(caller, _))) => !self.view.frames().same_function(caller, frame),
                        _ => true,
                    };
                    if is_seen {
                        self.enter(frame, total);
                    }
                }
            }
            last = at;
            stack = self.branches.next(branch, at);
        }
        let mut own = total;
        for callee in self.branches.callees(branch) {
            own = own.saturating_sub(self.branches.total(callee));
            self.steps.push(Step::Branch(callee));
        }
        if own == 0 {
            return;
        }
        // A frame that passes its samples on to its callees gets those of stacks in which it calls nothing.
        if let Some(frame) = self.view.passing_last(last) {
            let row = self.enter(frame, own);
            add(&mut self.rows.table.weights[row].self_weight, own);
            // Its callees are called without it.
            self.leave_last();
            return;
        }
        let row = match self.path.last() {
            Some(&(_, row)) => row,
            None => {
                let row = self.rows.without_frames();
                add(&mut self.rows.table.weights[row].total, own);
                row
            }
        };
        add(&mut self.rows.table.weights[row].self_weight, own);
    }

    fn enter(&mut self, frame: FrameId, weight: u64) -> usize {
        let row = self.rows.enter(frame, |table, row| add(&mut table.weights[row].total, weight));
        self.path.push((frame, row));
        row
    }

    fn leave_last(&mut self) {
        if let Some((_, row)) = self.path.pop() {
            self.rows.leave(row);
        }
    }
}
