//! Frames as a tree: what a flame graph is.

use crate::FrameId;
use crate::index::{Children, hash_of_pair};

/// A node of a [`FrameTree`]: a frame on top of the frames that lead to it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TreeId(u32);

impl TreeId {
    /// The node below all others, which has no frame.
    pub const ALL: Self = Self(0);

    fn index(self) -> usize {
        self.0 as usize
    }
}

#[derive(Clone, Copy, Debug)]
struct Node {
    below: TreeId,
    /// Unused in the node below all.
    frame: FrameId,
    /// The weight of the samples whose stack ends here.
    own: u64,
}

/// Stacks of frames with their weights; equal ones are one.
#[derive(Debug)]
pub struct FrameTree {
    nodes: Vec<Node>,
    children: Children,
}

impl Default for FrameTree {
    fn default() -> Self {
        let all = Node { below: TreeId::ALL, frame: FrameId::default(), own: 0 };
        Self { nodes: vec![all], children: Children::default() }
    }
}

impl FrameTree {
    /// The node of `frame` on top of `below`.
    pub fn child(&mut self, below: TreeId, frame: FrameId) -> TreeId {
        let nodes = &self.nodes;
        let is = |number: u32| {
            let node = &nodes[number as usize];
            (node.below, node.frame) == (below, frame)
        };
        let hash = hash_of_pair(below.0.into(), frame.index() as u64);
        let number = self.children.find_or_add(below.0, hash, is);
        if number as usize == self.nodes.len() {
            self.nodes.push(Node { below, frame, own: 0 });
        }
        TreeId(number)
    }

    /// The frame of a node; `None` below all.
    pub(crate) fn frame(&self, node: TreeId) -> Option<FrameId> {
        (node != TreeId::ALL).then(|| self.nodes[node.index()].frame)
    }

    /// Adds the weight of samples whose stack ends at `node`.
    pub fn add(&mut self, node: TreeId, weight: u64) {
        let own = &mut self.nodes[node.index()].own;
        *own = own.saturating_add(weight);
    }

    /// Lets frames that weigh less than `least`, with all above them, count for the frame below. The first frames
    /// stay: below them is nothing that could count for them.
    pub fn prune(&mut self, least: f64) {
        let mut totals: Vec<u64> = self.nodes.iter().map(|node| node.own).collect();
        for index in (1..self.nodes.len()).rev() {
            let Node { below, own, .. } = self.nodes[index];
            totals[below.index()] = totals[below.index()].saturating_add(totals[index]);
            if below != TreeId::ALL && (totals[index] as f64) < least {
                // All above this node weigh less still, and have handed down what they had.
                self.nodes[index].own = 0;
                self.add(below, own);
            }
        }
    }

    /// Calls `row` for each stack that has a weight of its own: frames outermost first, and that weight.
    pub fn rows(&self, mut row: impl FnMut(&[FrameId], u64)) {
        let mut frames = Vec::new();
        for node in self.nodes.iter().skip(1).filter(|node| node.own > 0) {
            frames.clear();
            frames.push(node.frame);
            let mut below = node.below;
            while below != TreeId::ALL {
                let Node { below: next, frame, .. } = self.nodes[below.index()];
                frames.push(frame);
                below = next;
            }
            frames.reverse();
            row(&frames, node.own);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FrameKind, FrameTable, Label, ViewFrame};
    use proptest::prelude::*;
    use std::collections::BTreeMap;
    use std::sync::Arc;

    fn build(stacks: &[(Vec<u8>, u64)]) -> FrameTree {
        let mut frames = FrameTable::default();
        let mut tree = FrameTree::default();
        for (stack, weight) in stacks {
            let node = stack.iter().fold(TreeId::ALL, |below, name| {
                let label = Label::Function(Arc::from(name.to_string()), None);
                tree.child(below, frames.intern(ViewFrame { label, kind: FrameKind::User }))
            });
            tree.add(node, *weight);
        }
        tree
    }

    fn rows(tree: &FrameTree) -> BTreeMap<Vec<usize>, u64> {
        let mut rows = BTreeMap::new();
        tree.rows(|frames, weight| {
            let frames = frames.iter().map(|frame| frame.index()).collect();
            assert_eq!(rows.insert(frames, weight), None, "equal stacks are one row");
        });
        rows
    }

    #[test]
    fn narrow_branches_count_for_the_frame_below() {
        let mut tree = build(&[(vec![0, 1, 2], 1), (vec![0, 1, 3], 1), (vec![0, 4], 10)]);
        tree.prune(2.0);
        assert_eq!(rows(&tree), BTreeMap::from([(vec![0, 1], 2), (vec![0, 4], 10)]));
    }

    proptest! {
        #[test]
        fn no_weight_is_lost(
            stacks in prop::collection::vec((prop::collection::vec(0_u8..5, 1..6), 1_u64..100), 0..40),
            least in 0.0..50.0,
        ) {
            let mut tree = build(&stacks);
            let total: u64 = stacks.iter().map(|(_, weight)| weight).sum();
            prop_assert_eq!(rows(&tree).values().sum::<u64>(), total);
            tree.prune(least);
            prop_assert_eq!(rows(&tree).values().sum::<u64>(), total);
        }
    }
}
