//! A call tree of functions, in which some may be joined later, by whatever ways they are called.

use std::collections::BTreeMap;

use hashbrown::{HashMap, HashSet};
use rustc_hash::FxBuildHasher;

use super::Part;
use crate::FrameId;

/// A function called by those on the way to it.
#[derive(Default)]
pub(super) struct Node {
    /// The function; of no meaning in the root.
    pub(super) frame: FrameId,
    /// True for what the innermost of the program's own functions calls.
    pub(super) is_called: bool,
    /// The node of its caller.
    pub(super) caller: usize,
    /// Weight of the stacks that end here, by the function that the samples were taken in.
    pub(super) ends: Vec<Part<FrameId>>,
    /// The weight with its callees.
    pub(super) total: u64,
    /// Its callees, heaviest first.
    pub(super) callees: Vec<usize>,
}

/// Nodes by their numbers.
pub(super) type Nodes = HashSet<usize, FxBuildHasher>;

/// The node of the whole.
pub(super) const ROOT: usize = 0;

/// A frame of a stack, and whether it is called by the innermost of the program's own functions.
pub(super) type Frame = (FrameId, bool);

/// Stacks, as a tree from their outermost frames on.
pub(super) struct CallTree {
    nodes: Vec<Node>,
}

impl CallTree {
    /// Returns a node; its callees are nodes, too.
    pub(super) fn node(&self, index: usize) -> &Node {
        &self.nodes[index]
    }

    /// Returns the nodes below a root.
    pub(super) fn nodes(&self) -> impl Iterator<Item = &Node> {
        self.nodes.iter().skip(1)
    }

    /// Returns `node` and all below it, but for the parts below `without`.
    pub(super) fn below(&self, node: usize, without: &Nodes) -> Vec<usize> {
        let mut found = Vec::new();
        let mut open = vec![node];
        while let Some(at) = open.pop() {
            found.push(at);
            open.extend(self.nodes[at].callees.iter().filter(|callee| !without.contains(*callee)));
        }
        found
    }

    /// Joins nodes of one function into a new one, with their callees. The nodes stay as they are. Returns the new one.
    pub(super) fn join(&mut self, nodes: Vec<usize>) -> usize {
        let first = self.nodes.len();
        let mut open = vec![(ROOT, nodes)];
        while let Some((caller, parts)) = open.pop() {
            let joined = self.nodes.len();
            let mut callees: BTreeMap<Frame, Vec<usize>> = BTreeMap::new();
            let mut ends: HashMap<FrameId, u64, FxBuildHasher> = HashMap::default();
            let mut node = Node { caller, ..Node::default() };
            for part in parts {
                let part = &self.nodes[part];
                (node.frame, node.is_called) = (part.frame, part.is_called);
                node.total = node.total.saturating_add(part.total);
                for end in &part.ends {
                    let sum = ends.entry(end.what).or_default();
                    *sum = sum.saturating_add(end.weight);
                }
                for &callee in &part.callees {
                    let Node { frame, is_called, .. } = self.nodes[callee];
                    callees.entry((frame, is_called)).or_default().push(callee);
                }
            }
            node.ends = super::sorted(ends);
            self.nodes.push(node);
            if joined > first {
                self.nodes[caller].callees.push(joined);
            }
            open.extend(callees.into_values().map(|parts| (joined, parts)));
        }
        self.sort(first);
        first
    }

    fn sort(&mut self, first: usize) {
        for index in first..self.nodes.len() {
            let mut callees = std::mem::take(&mut self.nodes[index].callees);
            let nodes = &self.nodes;
            callees.sort_unstable_by_key(|&callee| {
                (std::cmp::Reverse(nodes[callee].total), nodes[callee].frame)
            });
            self.nodes[index].callees = callees;
        }
    }
}

/// A tree that grows stack by stack.
pub(super) struct Growing {
    tree: CallTree,
    known: HashMap<(usize, Frame), usize, FxBuildHasher>,
    ends: HashMap<(usize, FrameId), u64, FxBuildHasher>,
    /// The frames of the last stack, outermost first, with their nodes: the next one shares most of them.
    path: Vec<(Frame, usize)>,
}

impl Growing {
    pub(super) fn new() -> Self {
        let tree = CallTree { nodes: vec![Node::default()] };
        Self { tree, known: HashMap::default(), ends: HashMap::default(), path: Vec::new() }
    }

    /// Adds a stack, outermost frame first, whose samples were taken in `end`.
    pub(super) fn push(&mut self, stack: &[Frame], end: FrameId, weight: u64) {
        let Self { tree: CallTree { nodes }, known, ends, path } = self;
        let shared = path.iter().zip(stack).take_while(|((frame, _), other)| frame == *other).count();
        path.truncate(shared);
        for &(frame, is_called) in &stack[shared..] {
            let at = path.last().map_or(ROOT, |&(_, node)| node);
            let next = *known.entry((at, (frame, is_called))).or_insert(nodes.len());
            if next == nodes.len() {
                nodes.push(Node { frame, is_called, caller: at, ..Node::default() });
                nodes[at].callees.push(next);
            }
            path.push(((frame, is_called), next));
        }
        let end = ends.entry((path.last().map_or(ROOT, |&(_, node)| node), end)).or_default();
        *end = end.saturating_add(weight);
    }

    /// Sums up weights from the callees to their callers, which come before them.
    pub(super) fn finish(self) -> CallTree {
        let Self { mut tree, ends, .. } = self;
        let mut ends: Vec<_> = ends.into_iter().collect();
        ends.sort_unstable();
        for ((node, what), weight) in ends {
            let node = &mut tree.nodes[node];
            node.ends.push(Part { what, weight });
            node.total = node.total.saturating_add(weight);
        }
        for index in (1..tree.nodes.len()).rev() {
            let Node { total, caller, .. } = tree.nodes[index];
            let callers = &mut tree.nodes[caller].total;
            *callers = callers.saturating_add(total);
        }
        tree.sort(ROOT);
        tree
    }
}
