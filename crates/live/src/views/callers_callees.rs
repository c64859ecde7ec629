//! Who calls a function, and what it calls.

use std::collections::HashMap;

use rustc_hash::FxBuildHasher;

use profile::FrameId;
use profile::queries::{CallTree, NodeId};

use super::Scope;
pub use super::scope_tree::PathKey;
use super::scope_tree::{Label, Paths, ScopeTree};
use crate::snapshot::{Frame, FrameNode, Function, Snapshot};

/// Callers or callees.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Side {
    /// Those that lead to the function.
    Callers,
    /// Those that it leads to.
    Callees,
}

/// A row of the view.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CallRow {
    /// Above or below the function; `None` for the function itself.
    pub side: Option<Side>,
    /// The node, by its way from the function.
    pub path: PathKey,
    /// The distance from the function in calls, from 0.
    pub depth: usize,
    /// The function of the row.
    pub function: u32,
    /// The weight of the function's stacks that take this way.
    pub weight: u64,
    /// True if its children are shown; `None` where there are none.
    pub open: Option<bool>,
}

/// Callers and callees of a function.
#[derive(Clone, Debug)]
pub struct CallersAndCallees {
    function: u32,
    callers: Calls,
    callees: Calls,
}

/// Calls from a function on, outwards or inwards.
#[derive(Clone, Debug)]
struct Calls {
    tree: CallTree<Label>,
    /// The function; the root where it is on no stack.
    function: NodeId,
    paths: Paths,
}

impl Calls {
    fn new(tree: CallTree<Label>, snapshot: &Snapshot) -> Self {
        let function = tree.children(NodeId::ROOT).next().unwrap_or(NodeId::ROOT);
        let paths = Paths::new(&tree, function, snapshot, &[]);
        Self { tree, function, paths }
    }

    fn weight(&self, node: NodeId) -> u64 {
        self.tree.totals(node).first().copied().unwrap_or(0)
    }
}

/// Rows that were expanded (or closed) by hand.
pub type ExpandedRows = HashMap<(Side, PathKey), bool, FxBuildHasher>;

impl CallersAndCallees {
    /// Looks at the outermost call of the function in each stack, so that no stack counts twice.
    /// `None` where there is no such function now.
    pub fn of(snapshot: &Snapshot, scope: &Scope, function: &Function) -> Option<Self> {
        let number = snapshot.functions.iter().position(|known| known == function)? as u32;
        // It is one, whether it was inlined or not.
        let one = Frame { function: number, ..FrameNode::ROOT.frame };
        let same = |frame: Frame| if frame.function == number { one } else { frame };
        let ScopeTree { calls, .. } = ScopeTree::merged(snapshot, scope, same);
        let is_function =
            |frame: FrameId| calls.frames().get(frame.index()).is_some_and(|label| label.is_of(number));
        Some(Self {
            function: number,
            callers: Calls::new(calls.callers(is_function, |_| true), snapshot),
            callees: Calls::new(calls.callees(is_function), snapshot),
        })
    }

    /// The weight of all stacks with the function.
    pub fn total(&self) -> u64 {
        self.callees.weight(self.callees.function)
    }

    /// The weight of the stacks that end in it (as its outermost call).
    pub fn self_weight(&self) -> u64 {
        self.callees.tree.self_weights(self.callees.function).first().copied().unwrap_or(0)
    }

    /// The rows, top to bottom: callers (nearest last), the function, callees. The hot path, every heaviest child with
    /// at least half of its parent's weight, is open unless closed by hand.
    pub fn rows(&self, expanded: &ExpandedRows) -> Vec<CallRow> {
        let mut rows = Vec::new();
        walk(&self.callers, Side::Callers, (self.callers.function, 0), true, expanded, &mut rows);
        rows.reverse();
        rows.push(CallRow {
            side: None,
            path: PathKey::default(),
            depth: 0,
            function: self.function,
            weight: self.total(),
            open: None,
        });
        walk(&self.callees, Side::Callees, (self.callees.function, 0), true, expanded, &mut rows);
        rows
    }
}

/// Deeper than any stack that the kernel hands out, and than one can indent.
const DEEPEST: usize = 1024;

/// Appends the rows of what lies beyond a node at a depth.
fn walk(
    calls: &Calls,
    side: Side,
    (node, depth): (NodeId, usize),
    hot: bool,
    expanded: &ExpandedRows,
    rows: &mut Vec<CallRow>,
) {
    let Calls { tree, paths, .. } = calls;
    let heaviest = tree.heaviest_child(node);
    let mut children: Vec<NodeId> = tree.children(node).collect();
    children.sort_by_key(|&child| (std::cmp::Reverse(calls.weight(child)), child));
    for child in children {
        let label = tree.frame(child).and_then(|frame| tree.frames().get(frame.index()));
        let Some(frame) = label.and_then(|label| label.frame()) else { continue };
        let (path, weight) = (paths.of(child), calls.weight(child));
        let is_hot = hot && heaviest == Some(child) && weight.saturating_mul(2) >= calls.weight(node);
        let has_children = tree.children(child).next().is_some() && depth < DEEPEST;
        let open = has_children.then(|| expanded.get(&(side, path)).copied().unwrap_or(is_hot));
        rows.push(CallRow { side: Some(side), path, depth, function: frame.function, weight, open });
        if open == Some(true) {
            walk(calls, side, (child, depth + 1), is_hot, expanded, rows);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::SnapshotBuilder;

    fn texts(snapshot: &Snapshot, rows: &[CallRow]) -> Vec<String> {
        let text = |row: &CallRow| {
            let name = &snapshot.functions[row.function as usize].name;
            format!("{}{name} {}", " ".repeat(row.depth), row.weight)
        };
        rows.iter().map(text).collect()
    }

    #[test]
    fn the_hot_path_is_open() {
        let mut build = SnapshotBuilder::default();
        build
            .stack(1, 1, "a", "main;run;work;hash;mix", 6)
            .stack(1, 1, "a", "main;run;work;copy", 3)
            .stack(1, 1, "a", "main;other;work", 1)
            .stack(1, 1, "a", "main;idle", 9);
        let snapshot = build.snapshot();
        let work = snapshot.functions.iter().find(|f| &*f.name == "work").unwrap().clone();
        let neighbours = CallersAndCallees::of(&snapshot, &Scope::default(), &work).unwrap();
        let rows = neighbours.rows(&ExpandedRows::default());
        let expected = ["other 1", " main 9", "run 9", "work 10", "hash 6", " mix 6", "copy 3"];
        assert_eq!(texts(&snapshot, &rows), expected);
        assert_eq!((neighbours.total(), neighbours.self_weight()), (10, 1));

        let hash = rows.iter().find(|row| row.open == Some(true) && row.side == Some(Side::Callees)).unwrap();
        let closed = ExpandedRows::from_iter([((Side::Callees, hash.path), false)]);
        assert_eq!(neighbours.rows(&closed).len(), rows.len() - 1);
    }
}
