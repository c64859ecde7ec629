//! Frames as a tree: what a flame graph is.

use crate::FrameId;
use crate::index::Children;

/// A node of a [`FrameTree`]: a frame on top of the frames that lead to it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct TreeId(u32);

impl TreeId {
    /// The node below all others, which has no frame.
    pub(crate) const ALL: Self = Self(0);

    /// The node at a position, which is one of a tree's.
    pub(crate) fn from_index(index: usize) -> Self {
        Self(index as u32)
    }

    /// The position among all nodes.
    pub(crate) fn index(self) -> usize {
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
    /// The weight of the samples whose stack goes on with frames that were left out.
    left_out: u64,
}

/// Stacks of frames with their weights; equal ones are one.
#[derive(Debug)]
pub struct FrameTree {
    nodes: Vec<Node>,
    children: Children,
}

impl Default for FrameTree {
    fn default() -> Self {
        let all = Node { below: TreeId::ALL, frame: FrameId::default(), own: 0, left_out: 0 };
        Self { nodes: vec![all], children: Children::default() }
    }
}

impl FrameTree {
    /// The node of `frame` on top of `below`.
    pub(crate) fn child(&mut self, below: TreeId, frame: FrameId) -> TreeId {
        let nodes = &self.nodes;
        let is = |number: u32| {
            let node = &nodes[number as usize];
            (node.below, node.frame) == (below, frame)
        };
        let number = self.children.find_or_add(below.0, frame.index() as u64, is);
        if number as usize == self.nodes.len() {
            self.nodes.push(Node { below, frame, own: 0, left_out: 0 });
        }
        TreeId(number)
    }

    /// The node that the next new one will be.
    pub(crate) fn next(&self) -> TreeId {
        // Nodes are numbered as their children are.
        TreeId(self.nodes.len() as u32)
    }

    /// The frame of a node; `None` below all.
    pub(crate) fn frame(&self, node: TreeId) -> Option<FrameId> {
        (node != TreeId::ALL).then(|| self.nodes[node.index()].frame)
    }

    /// The node that `node` lies on; the node below all lies on itself.
    pub(crate) fn below(&self, node: TreeId) -> TreeId {
        self.nodes[node.index()].below
    }

    /// The weight of the samples whose stack ends at `node`.
    pub(crate) fn own(&self, node: TreeId) -> u64 {
        self.nodes[node.index()].own
    }

    /// The weight of the samples whose stack goes on from `node` with frames that were left out.
    pub(crate) fn left_out(&self, node: TreeId) -> u64 {
        self.nodes[node.index()].left_out
    }

    /// All nodes but the one below all, each after the one that it lies on.
    pub(crate) fn nodes(&self) -> impl DoubleEndedIterator<Item = TreeId> + use<> {
        (1..self.nodes.len() as u32).map(TreeId)
    }

    /// Adds the weight of samples whose stack ends at `node`.
    pub(crate) fn add(&mut self, node: TreeId, weight: u64) {
        let own = &mut self.nodes[node.index()].own;
        *own = own.saturating_add(weight);
    }

    /// Adds the weight of samples whose stack goes on from `node` with frames that are not to be seen.
    pub(crate) fn leave_out(&mut self, node: TreeId, weight: u64) {
        let left_out = &mut self.nodes[node.index()].left_out;
        *left_out = left_out.saturating_add(weight);
    }

    /// Calls `row` for each stack that has a weight: frames outermost first, the weight of the samples that end there,
    /// and of those that go on with frames that were left out.
    pub fn rows(&self, mut row: impl FnMut(&[FrameId], u64, u64)) {
        let mut frames = Vec::new();
        for node in self.nodes.iter().skip(1).filter(|node| node.own > 0 || node.left_out > 0) {
            frames.clear();
            frames.push(node.frame);
            let mut below = node.below;
            while below != TreeId::ALL {
                let Node { below: next, frame, .. } = self.nodes[below.index()];
                frames.push(frame);
                below = next;
            }
            frames.reverse();
            row(&frames, node.own, node.left_out);
        }
    }
}
