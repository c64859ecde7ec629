//! The stacks of all events, each as a node of one tree.

use std::collections::BTreeMap;

use profile::comparison::Comparison;
use profile::{StackId, ThreadId, View, pool_names};

use super::tree::{SortedTree, StackEnd, StackTree};

/// The stacks of a page. They take as long as all else in it, and need neither its samples nor a file: they can be made meanwhile.
#[derive(Debug)]
pub struct PageStacks {
    pub(crate) tree: SortedTree,
    pub(crate) events: Vec<EventStacks>,
}

/// The stacks of an event.
#[derive(Debug)]
pub(crate) struct EventStacks {
    of_roots: Vec<RootStacks>,
    /// The root of each thread of the event's profile.
    pub(crate) roots: Vec<Option<u32>>,
}

/// The stacks of threads of one root.
#[derive(Debug)]
struct RootStacks {
    /// The root frame; `None` in comparisons, whose stacks have no threads.
    root: Option<u32>,
    /// In their order, each once.
    stacks: Vec<RootedStack>,
}

/// A stack that threads of one root have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RootedStack {
    pub(crate) stack: StackId,
    /// One of the threads.
    pub(crate) thread: ThreadId,
    /// The end of the stack in the tree; `None` if the view omits the stack.
    pub(crate) end: Option<StackEnd>,
}

impl PageStacks {
    /// Makes the stacks of the views of a page's events, in the same order; for two sides those of their comparison.
    pub fn of<'v>(views: impl Iterator<Item = &'v View<'v>>, comparison: Option<&Comparison>) -> Self {
        let mut tree = StackTree::default();
        let mut events: Vec<_> = views.map(|view| EventStacks::of(view, &mut tree, comparison)).collect();
        let (tree, moved) = tree.sorted();
        let of_roots = events.iter_mut().flat_map(|event| &mut event.of_roots);
        for end in of_roots.flat_map(|of_root| &mut of_root.stacks).filter_map(|stack| stack.end.as_mut()) {
            end.node = moved[end.node as usize];
        }
        Self { tree, events }
    }
}

impl EventStacks {
    /// Adds the stacks of an event to the tree.
    fn of(view: &View<'_>, tree: &mut StackTree, comparison: Option<&Comparison>) -> Self {
        let numbers = tree.frames_of(view, comparison);
        // Roots are the pools of threads.
        let pools = pool_names(view.profile().threads());
        let root = |name| comparison.is_none().then(|| tree.root(&name));
        let roots: Vec<Option<u32>> = pools.into_iter().map(root).collect();
        let mut of_roots: BTreeMap<Option<u32>, Vec<RootedStack>> = BTreeMap::new();
        for (thread, stack, _) in view.profile().counts() {
            let root = roots.get(thread.index()).copied().flatten();
            of_roots.entry(root).or_default().push(RootedStack { stack, thread, end: None });
        }
        let of_roots = of_roots.into_iter().map(|(root, mut stacks)| {
            // They come nearly in this order.
            stacks.sort_by_key(|rooted| rooted.stack);
            stacks.dedup_by_key(|rooted| rooted.stack);
            let ids: Vec<StackId> = stacks.iter().map(|rooted| rooted.stack).collect();
            let thread = stacks.first().map(|rooted| rooted.thread);
            // They end in this order, but for those that the view omits.
            let mut rooted = stacks.iter_mut();
            let end = |stack, node, frame| {
                if let Some(rooted) = rooted.find(|rooted| rooted.stack == stack) {
                    rooted.end = Some(StackEnd { node, frame });
                }
            };
            if let Some(thread) = thread {
                tree.add(view, &numbers, root, thread, &ids, end);
            }
            RootStacks { root, stacks }
        });
        Self { of_roots: of_roots.collect(), roots }
    }

    /// Returns all stacks with their roots, in the order of root and stack.
    pub(crate) fn all(&self) -> impl Iterator<Item = (Option<u32>, &RootedStack)> {
        self.of_roots.iter().flat_map(|of_root| of_root.stacks.iter().map(|stack| (of_root.root, stack)))
    }
}
