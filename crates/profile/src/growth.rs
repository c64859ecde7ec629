//! The tree of a view's frames. It is built from the branches of stacks, level by level, up to where frames weigh too little to be
//! shown.

use crate::async_rust::Fold;
use crate::branches::{BranchId, Branches};
use crate::tree::{FrameTree, TreeId};
use crate::{FrameId, StackId, View, folded_starts};

impl View<'_> {
    /// The weight of the samples that filters on stacks leave.
    pub fn shown_total(&self) -> u64 {
        if !self.rules.choose_samples() {
            return self.total();
        }
        let tree = self.tree(0.0);
        tree.nodes().map(|node| tree.own(node)).fold(0, u64::saturating_add)
    }

    /// As [`Self::tree`], with a frame for the CPU time of each thread that has no samples.
    pub fn tree_of_all_time(&self, least: f64) -> FrameTree {
        let mut tree = self.tree(least);
        if self.rules.choose_samples() {
            return tree;
        }
        for &(thread, due) in self.profile().unsampled() {
            let (process, root) = self.roots(thread);
            let below = process.map_or(TreeId::ALL, |process| tree.child(TreeId::ALL, process));
            let root = tree.child(below, root);
            let node = tree.child(root, self.not_sampled);
            tree.add(node, due.weight(self.weight()));
        }
        tree
    }

    /// All samples as a tree, whose first frames are the threads, or processes with threads on them. Equal stacks are one. Frames that weigh less than
    /// `least` are left out with all above them; but not the threads, below which there is none that could say so. Where the view folds starts,
    /// they are folded, of what filters leave.
    pub fn tree(&self, least: f64) -> FrameTree {
        let tree = match self.rules.is_empty() {
            true => Growth::of(self, least).tree(),
            false => self.rules.tree(&Growth::of(self, 0.0).tree(), self.frames()),
        };
        match self.start {
            Some(start) => folded_starts::fold(&tree, self.frames(), start),
            None => tree,
        }
    }
}

/// Builds the tree of a view's frames.
///
/// Equal frames with the same parent become one node, whichever stacks they come from. So the weight of a node is known
/// only after every stack that contains the node has arrived there. Each step adds one frame to every stack, so all of
/// them arrive in the same step.
struct Growth<'a> {
    view: &'a View<'a>,
    branches: Branches,
    /// The minimum weight of a node. The weight of a lighter frame is added to its caller.
    least: f64,
    tree: FrameTree,
    /// The frames of the next level, not yet in the tree.
    tips: Vec<Tip>,
    /// The stack of work of [`Self::extend`]; empty between calls. A field so that its allocation is reused.
    cursors: Vec<Cursor>,
}

/// A frame that is about to be added to the tree.
#[derive(Clone, Copy)]
struct Tip {
    node: TreeId,
    frame: FrameId,
    weight: u64,
    end: End,
}

/// What follows a frame in its stacks.
#[derive(Clone, Copy)]
enum End {
    /// More frames may follow, from this position on.
    Branch(Cursor),
    /// No frame follows: the weight is the frame's own.
    Samples,
}

/// A position in a branch: a stack, and the number of frames of its innermost entry that have been passed.
#[derive(Clone, Copy)]
struct Cursor {
    branch: BranchId,
    stack: StackId,
    frames: u32,
}

impl<'a> Growth<'a> {
    fn of(view: &'a View<'a>, least: f64) -> Self {
        let branches = Branches::of(view.profile(), view.weight());
        Self { view, branches, least, tree: FrameTree::default(), tips: Vec::new(), cursors: Vec::new() }
    }

    /// Builds the tree. The frames of threads are kept whatever they weigh: they have no caller that could take their
    /// weight.
    fn tree(mut self) -> FrameTree {
        for index in 0..self.branches.roots().len() {
            let (thread, branch) = self.branches.roots()[index];
            let (process, root) = self.view.roots(thread);
            let parent = process.map_or(TreeId::ALL, |process| self.tree.child(TreeId::ALL, process));
            let node = self.tree.child(parent, root);
            self.extend(node, self.start_of(branch));
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
                    End::Branch(cursor) => self.extend(node, cursor),
                    End::Samples => self.tree.add(node, tip.weight),
                }
            }
        }
        self.tree
    }

    fn start_of(&self, branch: BranchId) -> Cursor {
        Cursor { branch, stack: self.branches.first(branch), frames: 0 }
    }

    /// Pushes a tip for each frame that follows `node`: the next visible frame of the branch, or the first visible ones of
    /// the branches that it calls. Adds the weight of samples that end at `node` to the tree.
    fn extend(&mut self, node: TreeId, cursor: Cursor) {
        self.cursors.push(cursor);
        while let Some(mut cursor) = self.cursors.pop() {
            let total = self.branches.total(cursor.branch);
            if let Some(frame) = self.next_frame(node, &mut cursor) {
                self.tips.push(Tip { node, frame, weight: total, end: End::Branch(cursor) });
                continue;
            }
            let mut own = total;
            for callee in self.branches.callees(cursor.branch) {
                own = own.saturating_sub(self.branches.total(callee));
                self.cursors.push(self.start_of(callee));
            }
            match self.view.passing_last(cursor.stack) {
                Some(frame) if own > 0 => {
                    self.tips.push(Tip { node, frame, weight: own, end: End::Samples });
                }
                _ => self.tree.add(node, own),
            }
        }
    }

    /// Returns the next visible frame of a branch whose caller is `node`, and moves the cursor behind it. Returns `None`
    /// at the end of the branch.
    fn next_frame(&self, node: TreeId, cursor: &mut Cursor) -> Option<FrameId> {
        loop {
            if let Some((place, _)) = self.view.profile().stacks.split(cursor.stack) {
                let frames = self.view.shown(place).iter().skip(cursor.frames as usize);
                for &(frame, fold) in frames {
                    cursor.frames += 1;
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
            cursor.stack = self.branches.next(cursor.branch, cursor.stack)?;
            cursor.frames = 0;
        }
    }
}
