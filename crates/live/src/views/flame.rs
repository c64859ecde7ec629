//! The flame graph, laid out in the columns and rows of a screen.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use profile::queries::{CallTree, CallTreeBuilder, NodeId};
use profile::{FrameId, FrameKind};
use rustc_hash::FxBuildHasher;

use super::Scope;
use super::scope_tree::{Label, PathKey, Paths, ScopeTree};
use crate::snapshot::{Frame, Snapshot, StateKind};

/// A flame graph: `all`, then threads' names, then frames, outermost first.
#[derive(Clone, Debug)]
pub struct FlameTree {
    /// Three columns of weights: all stacks; the stacks that end in the frame itself; the time off the CPU.
    calls: CallTree<Label>,
    paths: Paths,
    comms: Vec<Arc<str>>,
    /// By function number: true if the filter highlights the function. `None` where the filter chooses no functions.
    found: Option<Vec<bool>>,
    /// The weight of all stacks with a highlighted frame.
    found_weight: u64,
}

/// Frames that are narrower than one part in this many of the picture are left out: no screen shows them, nor any zoom that can be
/// clicked on a screen.
const MAX_PARTS: u64 = 1 << 14;

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
    /// Set where the frame is the state of a thread.
    pub state: Option<StateKind>,
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
    /// Builds the tree of a scope. Leaves out frames that cannot be seen where the screen is as wide as the weight `whole`; their
    /// callers keep the weight.
    pub fn new(snapshot: &Snapshot, scope: &Scope, whole: u64) -> Self {
        let ScopeTree { calls: merged, nodes } = ScopeTree::new(snapshot, scope);
        let shows = || snapshot.functions.iter().map(|function| scope.filter.shows(function)).collect();
        let found: Option<Vec<bool>> = scope.filter.chooses_functions().then(shows);
        let found_weight = found.as_ref().map_or(0, |found| {
            let is_found = |frame: FrameId| is_found(found, merged.frames()[frame.index()]);
            merged.totals_with(is_found).first().copied().unwrap_or(0)
        });
        let wide = nearest_wide(whole / MAX_PARTS, &merged);
        let mut labels = merged.frames().to_vec();
        let mut comms = Comms::default();
        let mut builder = CallTreeBuilder::new(3);
        // By node of the merged tree: the node of this tree that was found for it last, and the thread name that it lies above. Stacks
        // of threads of one name share callers, which are looked up once.
        let mut known = vec![(NodeId::ROOT, NodeId::ROOT); merged.nodes().len()];
        let mut unknown = Vec::new();
        for (comm, stacks) in comms.stacks(snapshot, scope) {
            labels.push(Label::Comm(comm));
            let comm = builder.child(NodeId::ROOT, FrameId::from_index(labels.len() - 1));
            for (frame_node, weight) in stacks {
                let end = nodes.get(frame_node as usize).copied().unwrap_or(NodeId::ROOT);
                let seen = wide[end.index()];
                let mut rest = seen;
                let mut node = loop {
                    match merged.frame(rest) {
                        Some(_) if known[rest.index()].0 == comm => break known[rest.index()].1,
                        Some(frame) => {
                            unknown.push((rest, frame));
                            rest = merged.parent(rest);
                        }
                        None => break comm,
                    }
                };
                while let Some((merged, frame)) = unknown.pop() {
                    node = builder.child(node, frame);
                    known[merged.index()] = (comm, node);
                }
                let off = snapshot.state_kind(frame_node).is_some_and(|doing| doing != StateKind::Running);
                let of = |is: bool| if is { weight } else { 0 };
                builder.add(node, &[weight, of(seen == end), of(off)]);
            }
        }
        let calls = builder.finish(labels);
        let paths = Paths::new(&calls, NodeId::ROOT, snapshot, &comms.names);
        Self { calls, paths, comms: comms.names, found, found_weight }
    }

    /// Returns the weight of the frame at a path, if the frame exists in this tree.
    pub fn weight(&self, path: PathKey) -> Option<u64> {
        self.find(path).map(|node| self.weight_of(node))
    }

    /// The children of a node by name, as in the SVG: so they keep their places while their weights change.
    fn children(&self, snapshot: &Snapshot, node: NodeId) -> Vec<NodeId> {
        let mut children: Vec<NodeId> = self.calls.children(node).collect();
        children.sort_by_cached_key(|&child| self.text(snapshot, child));
        children
    }

    fn find(&self, path: PathKey) -> Option<NodeId> {
        self.paths.find(&self.calls, path)
    }

    /// The label of a node; `None` for `all`.
    fn label(&self, node: NodeId) -> Option<Label> {
        self.calls.frame(node).and_then(|frame| self.calls.frames().get(frame.index())).copied()
    }

    fn weight_of(&self, node: NodeId) -> u64 {
        self.calls.totals(node).first().copied().unwrap_or(0)
    }

    /// The text of a node as the SVG has it.
    fn text(&self, snapshot: &Snapshot, node: NodeId) -> String {
        match self.label(node) {
            None => "all".to_owned(),
            Some(Label::Comm(comm)) => {
                self.comms.get(comm as usize).map(|comm| comm.to_string()).unwrap_or_default()
            }
            Some(Label::Frame(Frame { function, kind, .. })) => {
                let name = snapshot.functions.get(function as usize).map_or("", |function| &function.name);
                format!("{name}{}", suffix(kind))
            }
        }
    }

    /// Returns the weight of all stacks.
    pub fn total(&self) -> u64 {
        self.weight_of(NodeId::ROOT)
    }

    /// Returns the rows from `all` upwards, with the frame `zoom` as wide as the screen, which has `width` columns.
    pub fn rows(&self, snapshot: &Snapshot, zoom: PathKey, width: u16) -> Vec<FlameRow> {
        let zoomed = self.find(zoom).unwrap_or(NodeId::ROOT);
        let mut ancestors = Vec::new();
        let mut node = zoomed;
        while node != NodeId::ROOT {
            node = self.calls.parent(node);
            ancestors.push(node);
        }
        let mut rows: Vec<FlameRow> =
            ancestors.iter().rev().map(|&node| vec![self.tile(snapshot, node, 0..width, true)]).collect();

        // Row by row; a position is a weight from the left edge of the zoomed frame.
        let whole = u128::from(self.weight_of(zoomed).max(1));
        let column = |position: u64| (u128::from(position) * u128::from(width) / whole) as u16;
        let mut row = vec![(zoomed, 0_u64)];
        while !row.is_empty() {
            let tiles = row.iter().filter_map(|&(node, start)| {
                let columns = column(start)..column(start.saturating_add(self.weight_of(node)));
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
        self.found.as_ref().map(|_| self.found_weight)
    }

    /// Returns the next frame in a direction, or the same one at the edge.
    pub fn step(&self, snapshot: &Snapshot, from: PathKey, step: Direction) -> PathKey {
        let Some(node) = self.find(from) else { return PathKey::default() };
        let parent = self.calls.parent(node);
        let beside = |by: isize| {
            let siblings = self.children(snapshot, parent);
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
    pub fn details(&self, snapshot: &Snapshot, path: PathKey) -> Option<Details> {
        let node = self.find(path)?;
        let frame = self.label(node).and_then(Label::frame);
        let function = frame.and_then(|frame| snapshot.functions.get(frame.function as usize));
        Some(Details {
            text: self.text(snapshot, node),
            module: function.map(|function| function.module.to_string()).unwrap_or_default(),
            weight: self.weight_of(node),
            self_weight: self.calls.self_weights(node).get(1).copied().unwrap_or(0),
        })
    }

    /// Returns the row of a frame, counted from `all`; 0 where it does not exist in this tree.
    pub fn height(&self, path: PathKey) -> usize {
        let mut node = self.find(path).unwrap_or(NodeId::ROOT);
        let mut height = 0;
        while node != NodeId::ROOT {
            node = self.calls.parent(node);
            height += 1;
        }
        height
    }

    fn tile(&self, snapshot: &Snapshot, node: NodeId, columns: Range<u16>, ancestor: bool) -> Tile {
        let found = self.found.as_ref().zip(self.label(node));
        let weight = self.weight_of(node);
        let off = self.calls.totals(node).get(2).copied().unwrap_or(0);
        Tile {
            columns,
            path: self.paths.of(node),
            text: self.text(snapshot, node),
            ancestor,
            found: found.is_some_and(|(found, label)| is_found(found, label)),
            weight,
            state: self.label(node).and_then(Label::frame).and_then(|frame| frame.state),
            is_off_cpu: export::is_off_cpu(off.into(), weight.into()),
        }
    }
}

/// Returns true if the label is a frame of a highlighted function.
fn is_found(found: &[bool], label: Label) -> bool {
    label.frame().is_some_and(|frame| found.get(frame.function as usize) == Some(&true))
}

/// For each node, by number: the node itself if it weighs at least `least`, else its nearest caller that does, else the root.
fn nearest_wide(least: u64, calls: &CallTree<Label>) -> Vec<NodeId> {
    let mut wide: Vec<NodeId> = Vec::with_capacity(calls.nodes().len());
    for node in calls.nodes() {
        let is_wide = calls.totals(node).first().is_some_and(|&total| total >= least);
        let outer = wide.get(calls.parent(node).index()).copied().unwrap_or(NodeId::ROOT);
        wide.push(if is_wide { node } else { outer });
    }
    wide
}

/// The names of threads, each once, by number.
#[derive(Default)]
struct Comms {
    names: Vec<Arc<str>>,
    numbers: HashMap<Arc<str>, u32, FxBuildHasher>,
}

impl Comms {
    /// Returns the frame nodes and weights of the stacks of a scope, grouped by the name of their threads.
    fn stacks(&mut self, snapshot: &Snapshot, scope: &Scope) -> impl Iterator<Item = (u32, Vec<(u32, u64)>)> {
        let mut stacks: Vec<Vec<(u32, u64)>> = Vec::new();
        let mut of_tasks: Vec<Option<u32>> = vec![None; snapshot.tasks.len()];
        for stack in scope.stacks(snapshot) {
            let Some(number) = of_tasks.get_mut(stack.task_number as usize) else { continue };
            let number = *number.get_or_insert_with(|| {
                let next = self.names.len() as u32;
                let number = *self.numbers.entry(Arc::clone(&stack.task.comm)).or_insert(next);
                if number == next {
                    self.names.push(Arc::clone(&stack.task.comm));
                    stacks.push(Vec::new());
                }
                number
            });
            stacks[number as usize].push((stack.frame_node, stack.weight));
        }
        (0..).zip(stacks)
    }
}

/// The suffix of a name for the kind of code, as in folded stacks.
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
        let main = tree.step(&snapshot, tree.step(&snapshot, all, Direction::Up), Direction::Up);
        assert_eq!(tree.details(&snapshot, main).unwrap().weight, 90);
        let b = tree.step(&snapshot, tree.step(&snapshot, main, Direction::Up), Direction::Right);
        let rows = tree.rows(&snapshot, b, 10);
        assert!(rows[..3].iter().all(|row| row[0].ancestor && row[0].columns == (0..10)));
        assert_eq!(rows[3][0].text, "b");
        assert_eq!((tree.height(b), rows.len()), (3, 5));
        assert_eq!(tree.step(&snapshot, b, Direction::Right), b, "there is no further one");
    }

    #[test]
    fn what_is_too_narrow_counts_for_its_caller_alone() {
        let mut build = SnapshotBuilder::default();
        build.stack(1, 1, "app", "main;a;b", 20_000).stack(1, 1, "app", "main;a;c", 1);
        let snapshot = build.snapshot();
        let texts = |whole| {
            let tree = FlameTree::new(&snapshot, &Scope::default(), whole);
            assert_eq!(tree.total(), 20_001);
            let (mut path, mut texts) = (PathKey::default(), Vec::new());
            for _ in 0..4 {
                path = tree.step(&snapshot, path, Direction::Up);
                texts.push(tree.details(&snapshot, path).unwrap());
            }
            let c = tree.step(&snapshot, path, Direction::Right);
            (texts.iter().map(|details| details.self_weight).collect::<Vec<_>>(), c != path)
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
