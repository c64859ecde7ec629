//! Paths from the root of a call tree to its nodes, by which nodes are found again in later trees.

use std::hash::BuildHasher;

use profile::queries::{CallTree, NodeId};
use rustc_hash::FxBuildHasher;

/// A hash of the path from the root to a node, by names. It stays the same from snapshot to snapshot.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct PathKey(u64);

/// The paths to the nodes of a tree, by node number.
#[derive(Clone, Debug)]
pub(crate) struct Paths(Vec<PathKey>);

impl Paths {
    /// Computes the paths from `start`, which must be the root or its only child.
    pub(crate) fn new(calls: &CallTree, start: NodeId) -> Self {
        let hashes: Vec<u64> = calls.frames().iter().map(|frame| FxBuildHasher.hash_one(frame)).collect();
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
    pub(crate) fn find(&self, path: PathKey) -> Option<NodeId> {
        self.0.iter().position(|known| *known == path).map(NodeId::from_index)
    }
}
