//! Weighted trees of frames: what flame graphs and callers and callees are.

use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use rustc_hash::{FxBuildHasher, FxHasher};

use crate::top::snapshot::{Frame, Snapshot};

/// What a node stands for.
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
pub(crate) struct PathKey(u64);

#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) parent: usize,
    pub(crate) label: Label,
    /// Of all stacks that pass here.
    pub(crate) weight: u64,
    /// Of the stacks that end here.
    pub(crate) own: u64,
    pub(crate) children: Vec<usize>,
    pub(crate) path: PathKey,
}

/// A tree; node 0 is its root.
#[derive(Clone, Debug)]
pub(crate) struct Tree {
    pub(crate) nodes: Vec<Node>,
    pub(crate) comms: Vec<Arc<str>>,
    index: HashMap<(usize, Label), usize, FxBuildHasher>,
    comm_index: HashMap<Arc<str>, u32, FxBuildHasher>,
}

impl Tree {
    /// A root without children.
    pub(crate) fn new(root: Label) -> Self {
        let root = Node {
            parent: 0,
            label: root,
            weight: 0,
            own: 0,
            children: Vec::new(),
            path: PathKey::default(),
        };
        Self {
            nodes: vec![root],
            comms: Vec::new(),
            index: HashMap::default(),
            comm_index: HashMap::default(),
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

    /// Adds a stack above the root.
    pub(crate) fn add(&mut self, snapshot: &Snapshot, labels: impl Iterator<Item = Label>, weight: u64) {
        let mut node = 0;
        self.nodes[0].weight += weight;
        for label in labels {
            node = match self.index.get(&(node, label)) {
                Some(&child) => child,
                None => self.insert(snapshot, node, label),
            };
            self.nodes[node].weight += weight;
        }
        self.nodes[node].own += weight;
    }

    fn insert(&mut self, snapshot: &Snapshot, parent: usize, label: Label) -> usize {
        let child = self.nodes.len();
        let mut hasher = FxHasher::default();
        (self.nodes[parent].path.0, self.name(snapshot, label), self.module(snapshot, label))
            .hash(&mut hasher);
        if let Label::Frame(frame) = label {
            frame.kind.hash(&mut hasher);
        }
        let path = PathKey(hasher.finish());
        self.nodes.push(Node { parent, label, weight: 0, own: 0, children: Vec::new(), path });
        self.nodes[parent].children.push(child);
        self.index.insert((parent, label), child);
        child
    }

    /// What a label is called.
    pub(crate) fn name<'a>(&'a self, snapshot: &'a Snapshot, label: Label) -> &'a str {
        match label {
            Label::All => "all",
            Label::Comm(comm) => self.comms.get(comm as usize).map_or("", |comm| comm),
            Label::Frame(frame) => snapshot.functions.get(frame.function as usize).map_or("", |f| &f.name),
        }
    }

    fn module<'a>(&self, snapshot: &'a Snapshot, label: Label) -> &'a str {
        match label {
            Label::Frame(frame) => snapshot.functions.get(frame.function as usize).map_or("", |f| &f.module),
            Label::All | Label::Comm(_) => "",
        }
    }

    /// The heaviest child; of equals, the one that came first.
    pub(crate) fn heaviest_child(&self, node: usize) -> Option<usize> {
        let children = self.nodes[node].children.iter().copied();
        children.rev().max_by_key(|&child| self.nodes[child].weight)
    }

    /// The node of a path, if there is one now.
    pub(crate) fn find(&self, path: PathKey) -> Option<usize> {
        self.nodes.iter().position(|node| node.path == path)
    }
}
