//! The stacks of a scope as a call tree, from which the views of functions, callers and the flame graph are made.

use std::hash::BuildHasher;
use std::sync::Arc;

use profile::FrameId;
use profile::queries::{CallFrame, CallTree, CallTreeBuilder, NodeId};
use rustc_hash::FxBuildHasher;

use super::Scope;
use crate::snapshot::{Frame, FrameNode, Snapshot};

/// The meaning of a node of a call tree.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Label {
    /// All threads of one name, given by its position in a list of names.
    Comm(u32),
    /// A frame.
    Frame(Frame),
}

impl CallFrame for Label {
    fn is_thread(&self) -> bool {
        matches!(self, Self::Comm(_))
    }
}

impl Label {
    /// The frame, if it is one.
    pub(crate) fn frame(self) -> Option<Frame> {
        match self {
            Self::Comm(_) => None,
            Self::Frame(frame) => Some(frame),
        }
    }

    /// Returns true if this is a frame of the function, given by its number.
    pub(crate) fn is_of(self, function: u32) -> bool {
        self.frame().is_some_and(|frame| frame.function == function)
    }
}

/// The call tree of a scope, without regard to threads.
pub(crate) struct ScopeTree {
    /// The tree, with one column of weights.
    pub(crate) calls: CallTree<Label>,
    /// The node that a frame_node ends in, by the frame_node's number.
    pub(crate) nodes: Vec<NodeId>,
}

impl ScopeTree {
    /// Grows the tree of a scope's stacks.
    pub(crate) fn new(snapshot: &Snapshot, scope: &Scope) -> Self {
        if !scope.shows_all() {
            return Self::merged(snapshot, scope, |frame| frame);
        }
        let weights = BranchWeights::new(snapshot, scope);
        let mut frames = FrameNumbers::default();
        // The first self weight is the root's.
        let (mut calls, mut self_weights) = (Vec::new(), vec![0]);
        let mut nodes = vec![NodeId::ROOT; snapshot.frame_nodes.len()];
        for (number, frame_node, weight) in weights.iter() {
            calls.push((nodes[frame_node.caller as usize], frames.number(frame_node.frame)));
            self_weights.push(weight);
            nodes[number] = NodeId::from_index(calls.len());
        }
        Self { calls: CallTree::from_nodes(frames.labels, 1, calls.into_iter(), self_weights), nodes }
    }

    /// Builds the tree after `same` has been applied to each frame; frames that are equal then become one.
    pub(crate) fn merged(snapshot: &Snapshot, scope: &Scope, same: impl Fn(Frame) -> Frame) -> Self {
        let weights = BranchWeights::new(snapshot, scope);
        let mut frames = FrameNumbers::default();
        let mut builder = CallTreeBuilder::new(1);
        let mut nodes = vec![NodeId::ROOT; snapshot.frame_nodes.len()];
        for (number, &FrameNode { caller, frame }, weight) in weights.iter() {
            let caller = nodes[caller as usize];
            let frame = scope.shows(frame).then(|| frames.number(same(frame)));
            nodes[number] = frame.map_or(caller, |frame| builder.child(caller, frame));
            builder.add(nodes[number], &[weight]);
        }
        Self { calls: builder.finish(frames.labels), nodes }
    }
}

/// The frame nodes that stacks of a scope end in or pass through, with weights.
struct BranchWeights<'a> {
    snapshot: &'a Snapshot,
    /// By frame_node: of the stacks that end there.
    weights: Vec<u64>,
    /// By frame_node: true if any stack leads there.
    is_reached: Vec<bool>,
}

impl<'a> BranchWeights<'a> {
    fn new(snapshot: &'a Snapshot, scope: &Scope) -> Self {
        let count = snapshot.frame_nodes.len();
        let (mut weights, mut is_reached) = (vec![0; count], vec![false; count]);
        for stack in scope.stacks(snapshot) {
            let frame_node = stack.frame_node as usize;
            if let (Some(weight), Some(is_reached)) =
                (weights.get_mut(frame_node), is_reached.get_mut(frame_node))
            {
                *weight += stack.weight;
                *is_reached = true;
            }
        }
        // Callers come first.
        for number in (1..count).rev() {
            if is_reached[number] {
                is_reached[snapshot.frame_nodes[number].caller as usize] = true;
            }
        }
        Self { snapshot, weights, is_reached }
    }

    /// Iterates over the frame nodes on stacks of the scope, callers first: the number, the node, and the weight of the stacks that
    /// end in it.
    fn iter(&self) -> impl Iterator<Item = (usize, &'a FrameNode, u64)> {
        let all =
            self.snapshot.frame_nodes.iter().zip(&self.weights).zip(&self.is_reached).enumerate().skip(1);
        all.filter(|(_, (_, is_reached))| **is_reached)
            .map(|(number, ((frame_node, &weight), _))| (number, frame_node, weight))
    }
}

/// Gives frames numbers in the order in which they first occur.
#[derive(Default)]
struct FrameNumbers {
    /// By [`Frame::key`].
    numbers: Vec<Option<FrameId>>,
    labels: Vec<Label>,
}

impl FrameNumbers {
    fn number(&mut self, frame: Frame) -> FrameId {
        let key = frame.key() as usize;
        if self.numbers.len() <= key {
            self.numbers.resize(key + 1, None);
        }
        *self.numbers[key].get_or_insert_with(|| {
            self.labels.push(Label::Frame(frame));
            FrameId::from_index(self.labels.len() - 1)
        })
    }
}

/// A hash of the path from the root to a node, by names. It stays the same from snapshot to snapshot.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct PathKey(u64);

/// The paths to the nodes of a tree, by node number.
#[derive(Clone, Debug)]
pub(crate) struct Paths(Vec<PathKey>);

impl Paths {
    /// Computes the paths from `start`, which must be the root or its only child. `comms` are the names of threads.
    pub(crate) fn new(
        calls: &CallTree<Label>,
        start: NodeId,
        snapshot: &Snapshot,
        comms: &[Arc<str>],
    ) -> Self {
        // Names are hashed, since the numbers of functions may differ in the next snapshot.
        let hash = |label: &Label| match *label {
            Label::Comm(comm) => FxBuildHasher.hash_one(comms.get(comm as usize)),
            Label::Frame(frame) => {
                FxBuildHasher.hash_one((snapshot.functions.get(frame.function as usize), frame.kind))
            }
        };
        let hashes: Vec<u64> = calls.frames().iter().map(hash).collect();
        let mut paths: Vec<PathKey> = Vec::new();
        for node in calls.nodes() {
            paths.push(match calls.frame(node) {
                Some(frame) if node > start => {
                    let caller = paths[calls.parent(node).index()];
                    PathKey(FxBuildHasher.hash_one((caller.0, hashes[frame.index()])))
                }
                _ => PathKey::default(),
            });
        }
        Self(paths)
    }

    /// Returns the path to a node.
    pub(crate) fn of(&self, node: NodeId) -> PathKey {
        self.0[node.index()]
    }

    /// Returns the node at a path, if the tree has it.
    pub(crate) fn find(&self, calls: &CallTree<Label>, path: PathKey) -> Option<NodeId> {
        calls.nodes().find(|node| self.of(*node) == path)
    }
}
