//! The stacks of all events, each as a node of one tree.

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
    /// The stacks of each root, in the order of root and stack.
    pub(crate) all: Vec<RootedStack>,
    /// The root of each thread of the event's profile.
    pub(crate) roots: Vec<Option<u32>>,
}

/// A stack that threads of one root have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RootedStack {
    /// The root frame; `None` in comparisons, whose stacks have no threads.
    pub(crate) root: Option<u32>,
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
        for end in events.iter_mut().flat_map(|event| &mut event.all).filter_map(|stack| stack.end.as_mut()) {
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
        let rooted = |(thread, stack, _): (ThreadId, _, _)| {
            let root = roots.get(thread.index()).copied().flatten();
            RootedStack { root, stack, thread, end: None }
        };
        let mut all: Vec<RootedStack> = view.profile().counts().map(rooted).collect();
        // They come nearly in the order of stacks.
        all.sort_by_key(|rooted| (rooted.root, rooted.stack));
        all.dedup_by_key(|rooted| (rooted.root, rooted.stack));
        for of_root in all.chunk_by_mut(|one, other| one.root == other.root) {
            let Some(&RootedStack { root, thread, .. }) = of_root.first() else { continue };
            let ids: Vec<StackId> = of_root.iter().map(|rooted| rooted.stack).collect();
            // They come in this order, but for those that the view omits.
            let mut rooted = of_root.iter_mut();
            tree.add(view, &numbers, root, thread, &ids, |stack, node, frame| {
                if let Some(rooted) = rooted.find(|rooted| rooted.stack == stack) {
                    rooted.end = Some(StackEnd { node, frame });
                }
            });
        }
        Self { all, roots }
    }
}
