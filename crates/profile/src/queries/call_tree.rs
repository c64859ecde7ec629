//! Profiles as one tree of calls, with a column of weights for each.

use crate::tree::{FrameTree, TreeId};
use crate::{FrameId, FrameTable, Label, View, ViewFrame};

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

    pub(super) fn from_index(index: usize) -> Self {
        // Trees of frames number their nodes by 32 bits.
        Self(index as u32)
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
#[derive(Debug)]
pub struct CallTree {
    frames: Vec<ViewFrame>,
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
            return Self::new(view.frames().frames().to_vec(), &tree, 1, weights);
        }
        let mut frames = FrameTable::default();
        let mut joined = TreeBuilder::new(views.len());
        for (column, view) in views.iter().enumerate() {
            let shared: Vec<FrameId> =
                view.frames().frames().iter().map(|frame| frames.intern(frame.clone())).collect();
            let tree = view.tree(0.0);
            let mut places = vec![TreeId::ALL];
            for node in tree.nodes() {
                let Some(frame) = tree.frame(node) else { continue };
                let place = joined.child(places[tree.below(node).index()], shared[frame.index()]);
                add(&mut joined.self_weights[place.index() * views.len() + column], tree.own(node));
                places.push(place);
            }
        }
        Self::new(frames.frames().to_vec(), &joined.tree, views.len(), joined.self_weights)
    }

    pub(super) fn new(
        frames: Vec<ViewFrame>,
        tree: &FrameTree,
        columns: usize,
        self_weights: Vec<u64>,
    ) -> Self {
        let root = Node { parent: NodeId::ROOT, frame: FrameId::default(), first_child: 0, next_sibling: 0 };
        let node = |id: TreeId| {
            let parent = NodeId::from_index(tree.below(id).index());
            Node { parent, frame: tree.frame(id).unwrap_or_default(), ..root }
        };
        let mut nodes: Vec<Node> = std::iter::once(root).chain(tree.nodes().map(node)).collect();
        let mut totals = self_weights.clone();
        for index in (1..nodes.len()).rev() {
            let parent = nodes[index].parent.index();
            nodes[index].next_sibling = std::mem::replace(&mut nodes[parent].first_child, index as u32);
            for column in 0..columns {
                let total = totals[index * columns + column];
                add(&mut totals[parent * columns + column], total);
            }
        }
        Self { frames, nodes, columns, self_weights, totals }
    }

    /// The number of columns.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// The frames that occur. A [`FrameId`] is a position in this list.
    pub fn frames(&self) -> &[ViewFrame] {
        &self.frames
    }

    /// All nodes, callers before what they call; the root first.
    pub fn nodes(&self) -> impl DoubleEndedIterator<Item = NodeId> + use<> {
        (0..self.nodes.len()).map(NodeId::from_index)
    }

    /// The frame of a node; `None` for the root.
    pub fn frame(&self, node: NodeId) -> Option<FrameId> {
        (node != NodeId::ROOT).then(|| self.nodes[node.index()].frame)
    }

    /// Returns true if a node is a thread or a process, or the root: not yet a function.
    pub fn is_thread(&self, node: NodeId) -> bool {
        self.frame(node).is_none_or(|frame| is_thread(&self.frames[frame.index()]))
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

    /// The same calls without threads and processes: what several threads do alike is one.
    pub fn merged_threads(&self) -> Self {
        self.regrown(|tree, node| if tree.is_thread(node) { Place::Same } else { Place::Child })
    }

    /// Returns the tree of callees of a function: the trees above its outermost frames, as one that begins with it.
    pub fn callees(&self, is_function: impl Fn(FrameId) -> bool) -> Self {
        let mut within = vec![false; self.nodes.len()];
        self.regrown(|tree, node| {
            let is_within = within[tree.parent(node).index()] || tree.frame(node).is_some_and(&is_function);
            within[node.index()] = is_within;
            if is_within { Place::Child } else { Place::Nowhere }
        })
    }

    /// Builds a tree anew from the nodes of this one, callers first.
    fn regrown(&self, mut place: impl FnMut(&Self, NodeId) -> Place) -> Self {
        let mut grown = TreeBuilder::new(self.columns);
        let mut places = vec![TreeId::ALL; self.nodes.len()];
        for node in self.nodes().skip(1) {
            let Some(frame) = self.frame(node) else { continue };
            let parent = places[self.parent(node).index()];
            places[node.index()] = match place(self, node) {
                Place::Nowhere => continue,
                Place::Same => parent,
                Place::Child => grown.child(parent, frame),
            };
            grown.add(places[node.index()], self.self_weights(node));
        }
        Self::new(self.frames.clone(), &grown.tree, self.columns, grown.self_weights)
    }
}

/// The fate of a node in a tree that is built anew.
enum Place {
    /// A child of what its parent became.
    Child,
    /// A part of what its parent became.
    Same,
    /// Nothing, and neither do its samples.
    Nowhere,
}

/// A tree with several columns while it is built.
pub(super) struct TreeBuilder {
    pub(super) tree: FrameTree,
    columns: usize,
    pub(super) self_weights: Vec<u64>,
}

impl TreeBuilder {
    pub(super) fn new(columns: usize) -> Self {
        Self { tree: FrameTree::default(), columns, self_weights: vec![0; columns] }
    }

    pub(super) fn child(&mut self, parent: TreeId, frame: FrameId) -> TreeId {
        let child = self.tree.child(parent, frame);
        let end = (child.index() + 1) * self.columns;
        if self.self_weights.len() < end {
            self.self_weights.resize(end, 0);
        }
        child
    }

    pub(super) fn add(&mut self, node: TreeId, weights: &[u64]) {
        let sums = &mut self.self_weights[node.index() * self.columns..][..self.columns];
        sums.iter_mut().zip(weights).for_each(|(sum, &weight)| add(sum, weight));
    }
}

pub(super) fn add(sum: &mut u64, weight: u64) {
    *sum = sum.saturating_add(weight);
}

fn is_thread(frame: &ViewFrame) -> bool {
    matches!(
        frame.label,
        Label::Comm(_)
            | Label::Thread(..)
            | Label::Process(..)
            | Label::Cpu(_)
            | Label::Container(_)
            | Label::Cgroup(_)
    )
}
