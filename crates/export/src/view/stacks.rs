//! The stacks of all events, each as a node of one tree.

use profile::comparison::Comparison;
use profile::{StackId, View};

use super::numbered_stacks::{EventStacks, RootedStack};
use super::samples::PageSamples;
use super::tree::{SortedTree, StackEnd, StackTree};

/// The stacks of a page. They take as long as all else in it, and need no file: they can be made while files are read.
#[derive(Debug)]
pub struct PageStacks {
    pub(crate) tree: SortedTree,
    /// For each event the ends of its stacks; `None` for those that the view omits.
    pub(crate) ends: Vec<Vec<Option<StackEnd>>>,
}

impl PageStacks {
    /// Makes the stacks of `samples`, which are those of the views of a page's events, in the same order; for two sides those of their
    /// comparison.
    pub fn of<'v>(
        views: impl Iterator<Item = &'v View<'v>>,
        samples: &PageSamples,
        comparison: Option<&Comparison>,
    ) -> Self {
        let mut tree = StackTree::default();
        let mut all_ends: Vec<_> = views
            .zip(&samples.stacks)
            .map(|(view, stacks)| ends(stacks, view, &mut tree, comparison))
            .collect();
        let (tree, moved) = tree.sorted();
        for end in all_ends.iter_mut().flatten().flatten() {
            end.node = moved[end.node as usize];
        }
        Self { tree, ends: all_ends }
    }
}

/// Adds the stacks of an event to the tree, and returns their ends.
fn ends(
    stacks: &EventStacks,
    view: &View<'_>,
    tree: &mut StackTree,
    comparison: Option<&Comparison>,
) -> Vec<Option<StackEnd>> {
    let numbers = tree.frames_of(view, comparison);
    let roots: Vec<u32> = stacks.roots.iter().map(|name| tree.root(name)).collect();
    let mut ends = vec![None; stacks.all.len()];
    let mut ordered: Vec<(RootedStack, usize)> = stacks.all.iter().copied().zip(0..).collect();
    ordered.sort_unstable_by_key(|&(RootedStack { root, stack, .. }, _)| (root, stack));
    for of_root in ordered.chunk_by(|(one, _), (other, _)| one.root == other.root) {
        let Some(&(RootedStack { root, thread, .. }, _)) = of_root.first() else { continue };
        let root = root.and_then(|root| roots.get(root as usize).copied());
        let ids: Vec<StackId> = of_root.iter().map(|(rooted, _)| rooted.stack).collect();
        // They come in this order, but for those that the view omits.
        let mut positions = of_root.iter();
        tree.add(view, &numbers, root, thread, &ids, |stack, node, frame| {
            if let Some(&(_, position)) = positions.find(|(rooted, _)| rooted.stack == stack) {
                ends[position] = Some(StackEnd { node, frame });
            }
        });
    }
    ends
}
