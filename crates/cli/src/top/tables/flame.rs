//! The flame graph in cells of a screen.

use std::ops::Range;

use profile::FrameKind;

use super::Scope;
use super::tree::{Label, PathKey, Tree};
use crate::top::filter::Filter;
use crate::top::snapshot::{Frame, Snapshot};

/// A flame graph: `all`, then threads' names, then frames, outermost first.
#[derive(Clone, Debug)]
pub(crate) struct FlameTree {
    tree: Tree,
}

/// All frames of one height, from left to right.
pub(crate) type FlameRow = Vec<Tile>;

/// A frame as it is drawn.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Tile {
    /// Its columns.
    pub(crate) columns: Range<u16>,
    /// Which frame.
    pub(crate) path: PathKey,
    /// What is written on it: with the suffixes that the SVG has (`_[k]`, `_[i]`, `_[j]`).
    pub(crate) text: String,
    /// Whether it lies below the frame that was zoomed into.
    pub(crate) ancestor: bool,
    /// Whether the filter highlights it.
    pub(crate) found: bool,
    /// Its weight.
    pub(crate) weight: u64,
}

/// What is said about the frame under the cursor.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Details {
    /// Its text.
    pub(crate) text: String,
    /// Its module, where known.
    pub(crate) module: String,
    /// Its weight.
    pub(crate) weight: u64,
    /// The weight of stacks that end there.
    pub(crate) own: u64,
}

/// Where to go from a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    /// To the heaviest frame that it called.
    Up,
    /// To the caller.
    Down,
    /// To the neighbour with the same caller.
    Left,
    /// The other one.
    Right,
}

impl FlameTree {
    /// Draws nothing yet, only counts.
    pub(crate) fn new(snapshot: &Snapshot, scope: &Scope) -> Self {
        let mut tree = Tree::new(Label::All);
        for stack in scope.stacks(snapshot) {
            let comm = tree.comm(&stack.task.comm);
            let frames = stack.frames().map(Label::Frame);
            tree.add(snapshot, std::iter::once(comm).chain(frames), stack.weight);
        }
        // Like the SVG: brothers by name, so that they stay where they are while their weights change.
        for node in 0..tree.nodes.len() {
            let mut children = std::mem::take(&mut tree.nodes[node].children);
            children.sort_by_cached_key(|&child| text_of(&tree, snapshot, tree.nodes[child].label));
            tree.nodes[node].children = children;
        }
        Self { tree }
    }

    /// The weight of everything.
    pub(crate) fn total(&self) -> u64 {
        self.tree.nodes[0].weight
    }

    /// The rows from `all` upwards, with `zoom` as wide as the screen.
    pub(crate) fn rows(
        &self,
        snapshot: &Snapshot,
        filter: &Filter,
        zoom: PathKey,
        width: u16,
    ) -> Vec<FlameRow> {
        let nodes = &self.tree.nodes;
        let zoomed = self.tree.find(zoom).unwrap_or(0);
        let mut ancestors = Vec::new();
        let mut node = zoomed;
        while node != 0 {
            node = nodes[node].parent;
            ancestors.push(node);
        }
        let mut rows: Vec<FlameRow> = ancestors
            .iter()
            .rev()
            .map(|&node| vec![self.tile(snapshot, filter, node, 0..width, true)])
            .collect();

        // Breadth first, row by row, in parts of the zoomed frame's weight.
        let whole = u128::from(nodes[zoomed].weight.max(1));
        let column = |position: u64| (u128::from(position) * u128::from(width) / whole) as u16;
        let mut row = vec![(zoomed, 0_u64)];
        while !row.is_empty() {
            let tiles = row.iter().filter_map(|&(node, start)| {
                let columns = column(start)..column(start.saturating_add(nodes[node].weight));
                (!columns.is_empty()).then(|| self.tile(snapshot, filter, node, columns, false))
            });
            let tiles: Vec<_> = tiles.collect();
            if tiles.is_empty() {
                break;
            }
            rows.push(tiles);
            let mut above = Vec::new();
            for (node, start) in row {
                let mut start = start;
                for &child in &nodes[node].children {
                    let weight = nodes[child].weight;
                    // A frame without a column of its own has nothing above it that could be seen.
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

    /// The weight of all stacks with a highlighted frame, each counted once.
    pub(crate) fn found(&self, snapshot: &Snapshot, filter: &Filter) -> Option<u64> {
        if !filter.chooses_functions() {
            return None;
        }
        let nodes = &self.tree.nodes;
        let mut below = vec![false; nodes.len()];
        let mut sum = 0_u64;
        // Parents come before their children.
        for (index, node) in nodes.iter().enumerate() {
            let inherited = index != 0 && below[node.parent];
            let here = !inherited && self.is_found(snapshot, filter, node.label);
            below[index] = inherited || here;
            if here {
                sum = sum.saturating_add(node.weight);
            }
        }
        Some(sum)
    }

    /// The next frame in a direction; the same one where there is none.
    pub(crate) fn step(&self, from: PathKey, step: Step) -> PathKey {
        let Some(node) = self.tree.find(from) else { return PathKey::default() };
        let nodes = &self.tree.nodes;
        let parent = nodes[node].parent;
        let beside = |by: isize| {
            let brothers = &nodes[parent].children;
            let place = brothers.iter().position(|&brother| brother == node)?;
            brothers.get(place.checked_add_signed(by)?).copied()
        };
        let next = match step {
            Step::Up => self.tree.heaviest_child(node),
            Step::Down => Some(parent),
            Step::Left => beside(-1),
            Step::Right => beside(1),
        };
        nodes[next.unwrap_or(node)].path
    }

    /// What is known of a frame; `None` where it is gone.
    pub(crate) fn details(&self, snapshot: &Snapshot, path: PathKey) -> Option<Details> {
        let node = &self.tree.nodes[self.tree.find(path)?];
        let module = match node.label {
            Label::Frame(frame) => {
                snapshot.functions.get(frame.function as usize).map(|f| f.module.to_string())
            }
            Label::All | Label::Comm(_) => None,
        };
        Some(Details {
            text: text_of(&self.tree, snapshot, node.label),
            module: module.unwrap_or_default(),
            weight: node.weight,
            own: node.own,
        })
    }

    /// The row, counted from `all`, that a frame lies in; 0 where it is gone.
    pub(crate) fn height(&self, path: PathKey) -> usize {
        let mut node = self.tree.find(path).unwrap_or(0);
        let mut height = 0;
        while node != 0 {
            node = self.tree.nodes[node].parent;
            height += 1;
        }
        height
    }

    fn tile(
        &self,
        snapshot: &Snapshot,
        filter: &Filter,
        node: usize,
        columns: Range<u16>,
        ancestor: bool,
    ) -> Tile {
        let node = &self.tree.nodes[node];
        Tile {
            columns,
            path: node.path,
            text: text_of(&self.tree, snapshot, node.label),
            ancestor,
            found: self.is_found(snapshot, filter, node.label),
            weight: node.weight,
        }
    }

    fn is_found(&self, snapshot: &Snapshot, filter: &Filter, label: Label) -> bool {
        let Label::Frame(frame) = label else { return false };
        let function = snapshot.functions.get(frame.function as usize);
        filter.chooses_functions() && function.is_some_and(|function| filter.shows(function))
    }
}

/// The label as the SVG has it.
fn text_of(tree: &Tree, snapshot: &Snapshot, label: Label) -> String {
    let name = tree.name(snapshot, label);
    match label {
        Label::All | Label::Comm(_) => name.to_owned(),
        Label::Frame(Frame { kind, .. }) => format!("{name}{}", suffix(kind)),
    }
}

/// What follows a name, by which readers of folded stacks tell where a frame ran.
fn suffix(kind: FrameKind) -> &'static str {
    match kind {
        FrameKind::User => "",
        FrameKind::Kernel => "_[k]",
        FrameKind::Inlined => "_[i]",
        FrameKind::Jit => "_[j]",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::top::sample_data::Build;

    fn snapshot() -> Snapshot {
        let mut build = Build::default();
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
    fn widths_are_shares_and_brothers_stand_by_name() {
        let snapshot = snapshot();
        let tree = FlameTree::new(&snapshot, &Scope::default());
        let rows = tree.rows(&snapshot, &Filter::default(), PathKey::default(), 100);
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
        let main = tree.step(tree.step(all, Step::Up), Step::Up);
        assert_eq!(tree.details(&snapshot, main).unwrap().weight, 90);
        let b = tree.step(tree.step(main, Step::Up), Step::Right);
        let rows = tree.rows(&snapshot, &Filter::default(), b, 10);
        assert!(rows[..3].iter().all(|row| row[0].ancestor && row[0].columns == (0..10)));
        assert_eq!(rows[3][0].text, "b");
        assert_eq!((tree.height(b), rows.len()), (3, 5));
        assert_eq!(tree.step(b, Step::Right), b, "there is no further one");
    }

    #[test]
    fn found_stacks_count_once() {
        let snapshot = snapshot();
        let tree = FlameTree::new(&snapshot, &Scope::default());
        assert_eq!(tree.found(&snapshot, &Filter::parse("func:b")), Some(30));
        assert_eq!(tree.found(&snapshot, &Filter::parse("i")), Some(100), "main, once for each stack");
        assert_eq!(tree.found(&snapshot, &Filter::default()), None);
    }
}
