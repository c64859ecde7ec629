//! Who calls a function, and what it calls.

use std::collections::HashMap;

use rustc_hash::FxBuildHasher;

use profile::queries::{CallTree, NodeId};
use profile::{Detail, FrameId, Label, ViewFrame};

use super::Scope;
use super::paths::{PathKey, Paths};
use crate::snapshot::Snapshot;

/// Callers or callees.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Side {
    /// Functions that lead to the function.
    Callers,
    /// Functions that it leads to.
    Callees,
}

/// A row of the view.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CallRow {
    /// The side of the function on which the row lies; `None` for the function itself.
    pub side: Option<Side>,
    /// The path from the function to the row.
    pub path: PathKey,
    /// The number of calls between the function and the row, from 0.
    pub depth: usize,
    /// The function of the row.
    pub frame: ViewFrame,
    /// The weight of those of the function's stacks that lead along this path.
    pub weight: u64,
    /// True if its children are shown; `None` where there are none.
    pub open: Option<bool>,
}

/// Callers and callees of a function.
#[derive(Clone, Debug)]
pub struct CallersAndCallees {
    function: ViewFrame,
    callers: Calls,
    callees: Calls,
}

/// The tree of a function's callers, or of its callees.
#[derive(Clone, Debug)]
struct Calls {
    tree: CallTree,
    /// The function; the root where it is on no stack.
    function: NodeId,
    paths: Paths,
}

impl Calls {
    fn new(tree: CallTree) -> Self {
        let function = tree.children(NodeId::ROOT).next().unwrap_or(NodeId::ROOT);
        let paths = Paths::new(&tree, function);
        Self { tree, function, paths }
    }

    fn weight(&self, node: NodeId) -> u64 {
        self.tree.totals(node).first().copied().unwrap_or(0)
    }
}

/// Rows that were expanded (or closed) by hand.
pub type ExpandedRows = HashMap<(Side, PathKey), bool, FxBuildHasher>;

impl CallersAndCallees {
    /// Builds both trees from the outermost call of the function in each stack, so that no stack counts twice. Returns `None` where the
    /// snapshot does not have the function.
    pub fn new(snapshot: &Snapshot, scope: &Scope, function: &Label) -> Option<Self> {
        let profile = scope.profile(snapshot, Detail::default());
        let tree = CallTree::of(&[&scope.view(snapshot, &profile, scope.show())]).merged_kinds();
        let is_function = |frame: &ViewFrame| frame.label == *function;
        let known = tree.frames().iter().find(|frame| is_function(frame))?.clone();
        let of_tree = |frame: FrameId| is_function(&tree.frames()[frame.index()]);
        Some(Self {
            function: known,
            callers: Calls::new(tree.callers(of_tree, |_| true)),
            callees: Calls::new(tree.callees(of_tree)),
        })
    }

    /// Returns the weight of all stacks with the function.
    pub fn total(&self) -> u64 {
        self.callees.weight(self.callees.function)
    }

    /// Returns the weight of the stacks that end in the function, without those that end in a recursive call of it.
    pub fn self_weight(&self) -> u64 {
        self.callees.tree.self_weights(self.callees.function).first().copied().unwrap_or(0)
    }

    /// Returns the rows from top to bottom: callers (the direct ones last), the function, callees. The hot path is open unless the user
    /// has closed it: the heaviest child, if it has at least half of its parent's weight, and so on.
    pub fn rows(&self, expanded: &ExpandedRows) -> Vec<CallRow> {
        let mut rows = Vec::new();
        walk(&self.callers, Side::Callers, (self.callers.function, 0), true, expanded, &mut rows);
        rows.reverse();
        rows.push(CallRow {
            side: None,
            path: PathKey::default(),
            depth: 0,
            frame: self.function.clone(),
            weight: self.total(),
            open: None,
        });
        walk(&self.callees, Side::Callees, (self.callees.function, 0), true, expanded, &mut rows);
        rows
    }
}

/// Maximum depth of rows: no screen is wide enough to indent more.
const MAX_DEPTH: usize = 1024;

/// Appends the rows of the children of a node, and of theirs where they are open.
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
        let frame = tree.frame(child).and_then(|frame| tree.frames().get(frame.index()));
        let Some(frame) = frame.cloned() else { continue };
        let (path, weight) = (paths.of(child), calls.weight(child));
        let is_hot = hot && heaviest == Some(child) && weight.saturating_mul(2) >= calls.weight(node);
        let has_children = tree.children(child).next().is_some() && depth < MAX_DEPTH;
        let open = has_children.then(|| expanded.get(&(side, path)).copied().unwrap_or(is_hot));
        rows.push(CallRow { side: Some(side), path, depth, frame, weight, open });
        if open == Some(true) {
            walk(calls, side, (child, depth + 1), is_hot, expanded, rows);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::SnapshotBuilder;
    use crate::views::functions;

    fn texts(rows: &[CallRow]) -> Vec<String> {
        let text = |row: &CallRow| {
            let name = export::report::function(&row.frame);
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
        let rows = functions(&snapshot, &Scope::default());
        let work = rows.iter().find(|row| export::report::function(&row.frame) == "work").unwrap();
        let neighbours = CallersAndCallees::new(&snapshot, &Scope::default(), &work.frame.label).unwrap();
        let rows = neighbours.rows(&ExpandedRows::default());
        let expected = ["other 1", " main 9", "run 9", "work 10", "hash 6", " mix 6", "copy 3"];
        assert_eq!(texts(&rows), expected);
        assert_eq!((neighbours.total(), neighbours.self_weight()), (10, 1));

        let hash = rows.iter().find(|row| row.open == Some(true) && row.side == Some(Side::Callees)).unwrap();
        let closed = ExpandedRows::from_iter([((Side::Callees, hash.path), false)]);
        assert_eq!(neighbours.rows(&closed).len(), rows.len() - 1);
    }
}
