//! From branches of stacks to a tree of frames: level by level, and only where there is something to see.

use crate::async_rust::Fold;
use crate::branches::{BranchId, Branches};
use crate::tree::{FrameTree, TreeId};
use crate::{FrameId, StackId, View};

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
    ways: Vec<Way>,
}

/// A branch that is about to grow by a frame.
#[derive(Clone, Copy)]
struct Tip {
    node: TreeId,
    frame: FrameId,
    weight: u64,
    end: End,
}

/// The continuation of a branch behind a frame.
#[derive(Clone, Copy)]
enum End {
    /// The branch goes on with this way.
    Branch(Way),
    /// Nothing.
    Samples,
}

/// The progress of a branch: the stack that it has reached, and how many frames of its innermost place are there.
#[derive(Clone, Copy)]
struct Way {
    branch: BranchId,
    stack: StackId,
    frames: u32,
}

impl<'a> Growth<'a> {
    pub(crate) fn of(view: &'a View<'a>, least: f64) -> Self {
        let branches = Branches::of(view.profile(), view.weight());
        Self { view, branches, least, tree: FrameTree::default(), tips: Vec::new(), ways: Vec::new() }
    }

    /// Returns the finished frame tree. The first frames, which are the threads, stay whatever they weigh: below them
    /// is nothing that could count for them.
    pub(crate) fn tree(mut self) -> FrameTree {
        for index in 0..self.branches.roots().len() {
            let (thread, branch) = self.branches.roots()[index];
            let (process, root) = self.view.roots(thread);
            let below = process.map_or(TreeId::ALL, |process| self.tree.child(TreeId::ALL, process));
            let node = self.tree.child(below, root);
            self.go_on(node, self.beginning_of(branch));
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
                    End::Branch(way) => self.go_on(node, way),
                    End::Samples => self.tree.add(node, tip.weight),
                }
            }
        }
        self.tree
    }

    fn beginning_of(&self, branch: BranchId) -> Way {
        Way { branch, stack: self.branches.first(branch), frames: 0 }
    }

    /// Goes on above `node` with the next frame that is to be seen: one of the same place, of the next stack of the
    /// branch, or of what the branch calls.
    fn go_on(&mut self, node: TreeId, way: Way) {
        self.ways.push(way);
        while let Some(mut way) = self.ways.pop() {
            let total = self.branches.total(way.branch);
            if let Some(frame) = self.next_frame(node, &mut way) {
                self.tips.push(Tip { node, frame, weight: total, end: End::Branch(way) });
                continue;
            }
            let mut own = total;
            for callee in self.branches.callees(way.branch) {
                own = own.saturating_sub(self.branches.total(callee));
                self.ways.push(self.beginning_of(callee));
            }
            match self.view.passing_last(way.stack) {
                Some(frame) if own > 0 => {
                    self.tips.push(Tip { node, frame, weight: own, end: End::Samples });
                }
                _ => self.tree.add(node, own),
            }
        }
    }

    /// Goes to the next frame of a branch that is to be seen on top of `node`; to the end of the branch where there is
    /// none.
    fn next_frame(&self, node: TreeId, way: &mut Way) -> Option<FrameId> {
        loop {
            if let Some((place, _)) = self.view.profile().stacks.split(way.stack) {
                let frames = self.view.shown(place).iter().skip(way.frames as usize);
                for &(frame, fold) in frames {
                    way.frames += 1;
                    let is_seen = match (fold, self.tree.frame(node)) {
                        (Fold::Pass, _) => false,
                        (Fold::Merge, Some(caller)) => !self.view.frames().same_function(caller, frame),
                        _ => true,
                    };
                    if is_seen {
                        return Some(frame);
                    }
                }
            }
            way.stack = self.branches.next(way.branch, way.stack)?;
            way.frames = 0;
        }
    }
}
