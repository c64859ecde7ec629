//! From branches of stacks to a tree of frames: level by level, and only where there is something to see.

use crate::async_rust::Fold;
use crate::branches::{BranchId, Branches};
use crate::tree::{FrameTree, TreeId};
use crate::{FrameId, View};

/// A tree of the frames of a view while it grows.
///
/// Frames that read alike are one node, wherever their stacks come from, so that the weight of a node is known only
/// when all stacks that reach it have reached it. All of them do so on the same level: each step is one frame.
pub(crate) struct Growth<'a> {
    view: &'a View<'a>,
    branches: Branches,
    /// Frames that weigh less count for the frame below.
    least: f64,
    tree: FrameTree,
    /// The tips, which reach the next level.
    tips: Vec<Tip>,
    /// Branches that lead on from a node; kept for its memory.
    ways: Vec<(BranchId, u32)>,
}

/// A branch that is about to grow by a frame.
#[derive(Clone, Copy)]
struct Tip {
    node: TreeId,
    frame: FrameId,
    weight: u64,
    end: End,
}

/// What follows a frame.
#[derive(Clone, Copy)]
enum End {
    /// The frames of the same place after so many, and what the branch calls.
    Branch(BranchId, u32),
    /// Nothing.
    Samples,
}

impl<'a> Growth<'a> {
    pub(crate) fn of(view: &'a View<'a>, least: f64) -> Self {
        let branches = Branches::of(view.profile(), view.weight());
        Self { view, branches, least, tree: FrameTree::default(), tips: Vec::new(), ways: Vec::new() }
    }

    /// The tree. The first frames, which are the threads, stay whatever they weigh: below them is nothing that could
    /// count for them.
    pub(crate) fn tree(mut self) -> FrameTree {
        for index in 0..self.branches.roots().len() {
            let (thread, branch) = self.branches.roots()[index];
            let node = self.tree.child(TreeId::ALL, self.view.root(thread));
            self.go_on(node, branch, 0);
        }
        let mut reached = Vec::new();
        let mut weights = Vec::new();
        while !self.tips.is_empty() {
            let first = self.tree.next();
            weights.clear();
            for tip in self.tips.drain(..) {
                let node = self.tree.child(tip.node, tip.frame);
                let place = node.index() - first.index();
                if place == weights.len() {
                    weights.push(0_u64);
                }
                weights[place] = weights[place].saturating_add(tip.weight);
                reached.push((node, tip));
            }
            for (node, tip) in reached.drain(..) {
                match tip.end {
                    _ if (weights[node.index() - first.index()] as f64) < self.least => {
                        self.tree.leave_out(tip.node, tip.weight);
                    }
                    End::Branch(branch, frames) => self.go_on(node, branch, frames),
                    End::Samples => self.tree.add(node, tip.weight),
                }
            }
        }
        self.tree
    }

    /// Goes on above `node` with the frames of the innermost place of a branch after so many of them, and where none
    /// of these is to be seen, with what the branch calls.
    fn go_on(&mut self, node: TreeId, branch: BranchId, after: u32) {
        self.ways.push((branch, after));
        while let Some((branch, after)) = self.ways.pop() {
            let total = self.branches.total(branch);
            if let Some((frame, number)) = self.next_frame(node, branch, after) {
                self.tips.push(Tip { node, frame, weight: total, end: End::Branch(branch, number) });
                continue;
            }
            let mut own = total;
            for callee in self.branches.callees(branch) {
                own = own.saturating_sub(self.branches.total(callee));
                self.ways.push((callee, 0));
            }
            match self.view.passing_last(self.branches.stack(branch)) {
                Some(frame) if own > 0 => {
                    self.tips.push(Tip { node, frame, weight: own, end: End::Samples });
                }
                _ => self.tree.add(node, own),
            }
        }
    }

    /// The next frame of a branch's innermost place that is to be seen on top of `node`, and its number in that place.
    fn next_frame(&self, node: TreeId, branch: BranchId, after: u32) -> Option<(FrameId, u32)> {
        let (place, _) = self.view.profile().stacks.split(self.branches.stack(branch))?;
        let mut frames = self.view.shown(place).iter().zip(1..).skip(after as usize);
        let next = frames.find(|&(&(frame, fold), _)| match (fold, self.tree.frame(node)) {
            (Fold::Pass, _) => false,
            (Fold::Merge, Some(caller)) => !self.view.frames().same_function(caller, frame),
            _ => true,
        });
        next.map(|(&(frame, _), number)| (frame, number))
    }
}
