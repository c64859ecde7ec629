//! Weighted trees of frames: what flame graphs and callers and callees are.

use std::collections::HashMap;
use std::hash::BuildHasher;
use std::sync::Arc;

use profile::Children;
use rustc_hash::FxBuildHasher;

use crate::snapshot::{Frame, Snapshot};

/// The meaning of a node of the tree.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Label {
    /// All of it.
    All,
    /// Threads of one name, by its position in [`Tree::comms`].
    Comm(u32),
    /// A frame.
    Frame(Frame),
}

/// The way from the root to a node, by names: it stays the same from snapshot to snapshot.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct PathKey(u64);

/// A node of the tree. Of its links, which [`Tree::finish`] makes, 0 is none: the root is nobody's child.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) parent: usize,
    pub(crate) label: Label,
    /// Of all stacks that pass here.
    pub(crate) weight: u64,
    /// Of the stacks that end here.
    pub(crate) own: u64,
    first_child: u32,
    next_sibling: u32,
}

/// A tree; node 0 is its root, and parents come before their children.
#[derive(Clone, Debug)]
pub(crate) struct Tree {
    pub(crate) nodes: Vec<Node>,
    pub(crate) comms: Vec<Arc<str>>,
    /// By node.
    paths: Vec<PathKey>,
    links: Children,
    comm_index: HashMap<Arc<str>, u32, FxBuildHasher>,
    /// Of the functions' names, by function; 0 for those that were not asked for yet.
    hashes: Vec<u64>,
}

impl Tree {
    /// A root without children.
    pub(crate) fn new(root: Label) -> Self {
        let root = Node { parent: 0, label: root, weight: 0, own: 0, first_child: 0, next_sibling: 0 };
        Self {
            nodes: vec![root],
            comms: Vec::new(),
            paths: vec![PathKey::default()],
            links: Children::default(),
            comm_index: HashMap::default(),
            hashes: Vec::new(),
        }
    }

    /// The label of threads of this name.
    pub(crate) fn comm(&mut self, comm: &Arc<str>) -> Label {
        let comms = &mut self.comms;
        let number = *self.comm_index.entry(Arc::clone(comm)).or_insert_with(|| {
            comms.push(Arc::clone(comm));
            (comms.len() - 1) as u32
        });
        Label::Comm(number)
    }

    /// The child of a node with this label, a new one if there is none.
    pub(crate) fn child(&mut self, snapshot: &Snapshot, parent: usize, label: Label) -> usize {
        let nodes = &self.nodes;
        let is = |child: u32| {
            let node = &nodes[child as usize];
            (node.parent, node.label) == (parent, label)
        };
        let key = match label {
            Label::All => u64::MAX,
            Label::Comm(comm) => u64::from(comm) << 3 | 7,
            Label::Frame(frame) => frame.key(),
        };
        let child = self.links.find_or_add(parent as u32, key, is) as usize;
        if child == nodes.len() {
            self.nodes.push(Node { parent, label, weight: 0, own: 0, first_child: 0, next_sibling: 0 });
            let path = (self.paths[parent].0, self.hash_of(snapshot, label));
            self.paths.push(PathKey(FxBuildHasher.hash_one(path)));
        }
        child
    }

    /// Tells each node its children: no child is added after it.
    pub(crate) fn finish(mut self) -> Self {
        for child in (1..self.nodes.len()).rev() {
            let parent = self.nodes[child].parent;
            self.nodes[child].next_sibling =
                std::mem::replace(&mut self.nodes[parent].first_child, child as u32);
        }
        self
    }

    /// Of what a label is called: numbers change from snapshot to snapshot.
    fn hash_of(&mut self, snapshot: &Snapshot, label: Label) -> u64 {
        let Label::Frame(frame) = label else { return FxBuildHasher.hash_one(self.name(snapshot, label)) };
        let index = frame.function as usize;
        if self.hashes.len() <= index {
            self.hashes.resize(snapshot.functions.len().max(index + 1), 0);
        }
        if self.hashes[index] == 0 {
            self.hashes[index] = FxBuildHasher.hash_one(snapshot.functions.get(index)).max(1);
        }
        FxBuildHasher.hash_one((self.hashes[index], frame.kind))
    }

    /// Returns the name of a label.
    pub(crate) fn name<'a>(&'a self, snapshot: &'a Snapshot, label: Label) -> &'a str {
        match label {
            Label::All => "all",
            Label::Comm(comm) => self.comms.get(comm as usize).map_or("", |comm| comm),
            Label::Frame(frame) => snapshot.functions.get(frame.function as usize).map_or("", |f| &f.name),
        }
    }

    /// The children of a node of a finished tree, in the order in which they came.
    pub(crate) fn children(&self, node: usize) -> impl Iterator<Item = usize> {
        let link = |child: u32| (child != 0).then_some(child as usize);
        let next = move |&child: &usize| link(self.nodes[child].next_sibling);
        std::iter::successors(link(self.nodes[node].first_child), next)
    }

    /// The heaviest child; of equals, the one that came first.
    pub(crate) fn heaviest_child(&self, node: usize) -> Option<usize> {
        self.children(node).max_by_key(|&child| (self.nodes[child].weight, std::cmp::Reverse(child)))
    }

    /// The way to a node.
    pub(crate) fn path(&self, node: usize) -> PathKey {
        self.paths[node]
    }

    /// The node of a path, if there is one now.
    pub(crate) fn find(&self, path: PathKey) -> Option<usize> {
        self.paths.iter().position(|&known| known == path)
    }
}
