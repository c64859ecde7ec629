//! The tree of calls turned around: from functions to who calls them.

use super::call_tree::{CallTree, CallTreeBuilder, NodeId, add};
use crate::FrameId;

/// A way out from a function, grown to some caller.
struct Way {
    /// The node whose weights go along.
    start: NodeId,
    is_total: bool,
    /// The caller in the tree that is turned around.
    at: NodeId,
    /// Its node in the one that is built.
    node: NodeId,
}

impl CallTree {
    /// The tree from the innermost frames: each function with its self weight, and above it its callers. Threads are left
    /// out.
    ///
    /// Callers of a node for whose weights `is_shown` does not hold are not looked for; its self weights are then its
    /// totals.
    pub fn from_leaves(&self, is_shown: impl Fn(&[u64]) -> bool) -> Self {
        let has_self = |node: &NodeId| self.self_weights(*node).iter().any(|&weight| weight > 0);
        let starts = self.nodes().filter(|&node| !self.is_thread(node)).filter(has_self);
        self.turned(starts.map(|start| (start, false)), is_shown)
    }

    /// Returns the tree of callers of a function: its outermost frames with their totals, and above them their
    /// callers. Threads are left out,
    /// and callers as [`Self::from_leaves`] leaves them out.
    pub fn callers(&self, is_function: impl Fn(FrameId) -> bool, is_shown: impl Fn(&[u64]) -> bool) -> Self {
        let starts = self.outermost(is_function).into_iter().map(|start| (start, true));
        self.turned(starts, is_shown)
    }

    fn turned(
        &self,
        starts: impl Iterator<Item = (NodeId, bool)>,
        is_shown: impl Fn(&[u64]) -> bool,
    ) -> Self {
        let columns = self.columns();
        let mut turned = CallTreeBuilder::new(columns);
        let weights = |start: NodeId, is_total: bool| {
            if is_total { self.totals(start) } else { self.self_weights(start) }
        };
        let mut first = turned.next();
        let mut ways: Vec<Way> = Vec::new();
        for (start, is_total) in starts {
            let Some(frame) = self.frame(start) else { continue };
            let node = turned.child(NodeId::ROOT, frame);
            ways.push(Way { start, is_total, at: start, node });
        }
        // All ways grow by one caller at a time: when a level is complete, so are the totals of its nodes.
        while !ways.is_empty() {
            let of_level = first;
            let place = |way: &Way| (way.node.index() - of_level) * columns;
            let mut totals = vec![0; (turned.next() - first) * columns];
            for way in &ways {
                let total = totals[place(way)..].iter_mut();
                let weights = weights(way.start, way.is_total).iter();
                total.zip(weights).for_each(|(total, &weight)| add(total, weight));
            }
            first = turned.next();
            let mut grown = Vec::with_capacity(ways.len());
            for way in ways {
                let caller = self.parent(way.at);
                let is_shown = is_shown(&totals[place(&way)..][..columns]);
                match self.frame(caller).filter(|_| is_shown && !self.is_thread(caller)) {
                    Some(frame) => {
                        let node = turned.child(way.node, frame);
                        grown.push(Way { at: caller, node, ..way });
                    }
                    None => turned.add(way.node, weights(way.start, way.is_total)),
                }
            }
            ways = grown;
        }
        turned.finish(self.shared_frames())
    }
}
