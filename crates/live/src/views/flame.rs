//! The flame graph, laid out in the columns and rows of a screen.

use std::ops::Range;

use export::{frame_name, report, safe_label};
use profile::queries::{CallTree, NodeId};
use profile::{Detail, Label, ViewFrame};

use super::Scope;
use super::paths::{PathKey, Paths};
use crate::snapshot::Snapshot;

/// A flame graph: `all`, then threads' names, then frames, outermost first.
#[derive(Clone, Debug)]
pub struct FlameTree {
    calls: CallTree,
    paths: Paths,
    /// By node: the time off the CPU.
    off_cpu: Vec<u64>,
    /// By frame: true if the filter highlights it. `None` where the filter chooses no functions.
    found: Option<Vec<bool>>,
}

/// All frames of one height, from left to right.
pub(crate) type FlameRow = Vec<Tile>;

/// A frame of the flame graph on the screen.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tile {
    /// The columns of the screen that it covers.
    pub columns: Range<u16>,
    /// The path of the frame.
    pub path: PathKey,
    /// The text on it, with the same suffixes for the kind of code as in the SVG (`_[k]`, `_[i]`, `_[j]`).
    pub text: String,
    /// True if it lies below the frame that was zoomed into.
    pub ancestor: bool,
    /// True if the filter highlights it.
    pub found: bool,
    /// Its weight.
    pub weight: u64,
    /// True if nearly all of its time is off the CPU.
    pub is_off_cpu: bool,
}

/// The text, module and weights of the frame under the cursor.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Details {
    /// Its text.
    pub text: String,
    /// Its module, where known.
    pub module: String,
    /// Its weight.
    pub weight: u64,
    /// The weight of the stacks that end in it.
    pub self_weight: u64,
}

/// A direction in which to go from a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// To its heaviest callee.
    Up,
    /// To its caller.
    Down,
    /// To the neighbour on the left that has the same caller.
    Left,
    /// To the neighbour on the right that has the same caller.
    Right,
}

impl FlameTree {
    /// Builds the tree of a scope.
    pub fn new(snapshot: &Snapshot, scope: &Scope) -> Self {
        let profile = scope.profile(snapshot, Detail::default());
        let calls = CallTree::of(&[&scope.view(snapshot, &profile, scope.show())]);
        let filter = &scope.filter;
        let found = || calls.frames().iter().map(|frame| filter.shows(frame)).collect();
        Self {
            paths: Paths::new(&calls, NodeId::ROOT),
            off_cpu: off_cpu(&calls),
            found: filter.chooses_functions().then(found),
            calls,
        }
    }

    /// The children of a node by name, as in the SVG: so they keep their places while their weights change.
    fn children(&self, node: NodeId) -> Vec<NodeId> {
        let mut children: Vec<NodeId> = self.calls.children(node).collect();
        children.sort_by_cached_key(|&child| self.text(child));
        children
    }

    /// The frame of a node; `None` for `all`.
    fn frame(&self, node: NodeId) -> Option<&ViewFrame> {
        self.calls.frames().get(self.calls.frame(node)?.index())
    }

    fn weight_of(&self, node: NodeId) -> u64 {
        self.calls.totals(node).first().copied().unwrap_or(0)
    }

    /// The text of a node as the SVG has it, with the same suffixes for the kind of code (`_[k]`, `_[i]`, `_[j]`).
    fn text(&self, node: NodeId) -> String {
        let frame = self.frame(node).map(|frame| frame_name(&frame.without_module()));
        frame.map_or_else(|| "all".to_owned(), |name| safe_label(&name).into_owned())
    }

    /// Returns the weight of all stacks.
    pub fn total(&self) -> u64 {
        self.weight_of(NodeId::ROOT)
    }

    /// Returns the rows from `all` upwards, with the frame `zoom` as wide as the screen, which has `width` columns.
    pub fn rows(&self, zoom: PathKey, width: u16) -> Vec<FlameRow> {
        let zoomed = self.paths.find(zoom).unwrap_or(NodeId::ROOT);
        let mut ancestors = Vec::new();
        let mut node = zoomed;
        while node != NodeId::ROOT {
            node = self.calls.parent(node);
            ancestors.push(node);
        }
        let mut rows: Vec<FlameRow> =
            ancestors.iter().rev().map(|&node| vec![self.tile(node, 0..width, true)]).collect();

        // Row by row; a position is a weight from the left edge of the zoomed frame.
        let whole = u128::from(self.weight_of(zoomed).max(1));
        let column = |position: u64| (u128::from(position) * u128::from(width) / whole) as u16;
        let mut row = vec![(zoomed, 0_u64)];
        while !row.is_empty() {
            let tiles = row.iter().filter_map(|&(node, start)| {
                let columns = column(start)..column(start.saturating_add(self.weight_of(node)));
                (!columns.is_empty()).then(|| self.tile(node, columns, false))
            });
            let tiles: Vec<_> = tiles.collect();
            if tiles.is_empty() {
                break;
            }
            rows.push(tiles);
            let mut above = Vec::new();
            for (node, start) in row {
                let mut start = start;
                for child in self.children(node) {
                    let weight = self.weight_of(child);
                    // Above a frame that covers no column, nothing can be seen.
                    if column(start) != column(start.saturating_add(weight)) {
                        above.push((child, start));
                    }
                    start = start.saturating_add(weight);
                }
            }
            row = above;
        }
        rows
    }

    /// Returns the weight of all stacks with a highlighted frame, each counted once; `None` where the filter highlights nothing.
    pub fn found(&self) -> Option<u64> {
        let found = self.found.as_ref()?;
        self.calls.totals_with(|frame| found[frame.index()]).first().copied()
    }

    /// Returns the next frame in a direction, or the same one at the edge.
    pub fn step(&self, from: PathKey, step: Direction) -> PathKey {
        let Some(node) = self.paths.find(from) else { return PathKey::default() };
        let parent = self.calls.parent(node);
        let beside = |by: isize| {
            let siblings = self.children(parent);
            let position = siblings.iter().position(|&sibling| sibling == node)?;
            siblings.get(position.checked_add_signed(by)?).copied()
        };
        let next = match step {
            Direction::Up => self.calls.heaviest_child(node),
            Direction::Down => Some(parent),
            Direction::Left => beside(-1),
            Direction::Right => beside(1),
        };
        self.paths.of(next.unwrap_or(node))
    }

    /// Returns the details of a frame; `None` where it does not exist in this tree.
    pub fn details(&self, path: PathKey) -> Option<Details> {
        let node = self.paths.find(path)?;
        Some(Details {
            text: self.text(node),
            module: self.frame(node).map(report::module).unwrap_or_default(),
            weight: self.weight_of(node),
            self_weight: self.calls.self_weights(node).first().copied().unwrap_or(0),
        })
    }

    /// Returns the row of a frame, counted from `all`; 0 where it does not exist in this tree.
    pub fn height(&self, path: PathKey) -> usize {
        let mut node = self.paths.find(path).unwrap_or(NodeId::ROOT);
        let mut height = 0;
        while node != NodeId::ROOT {
            node = self.calls.parent(node);
            height += 1;
        }
        height
    }

    fn tile(&self, node: NodeId, columns: Range<u16>, ancestor: bool) -> Tile {
        let found = self.found.as_ref().zip(self.calls.frame(node));
        let weight = self.weight_of(node);
        Tile {
            columns,
            path: self.paths.of(node),
            text: self.text(node),
            ancestor,
            found: found.is_some_and(|(found, frame)| found[frame.index()]),
            weight,
            is_off_cpu: export::is_off_cpu(self.off_cpu[node.index()].into(), weight.into()),
        }
    }
}

/// Returns the time off the CPU of each node with all that it calls.
fn off_cpu(calls: &CallTree) -> Vec<u64> {
    let mut off = vec![0_u64; calls.nodes().len()];
    for node in calls.nodes().skip(1).rev() {
        let frame = calls.frame(node).map(|frame| &calls.frames()[frame.index()].label);
        if let Some(Label::State(state)) = frame
            && state.is_off_cpu()
        {
            off[node.index()] = calls.totals(node).first().copied().unwrap_or(0);
        }
        let of_node = off[node.index()];
        let of_caller = &mut off[calls.parent(node).index()];
        *of_caller = of_caller.saturating_add(of_node);
    }
    off
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::Filter;
    use crate::testing::SnapshotBuilder;

    fn snapshot() -> Snapshot {
        let mut build = SnapshotBuilder::default();
        build
            .stack(1, 1, "app", "main;b;_k_sys", 30)
            .stack(1, 1, "app", "main;a", 60)
            .stack(2, 2, "sh", "main", 10);
        build.snapshot()
    }

    fn texts(rows: &[FlameRow]) -> Vec<Vec<(String, Range<u16>)>> {
        let tile = |tile: &Tile| (tile.text.clone(), tile.columns.clone());
        rows.iter().map(|row| row.iter().map(tile).collect()).collect()
    }

    #[test]
    fn widths_are_shares_and_siblings_stand_by_name() {
        let snapshot = snapshot();
        let tree = FlameTree::new(&snapshot, &Scope::default());
        let rows = tree.rows(PathKey::default(), 100);
        let tile = |text: &str, columns| (text.to_owned(), columns);
        assert_eq!(
            texts(&rows),
            [
                vec![tile("all", 0..100)],
                vec![tile("app", 0..90), tile("sh", 90..100)],
                vec![tile("main", 0..90), tile("main", 90..100)],
                vec![tile("a", 0..60), tile("b", 60..90)],
                vec![tile("sys_[k]", 60..90)],
            ]
        );
    }

    #[test]
    fn a_zoomed_frame_is_as_wide_as_the_screen() {
        let snapshot = snapshot();
        let tree = FlameTree::new(&snapshot, &Scope::default());
        let all = PathKey::default();
        let main = tree.step(tree.step(all, Direction::Up), Direction::Up);
        assert_eq!(tree.details(main).unwrap().weight, 90);
        let b = tree.step(tree.step(main, Direction::Up), Direction::Right);
        let rows = tree.rows(b, 10);
        assert!(rows[..3].iter().all(|row| row[0].ancestor && row[0].columns == (0..10)));
        assert_eq!(rows[3][0].text, "b");
        assert_eq!((tree.height(b), rows.len()), (3, 5));
        assert_eq!(tree.step(b, Direction::Right), b, "there is no further one");
    }

    #[test]
    fn found_stacks_count_once() {
        let snapshot = snapshot();
        let found = |filter| {
            let scope = Scope { filter: Filter::parse(filter), ..Scope::default() };
            FlameTree::new(&snapshot, &scope).found()
        };
        assert_eq!(found("func:b"), Some(30));
        assert_eq!(found("i"), Some(100), "main, once for each stack");
        assert_eq!(found(""), None);
    }
}
