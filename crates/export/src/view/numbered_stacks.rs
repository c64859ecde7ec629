//! The different stacks of samples, numbered in the order in which they come.

use model::Name;
use profile::{StackId, ThreadId, View, pool_names};

use crate::interner::{IndexedInterner, Interner};

/// The different stacks of an event.
#[derive(Default, Debug)]
pub(crate) struct EventStacks {
    pub(crate) all: Vec<RootedStack>,
    /// The names of roots.
    pub(crate) roots: Vec<Name>,
}

/// A stack of a root, with one of the threads that have it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RootedStack {
    /// The number of the root; `None` in comparisons, whose stacks have no threads.
    pub(crate) root: Option<u32>,
    pub(crate) stack: StackId,
    pub(crate) thread: ThreadId,
}

/// Numbers the stacks of each root, in the order in which they come.
pub(crate) struct KnownStacks {
    stacks: EventStacks,
    /// The root of each thread.
    of_threads: Vec<Option<u32>>,
    numbers: IndexedInterner<(Option<u32>, StackId)>,
}

impl KnownStacks {
    /// Knows none yet, of the threads of a view. Roots are the pools of threads, but there are none in a comparison.
    pub(crate) fn new(view: &View<'_>, is_compared: bool) -> Self {
        let mut roots = Interner::<Name>::default();
        let pools = pool_names(view.profile().threads());
        let of_threads = pools.into_iter().map(|name| (!is_compared).then(|| roots.intern(name))).collect();
        let stacks = EventStacks { all: Vec::new(), roots: roots.values };
        Self { stacks, of_threads, numbers: IndexedInterner::default() }
    }

    /// Returns the number of a thread's stack.
    pub(crate) fn number(&mut self, stack: StackId, thread: ThreadId) -> u32 {
        let root = self.of_threads[thread.index()];
        let number = self.numbers.intern(stack.index(), (root, stack));
        if number as usize == self.stacks.all.len() {
            self.stacks.all.push(RootedStack { root, stack, thread });
        }
        number
    }

    pub(crate) fn into_stacks(self) -> EventStacks {
        self.stacks
    }
}
