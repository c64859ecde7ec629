//! The stacks of all events, each as a node of one tree.

use std::collections::HashMap;

use profile::comparison::Comparison;
use profile::{FrameId, StackId, ThreadId, View, pool_names};
use rustc_hash::FxBuildHasher;

use super::tree::StackTree;

/// The stacks of a page. They take as long as all else in it, and need no file: they can be made while files are read.
#[derive(Debug)]
pub struct PageStacks {
    pub(crate) tree: StackTree,
    /// In the order of the events.
    pub(crate) of_events: Vec<EventStacks>,
}

/// The different stacks of an event.
#[derive(Debug)]
pub(crate) struct EventStacks {
    pub(crate) all: Vec<RootedStack>,
    /// The ends of `all`; `None` for those that the view omits.
    pub(crate) ends: Vec<Option<StackEnd>>,
    /// The index in `all` of each sample's stack.
    pub(crate) of_samples: Vec<u32>,
}

/// A stack of a root, with one of the threads that have it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RootedStack {
    /// The number of the root frame; `None` in comparisons, whose stacks have no threads.
    root: Option<u32>,
    pub(crate) stack: StackId,
    pub(crate) thread: ThreadId,
}

/// The end of a stack in the tree.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StackEnd {
    /// The number of its node.
    pub(crate) node: u32,
    /// Its innermost frame.
    pub(crate) frame: Option<FrameId>,
}

impl PageStacks {
    /// Makes the stacks of the views of a page's events, in the same order; for two sides those of their comparison.
    pub fn of<'v>(views: impl Iterator<Item = &'v View<'v>>, comparison: Option<&Comparison>) -> Self {
        let mut tree = StackTree::default();
        let of_events = views.map(|view| EventStacks::of(view, &mut tree, comparison)).collect();
        Self { tree, of_events }
    }
}

impl EventStacks {
    fn of(view: &View<'_>, tree: &mut StackTree, comparison: Option<&Comparison>) -> Self {
        let profile = view.profile();
        let numbers = tree.frames_of(view, comparison);
        let pools = pool_names(profile.threads());
        let roots: Vec<Option<u32>> =
            pools.iter().map(|name| comparison.is_none().then(|| tree.root(name))).collect();
        let mut known = KnownStacks::default();
        let of_samples = profile
            .samples()
            .iter()
            .map(|sample| known.number(roots[sample.thread.index()], sample.stack, sample.thread))
            .collect();
        let ends = ends(view, tree, &numbers, &known.all);
        Self { all: known.all, ends, of_samples }
    }
}

/// Adds stacks to the tree, and returns their ends.
fn ends(
    view: &View<'_>,
    tree: &mut StackTree,
    numbers: &[u32],
    stacks: &[RootedStack],
) -> Vec<Option<StackEnd>> {
    let mut ends = vec![None; stacks.len()];
    let mut ordered: Vec<(RootedStack, usize)> = stacks.iter().copied().zip(0..).collect();
    ordered.sort_unstable_by_key(|&(RootedStack { root, stack, .. }, _)| (root, stack));
    for of_root in ordered.chunk_by(|(one, _), (other, _)| one.root == other.root) {
        let Some(&(RootedStack { root, thread, .. }, _)) = of_root.first() else { continue };
        let ids: Vec<StackId> = of_root.iter().map(|(rooted, _)| rooted.stack).collect();
        // They come in this order, but for those that the view omits.
        let mut positions = of_root.iter();
        tree.add(view, numbers, root, thread, &ids, |stack, node, frame| {
            if let Some(&(_, position)) = positions.find(|(rooted, _)| rooted.stack == stack) {
                ends[position] = Some(StackEnd { node, frame });
            }
        });
    }
    ends
}

/// Numbers the stacks of each root, in the order in which they come.
#[derive(Default)]
struct KnownStacks {
    all: Vec<RootedStack>,
    /// The root and the number with which each stack came first: most come with one root alone.
    first: Vec<Option<(Option<u32>, u32)>>,
    others: HashMap<(Option<u32>, StackId), u32, FxBuildHasher>,
}

impl KnownStacks {
    fn number(&mut self, root: Option<u32>, stack: StackId, thread: ThreadId) -> u32 {
        let next = self.all.len() as u32;
        if self.first.len() <= stack.index() {
            self.first.resize(stack.index() + 1, None);
        }
        let number = match &mut self.first[stack.index()] {
            Some((known, number)) if *known == root => *number,
            Some(_) => *self.others.entry((root, stack)).or_insert(next),
            first @ None => first.insert((root, next)).1,
        };
        if number == next {
            self.all.push(RootedStack { root, stack, thread });
        }
        number
    }
}
