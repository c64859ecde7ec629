//! Who calls a function, and what it calls.

use std::collections::HashMap;

use rustc_hash::FxBuildHasher;

use super::Scope;
pub use super::tree::PathKey;
use super::tree::{Label, Tree};
use super::weights::{Weighed, Weights};
use crate::snapshot::{Branch, Frame, Function, Snapshot};

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
pub struct NeighbourRow {
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
pub struct Neighbours {
    function: u32,
    callers: Tree,
    callees: Tree,
}

/// Rows that were opened (or closed) by hand.
pub type Opened = HashMap<(Side, PathKey), bool, FxBuildHasher>;

impl Neighbours {
    /// Looks at the outermost call of the function in each stack, so that no stack counts twice.
    /// `None` where there is no such function now.
    pub fn of(snapshot: &Snapshot, scope: &Scope, function: &Function) -> Option<Self> {
        let number = snapshot.functions.iter().position(|known| known == function)? as u32;
        let (mut callers, mut callees) = (Tree::new(Label::All), Tree::new(Label::All));
        // The node of the callees that a branch leads to, where it is the function or has called it.
        let mut nodes: Vec<Option<usize>> = vec![None; snapshot.branches.len()];
        for Weighed {
            number: branch,
            branch: &Branch { caller, frame, is_outermost },
            is_shown,
            own,
            total,
        } in Weights::new(snapshot, scope).iter()
        {
            let outer = nodes.get(caller as usize).copied().flatten();
            let is_function = frame.function == number && is_outermost;
            let node = match outer {
                _ if !is_shown => outer,
                Some(outer) => Some(callees.child(snapshot, outer, Label::Frame(frame))),
                None if is_function => {
                    let outside = snapshot.frames_of(caller).filter(|frame| scope.shows(*frame));
                    add(&mut callers, snapshot, outside, total);
                    Some(0)
                }
                None => None,
            };
            if let Some(node) = node.filter(|_| is_shown) {
                callees.nodes[node].own += own;
                callees.nodes[node].weight += total;
            }
            nodes[branch] = node;
        }
        Some(Self { function: number, callers: callers.finish(), callees: callees.finish() })
    }

    /// The weight of all stacks with the function.
    pub fn total(&self) -> u64 {
        self.callees.nodes[0].weight
    }

    /// The weight of the stacks that end in it (as its outermost call).
    pub fn own(&self) -> u64 {
        self.callees.nodes[0].own
    }

    /// The rows, top to bottom: callers (nearest last), the function, callees. The hot path, every heaviest child with
    /// at least half of its parent's weight, is open unless closed by hand.
    pub fn rows(&self, opened: &Opened) -> Vec<NeighbourRow> {
        let mut rows = Vec::new();
        walk(&self.callers, Side::Callers, 0, 0, true, opened, &mut rows);
        rows.reverse();
        rows.push(NeighbourRow {
            side: None,
            path: PathKey::default(),
            depth: 0,
            function: self.function,
            weight: self.total(),
            open: None,
        });
        walk(&self.callees, Side::Callees, 0, 0, true, opened, &mut rows);
        rows
    }
}

/// Adds the frames that lead to a function, from the nearest on.
fn add(callers: &mut Tree, snapshot: &Snapshot, outside: impl Iterator<Item = Frame>, weight: u64) {
    let mut node = 0;
    callers.nodes[0].weight += weight;
    for frame in outside {
        node = callers.child(snapshot, node, Label::Frame(frame));
        callers.nodes[node].weight += weight;
    }
}

/// Deeper than any stack that the kernel hands out, and than one can indent.
const DEEPEST: usize = 1024;

fn walk(
    tree: &Tree,
    side: Side,
    node: usize,
    depth: usize,
    hot: bool,
    opened: &Opened,
    rows: &mut Vec<NeighbourRow>,
) {
    let parent = &tree.nodes[node];
    let heaviest = tree.heaviest_child(node);
    let mut children: Vec<usize> = tree.children(node).collect();
    children.sort_unstable();
    children.sort_by_key(|&child| std::cmp::Reverse(tree.nodes[child].weight));
    for child in children {
        let Label::Frame(frame) = tree.nodes[child].label else { continue };
        let (path, weight) = (tree.path(child), tree.nodes[child].weight);
        let is_hot = hot && heaviest == Some(child) && weight.saturating_mul(2) >= parent.weight;
        let has_children = tree.children(child).next().is_some() && depth < DEEPEST;
        let open = has_children.then(|| opened.get(&(side, path)).copied().unwrap_or(is_hot));
        rows.push(NeighbourRow { side: Some(side), path, depth, function: frame.function, weight, open });
        if open == Some(true) {
            walk(tree, side, child, depth + 1, is_hot, opened, rows);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Build;

    fn texts(snapshot: &Snapshot, rows: &[NeighbourRow]) -> Vec<String> {
        let text = |row: &NeighbourRow| {
            let name = &snapshot.functions[row.function as usize].name;
            format!("{}{name} {}", " ".repeat(row.depth), row.weight)
        };
        rows.iter().map(text).collect()
    }

    #[test]
    fn the_hot_path_is_open() {
        let mut build = Build::default();
        build
            .stack(1, 1, "a", "main;run;work;hash;mix", 6)
            .stack(1, 1, "a", "main;run;work;copy", 3)
            .stack(1, 1, "a", "main;other;work", 1)
            .stack(1, 1, "a", "main;idle", 9);
        let snapshot = build.snapshot();
        let work = snapshot.functions.iter().find(|f| &*f.name == "work").unwrap().clone();
        let neighbours = Neighbours::of(&snapshot, &Scope::default(), &work).unwrap();
        let rows = neighbours.rows(&Opened::default());
        let expected = ["other 1", " main 9", "run 9", "work 10", "hash 6", " mix 6", "copy 3"];
        assert_eq!(texts(&snapshot, &rows), expected);
        assert_eq!((neighbours.total(), neighbours.own()), (10, 1));

        let hash = rows.iter().find(|row| row.open == Some(true) && row.side == Some(Side::Callees)).unwrap();
        let closed = Opened::from_iter([((Side::Callees, hash.path), false)]);
        assert_eq!(neighbours.rows(&closed).len(), rows.len() - 1);
    }
}
