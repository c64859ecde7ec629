//! Profiles as one tree of calls, with a column of weights for each.

use std::sync::Arc;

use crate::tree::{FrameTree, TreeId};
use crate::{FrameId, FrameTable, View, ViewFrame};

/// The number of a node in its [`CallTree`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NodeId(u32);

impl NodeId {
    /// The root, which has no frame and whose total is all that there is.
    pub const ROOT: Self = Self(0);

    /// The position among all nodes, callers before what they call.
    pub fn index(self) -> usize {
        self.0 as usize
    }

    /// The node at this position.
    pub fn from_index(index: usize) -> Self {
        // Trees of frames number their nodes by 32 bits.
        Self(index as u32)
    }

    fn place(self) -> TreeId {
        TreeId::from_index(self.index())
    }
}

#[derive(Clone, Copy, Debug)]
struct Node {
    parent: NodeId,
    /// Unused in the root.
    frame: FrameId,
    /// 0 for none: the root is nobody's child.
    first_child: u32,
    next_sibling: u32,
}

/// Calls as a tree from a root without a frame, each with its weights in one or several profiles.
#[derive(Clone, Debug)]
pub struct CallTree {
    frames: Arc<[ViewFrame]>,
    nodes: Vec<Node>,
    columns: usize,
    /// Node by node, a weight for each column.
    self_weights: Vec<u64>,
    totals: Vec<u64>,
}

impl CallTree {
    /// Makes one tree of several views, with a column for each. Frames that are equal in two views are one.
    ///
    /// Its first frames are the threads, or processes with threads above them, as the views have them.
    pub fn of(views: &[&View<'_>]) -> Self {
        if let [view] = views {
            let tree = view.tree(0.0);
            let weights = std::iter::once(0).chain(tree.nodes().map(|node| tree.own(node))).collect();
            return Self::from_tree(view.frames().frames(), &tree, 1, weights);
        }
        let mut frames = FrameTable::default();
        let mut joined = CallTreeBuilder::new(views.len());
        for (column, view) in views.iter().enumerate() {
            let shared: Vec<FrameId> =
                view.frames().frames().iter().map(|frame| frames.intern(frame.clone())).collect();
            let tree = view.tree(0.0);
            let mut places = vec![NodeId::ROOT];
            for node in tree.nodes() {
                let Some(frame) = tree.frame(node) else { continue };
                let place = joined.child(places[tree.below(node).index()], shared[frame.index()]);
                add(&mut joined.self_weights[place.index() * views.len() + column], tree.own(node));
                places.push(place);
            }
        }
        joined.finish(frames.frames())
    }

    /// Takes over the nodes of a tree. `self_weights` are those of all nodes, the root's first, each with so many columns.
    fn from_tree(
        frames: impl Into<Arc<[ViewFrame]>>,
        tree: &FrameTree,
        columns: usize,
        self_weights: Vec<u64>,
    ) -> Self {
        let root = Node { parent: NodeId::ROOT, frame: FrameId::default(), first_child: 0, next_sibling: 0 };
        let nodes = tree.nodes().filter_map(|node| {
            let parent = NodeId::from_index(tree.below(node).index());
            Some(Node { parent, frame: tree.frame(node)?, ..root })
        });
        let mut nodes: Vec<Node> = std::iter::once(root).chain(nodes).collect();
        let mut totals = self_weights.clone();
        for index in (1..nodes.len()).rev() {
            let parent = nodes[index].parent.index();
            nodes[index].next_sibling = std::mem::replace(&mut nodes[parent].first_child, index as u32);
            for column in 0..columns {
                let total = totals[index * columns + column];
                add(&mut totals[parent * columns + column], total);
            }
        }
        Self { frames: frames.into(), nodes, columns, self_weights, totals }
    }

    /// The number of columns.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// The frames that occur. A [`FrameId`] is a position in this list.
    pub fn frames(&self) -> &[ViewFrame] {
        &self.frames
    }

    /// The frames, to be shared with a tree that is built of the same ones.
    pub(super) fn shared_frames(&self) -> Arc<[ViewFrame]> {
        Arc::clone(&self.frames)
    }

    /// All nodes, callers before what they call; the root first.
    pub fn nodes(&self) -> impl DoubleEndedIterator<Item = NodeId> + ExactSizeIterator + use<> {
        (0..self.nodes.len()).map(NodeId::from_index)
    }

    /// The frame of a node; `None` for the root.
    pub fn frame(&self, node: NodeId) -> Option<FrameId> {
        (node != NodeId::ROOT).then(|| self.nodes[node.index()].frame)
    }

    /// Returns true if a node is a thread or a process, or the root: not yet a function.
    pub fn is_thread(&self, node: NodeId) -> bool {
        self.frame(node).is_none_or(|frame| self.frames[frame.index()].label.is_thread())
    }

    /// The caller; the root's is the root.
    pub fn parent(&self, node: NodeId) -> NodeId {
        self.nodes[node.index()].parent
    }

    /// Iterates over the callees of a node, in the order in which they were found.
    pub fn children(&self, node: NodeId) -> impl Iterator<Item = NodeId> {
        let mut next = self.nodes[node.index()].first_child;
        std::iter::from_fn(move || {
            let child = next;
            next = self.nodes[child as usize].next_sibling;
            (child != 0).then_some(NodeId(child))
        })
    }

    /// The callee with the largest total in the first column; of equals, the one that was found first.
    pub fn heaviest_child(&self, node: NodeId) -> Option<NodeId> {
        let total = |node: NodeId| self.totals(node).first().copied();
        self.children(node).max_by_key(|&child| (total(child), std::cmp::Reverse(child)))
    }

    /// The weights of the samples whose stack ends at a node, one for each column.
    pub fn self_weights(&self, node: NodeId) -> &[u64] {
        &self.self_weights[node.index() * self.columns..][..self.columns]
    }

    /// The weights of a node with all that it calls, one for each column.
    pub fn totals(&self, node: NodeId) -> &[u64] {
        &self.totals[node.index() * self.columns..][..self.columns]
    }

    /// Calls `visit` for each node but the root with `true` when it is entered, and with `false` when all that it calls
    /// was visited.
    pub(super) fn walk(&self, mut visit: impl FnMut(NodeId, bool)) {
        let mut at = NodeId::ROOT;
        loop {
            let node = self.nodes[at.index()];
            if node.first_child != 0 {
                at = NodeId(node.first_child);
                visit(at, true);
                continue;
            }
            loop {
                if at == NodeId::ROOT {
                    return;
                }
                visit(at, false);
                let Node { parent, next_sibling, .. } = self.nodes[at.index()];
                if next_sibling != 0 {
                    at = NodeId(next_sibling);
                    visit(at, true);
                    break;
                }
                at = parent;
            }
        }
    }

    /// The outermost nodes of a function: below each, it is on no stack.
    pub(super) fn outermost(&self, is_function: impl Fn(FrameId) -> bool) -> Vec<NodeId> {
        let mut outermost = Vec::new();
        let mut depth = 0_usize;
        self.walk(|node, entered| {
            if self.frame(node).is_some_and(&is_function) {
                if entered && depth == 0 {
                    outermost.push(node);
                }
                depth = if entered { depth + 1 } else { depth - 1 };
            }
        });
        outermost
    }

    /// The weights of the samples with a function anywhere on their stack, one for each column.
    pub fn totals_with(&self, is_function: impl Fn(FrameId) -> bool) -> Vec<u64> {
        let mut sums = vec![0; self.columns];
        for node in self.outermost(is_function) {
            sums.iter_mut().zip(self.totals(node)).for_each(|(sum, &total)| add(sum, total));
        }
        sums
    }

    /// The same calls without threads and processes: what several threads do alike is one.
    pub fn merged_threads(&self) -> Self {
        self.regrown(|tree, node, frame| if tree.is_thread(node) { Place::Same } else { Place::Child(frame) })
    }

    /// Returns the tree of callees of a function: the trees above its outermost frames, as one that begins with it.
    pub fn callees(&self, is_function: impl Fn(FrameId) -> bool) -> Self {
        let mut within = vec![false; self.nodes.len()];
        self.regrown(|tree, node, frame| {
            let is_within = within[tree.parent(node).index()] || is_function(frame);
            within[node.index()] = is_within;
            if is_within { Place::Child(frame) } else { Place::Nowhere }
        })
    }

    /// Builds a tree anew from the nodes of this one, callers first.
    pub(super) fn regrown(&self, mut place: impl FnMut(&Self, NodeId, FrameId) -> Place) -> Self {
        let mut grown = CallTreeBuilder::new(self.columns);
        grown.graft(self, 0, |node, frame| place(self, node, frame));
        grown.finish(self.shared_frames())
    }
}

/// The fate of a node in a tree that is built anew.
pub(crate) enum Place {
    /// A child of what its parent became, with this frame.
    Child(FrameId),
    /// A part of what its parent became.
    Same,
    /// Nothing, and neither do its samples.
    Nowhere,
}

/// A call tree while it is built, from callers to what they call.
pub struct CallTreeBuilder {
    tree: FrameTree,
    columns: usize,
    self_weights: Vec<u64>,
}

impl CallTreeBuilder {
    /// Makes the builder of a tree of a root alone, with `columns` columns of weights.
    pub fn new(columns: usize) -> Self {
        Self { tree: FrameTree::default(), columns, self_weights: vec![0; columns] }
    }

    /// The node of `frame` called by `parent`, a new one if there is none.
    pub fn child(&mut self, parent: NodeId, frame: FrameId) -> NodeId {
        let child = NodeId::from_index(self.tree.child(parent.place(), frame).index());
        let end = (child.index() + 1) * self.columns;
        if self.self_weights.len() < end {
            self.self_weights.resize(end, 0);
        }
        child
    }

    /// Adds the weights of samples whose stack ends at `node`, one for each column.
    pub fn add(&mut self, node: NodeId, weights: &[u64]) {
        let sums = &mut self.self_weights[node.index() * self.columns..][..self.columns];
        sums.iter_mut().zip(weights).for_each(|(sum, &weight)| add(sum, weight));
    }

    /// Adds the nodes of a tree, callers first, where `place` says, with their weights in the columns from `column` on. Stacks without a
    /// frame are left out.
    pub(crate) fn graft(
        &mut self,
        tree: &CallTree,
        column: usize,
        mut place: impl FnMut(NodeId, FrameId) -> Place,
    ) {
        let mut places = vec![NodeId::ROOT; tree.nodes.len()];
        let mut weights = vec![0; self.columns];
        for node in tree.nodes().skip(1) {
            let Some(frame) = tree.frame(node) else { continue };
            let parent = places[tree.parent(node).index()];
            places[node.index()] = match place(node, frame) {
                Place::Nowhere => continue,
                Place::Same => parent,
                Place::Child(frame) => self.child(parent, frame),
            };
            weights[column..][..tree.columns].copy_from_slice(tree.self_weights(node));
            self.add(places[node.index()], &weights);
        }
    }

    /// The number of nodes so far, which the next new one will have.
    pub(super) fn next(&self) -> usize {
        self.tree.next().index()
    }

    /// The finished tree. `frames` are those whose positions its nodes were given.
    pub fn finish(self, frames: impl Into<Arc<[ViewFrame]>>) -> CallTree {
        CallTree::from_tree(frames, &self.tree, self.columns, self.self_weights)
    }
}

pub(super) fn add(sum: &mut u64, weight: u64) {
    *sum = sum.saturating_add(weight);
}
