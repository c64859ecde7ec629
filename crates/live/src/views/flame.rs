//! The flame graph in cells of a screen.

use std::ops::Range;

use profile::FrameKind;

use super::tree::{Label, PathKey, Tree};
use super::{Scope, Weights};
use crate::snapshot::{Frame, Snapshot};

/// A flame graph: `all`, then threads' names, then frames, outermost first.
#[derive(Clone, Debug)]
pub struct FlameTree {
    tree: Tree,
    /// True if the filter highlights a function, by its number; `None` where it highlights none.
    found: Option<Vec<bool>>,
    /// The weight of all stacks with a highlighted frame.
    found_weight: u64,
}

/// A frame that is not one in so many parts of the picture is too narrow for any screen, and for any zoom that can be
/// clicked from there.
const FINEST: u64 = 1 << 14;

/// All frames of one height, from left to right.
pub(crate) type FlameRow = Vec<Tile>;

/// A frame as it is drawn.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tile {
    /// Its columns.
    pub columns: Range<u16>,
    /// The path of the frame.
    pub path: PathKey,
    /// The text on it: with the suffixes that the SVG has (`_[k]`, `_[i]`, `_[j]`).
    pub text: String,
    /// True if it lies below the frame that was zoomed into.
    pub ancestor: bool,
    /// True if the filter highlights it.
    pub found: bool,
    /// Its weight.
    pub weight: u64,
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
    /// The weight of stacks that end there.
    pub own: u64,
}

/// A direction in which to go from a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
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
    /// Draws nothing yet, only counts. Frames that can be seen where one of the weight `whole` is as wide as the screen are
    /// told apart.
    pub fn new(snapshot: &Snapshot, scope: &Scope, whole: u64) -> Self {
        let weights = Weights::new(snapshot, scope);
        let shows = || snapshot.functions.iter().map(|function| scope.filter.shows(function)).collect();
        let found: Option<Vec<bool>> = scope.filter.chooses_functions().then(shows);
        let found_weight = found.as_ref().map_or(0, |found| weights.of_stacks_with(found));
        let wide = weights.at_least(whole / FINEST);
        let mut tree = Tree::new(Label::All);
        // What stacks of threads of one name have in common is looked up once: the node of each branch, and of which name
        // it is.
        let mut known = vec![(0, 0); snapshot.branches.len()];
        let mut unknown = Vec::new();
        for of_comm in by_comm(&mut tree, snapshot, scope) {
            let Some(&(comm, ..)) = of_comm.first() else { continue };
            for (_, branch, weight) in of_comm {
                let seen = wide.get(branch as usize).copied().unwrap_or(0);
                let mut rest = seen as usize;
                let mut node = loop {
                    match known.get(rest) {
                        Some(&(of, node)) if of == comm => break node,
                        Some(_) if rest != 0 => {
                            let branch = snapshot.branches[rest];
                            unknown.push((rest, branch.frame));
                            rest = branch.caller as usize;
                        }
                        _ => break comm,
                    }
                };
                while let Some((branch, frame)) = unknown.pop() {
                    if scope.shows(frame) {
                        node = tree.child(snapshot, node, Label::Frame(frame));
                    }
                    known[branch] = (comm, node);
                }
                tree.nodes[node].weight += weight;
                tree.nodes[node].own += if seen == branch { weight } else { 0 };
            }
        }
        for node in (0..tree.nodes.len()).rev() {
            let (parent, weight) = (tree.nodes[node].parent, tree.nodes[node].weight);
            if node != 0 {
                tree.nodes[parent].weight += weight;
            }
        }
        Self { tree: tree.finish(), found, found_weight }
    }

    /// The weight of a frame, if there is one now.
    pub fn weight(&self, path: PathKey) -> Option<u64> {
        self.tree.find(path).map(|node| self.tree.nodes[node].weight)
    }

    /// Like the SVG, by name, so that they stay where they are while their weights change.
    fn children(&self, snapshot: &Snapshot, node: usize) -> Vec<usize> {
        let mut children: Vec<usize> = self.tree.children(node).collect();
        children.sort_by_cached_key(|&child| text_of(&self.tree, snapshot, self.tree.nodes[child].label));
        children
    }

    /// The weight of everything.
    pub fn total(&self) -> u64 {
        self.tree.nodes[0].weight
    }

    /// The rows from `all` upwards, with `zoom` as wide as the screen.
    pub fn rows(&self, snapshot: &Snapshot, zoom: PathKey, width: u16) -> Vec<FlameRow> {
        let nodes = &self.tree.nodes;
        let zoomed = self.tree.find(zoom).unwrap_or(0);
        let mut ancestors = Vec::new();
        let mut node = zoomed;
        while node != 0 {
            node = nodes[node].parent;
            ancestors.push(node);
        }
        let mut rows: Vec<FlameRow> =
            ancestors.iter().rev().map(|&node| vec![self.tile(snapshot, node, 0..width, true)]).collect();

        // Breadth first, row by row, in parts of the zoomed frame's weight.
        let whole = u128::from(nodes[zoomed].weight.max(1));
        let column = |position: u64| (u128::from(position) * u128::from(width) / whole) as u16;
        let mut row = vec![(zoomed, 0_u64)];
        while !row.is_empty() {
            let tiles = row.iter().filter_map(|&(node, start)| {
                let columns = column(start)..column(start.saturating_add(nodes[node].weight));
                (!columns.is_empty()).then(|| self.tile(snapshot, node, columns, false))
            });
            let tiles: Vec<_> = tiles.collect();
            if tiles.is_empty() {
                break;
            }
            rows.push(tiles);
            let mut above = Vec::new();
            for (node, start) in row {
                let mut start = start;
                for child in self.children(snapshot, node) {
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

    /// The weight of all stacks with a highlighted frame, each counted once; `None` where nothing is looked for.
    pub fn found(&self) -> Option<u64> {
        self.found.as_ref().map(|_| self.found_weight)
    }

    /// The next frame in a direction; the same one where there is none.
    pub fn step(&self, snapshot: &Snapshot, from: PathKey, step: Step) -> PathKey {
        let Some(node) = self.tree.find(from) else { return PathKey::default() };
        let nodes = &self.tree.nodes;
        let parent = nodes[node].parent;
        let beside = |by: isize| {
            let brothers = self.children(snapshot, parent);
            let place = brothers.iter().position(|&brother| brother == node)?;
            brothers.get(place.checked_add_signed(by)?).copied()
        };
        let next = match step {
            Step::Up => self.tree.heaviest_child(node),
            Step::Down => Some(parent),
            Step::Left => beside(-1),
            Step::Right => beside(1),
        };
        self.tree.path(next.unwrap_or(node))
    }

    /// Returns the details of a frame; `None` where it is gone.
    pub fn details(&self, snapshot: &Snapshot, path: PathKey) -> Option<Details> {
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
    pub fn height(&self, path: PathKey) -> usize {
        let mut node = self.tree.find(path).unwrap_or(0);
        let mut height = 0;
        while node != 0 {
            node = self.tree.nodes[node].parent;
            height += 1;
        }
        height
    }

    fn tile(&self, snapshot: &Snapshot, node: usize, columns: Range<u16>, ancestor: bool) -> Tile {
        let path = self.tree.path(node);
        let node = &self.tree.nodes[node];
        Tile {
            columns,
            path,
            text: text_of(&self.tree, snapshot, node.label),
            ancestor,
            found: self.is_found(node.label),
            weight: node.weight,
        }
    }

    fn is_found(&self, label: Label) -> bool {
        let (Label::Frame(frame), Some(found)) = (label, &self.found) else { return false };
        found.get(frame.function as usize) == Some(&true)
    }
}

/// The stacks of threads of one name, for each name: the name's node, the branch, the weight.
fn by_comm(tree: &mut Tree, snapshot: &Snapshot, scope: &Scope) -> Vec<Vec<(usize, u32, u64)>> {
    let mut stacks: Vec<Vec<(usize, u32, u64)>> = Vec::new();
    let mut nodes: Vec<Option<usize>> = vec![None; snapshot.tasks.len()];
    for stack in scope.stacks(snapshot) {
        let Some(node) = nodes.get_mut(stack.task_number as usize) else { continue };
        let node = *node.get_or_insert_with(|| {
            let comm = tree.comm(&stack.task.comm);
            tree.child(snapshot, 0, comm)
        });
        if stacks.len() < node {
            stacks.resize_with(node, Vec::new);
        }
        stacks[node - 1].push((node, stack.branch, stack.weight));
    }
    stacks
}

/// The label as the SVG has it.
fn text_of(tree: &Tree, snapshot: &Snapshot, label: Label) -> String {
    let name = tree.name(snapshot, label);
    match label {
        Label::All | Label::Comm(_) => name.to_owned(),
        Label::Frame(Frame { kind, .. }) => format!("{name}{}", suffix(kind)),
    }
}

/// The suffix of a name, by which readers of folded stacks tell the kind of code.
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
    use crate::filter::Filter;
    use crate::testing::Build;

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
        let tree = FlameTree::new(&snapshot, &Scope::default(), 100);
        let rows = tree.rows(&snapshot, PathKey::default(), 100);
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
        let tree = FlameTree::new(&snapshot, &Scope::default(), 100);
        let all = PathKey::default();
        let main = tree.step(&snapshot, tree.step(&snapshot, all, Step::Up), Step::Up);
        assert_eq!(tree.details(&snapshot, main).unwrap().weight, 90);
        let b = tree.step(&snapshot, tree.step(&snapshot, main, Step::Up), Step::Right);
        let rows = tree.rows(&snapshot, b, 10);
        assert!(rows[..3].iter().all(|row| row[0].ancestor && row[0].columns == (0..10)));
        assert_eq!(rows[3][0].text, "b");
        assert_eq!((tree.height(b), rows.len()), (3, 5));
        assert_eq!(tree.step(&snapshot, b, Step::Right), b, "there is no further one");
    }

    #[test]
    fn what_is_too_narrow_counts_for_its_caller_alone() {
        let mut build = Build::default();
        build.stack(1, 1, "app", "main;a;b", 20_000).stack(1, 1, "app", "main;a;c", 1);
        let snapshot = build.snapshot();
        let texts = |whole| {
            let tree = FlameTree::new(&snapshot, &Scope::default(), whole);
            assert_eq!(tree.total(), 20_001);
            let (mut path, mut texts) = (PathKey::default(), Vec::new());
            for _ in 0..4 {
                path = tree.step(&snapshot, path, Step::Up);
                texts.push(tree.details(&snapshot, path).unwrap());
            }
            let c = tree.step(&snapshot, path, Step::Right);
            (texts.iter().map(|details| details.own).collect::<Vec<_>>(), c != path)
        };
        assert_eq!(texts(20_001), (vec![0, 0, 0, 20_000], true));
        assert_eq!(texts(10 * 20_001), (vec![0, 0, 0, 20_000], false), "c is not told apart");
    }

    #[test]
    fn found_stacks_count_once() {
        let snapshot = snapshot();
        let found = |filter| {
            let scope = Scope { filter: Filter::parse(filter), ..Scope::default() };
            FlameTree::new(&snapshot, &scope, 100).found()
        };
        assert_eq!(found("func:b"), Some(30));
        assert_eq!(found("i"), Some(100), "main, once for each stack");
        assert_eq!(found(""), None);
    }
}
