//! The window's stacks as snapshots have them: by places, and by the frames that those are called.

use std::time::{Duration, Instant};

use model::{Space, SpaceTable};
use profile::{Children, StackId, StackTable};

use super::shared_list::SharedList;
use super::symbol_table::SymbolTable;
use crate::snapshot::{Branch, Call, Frame};

/// New names come to old stacks after as many times of what it takes to describe all of them anew.
const REST: u32 = 32;

/// Stacks, each described once, and again when names have come.
pub(crate) struct SharedCallTree {
    /// The numbers of places in the symbol table, by their positions in the table.
    places: Vec<u32>,
    calls: SharedList<Call>,
    /// True if the stack reaches the thread's first frame, as far as one can tell; by its number.
    complete: Vec<bool>,
    /// Those that are states of threads and nothing else, ascending.
    states: Vec<StackId>,
    branches: SharedList<Branch>,
    children: Children,
    /// The branch of a stack, by its number.
    tips: SharedList<u32>,
    /// The number of names that had come to the symbol table by then.
    names: u64,
    /// The time at which all were described anew, and how long that took.
    renewed: Option<(Instant, Duration)>,
}

impl SharedCallTree {
    /// Makes a tree without any stack.
    pub(crate) fn new() -> Self {
        let mut tree = Self {
            places: Vec::new(),
            calls: SharedList::default(),
            complete: vec![false],
            states: Vec::new(),
            branches: SharedList::default(),
            children: Children::default(),
            tips: SharedList::default(),
            names: 0,
            renewed: None,
        };
        // The empty stack.
        tree.calls.push(Call { caller: 0, place: 0 });
        tree.clear_branches();
        tree
    }

    /// Stacks by number, callers before what they call; the first one is empty.
    pub(crate) fn calls(&self) -> SharedList<Call> {
        self.calls.clone()
    }

    /// The stacks by frames, callers before what they call; the first one is empty.
    pub(crate) fn branches(&self) -> SharedList<Branch> {
        self.branches.clone()
    }

    /// The branch of each stack.
    pub(crate) fn tips(&self) -> SharedList<u32> {
        self.tips.clone()
    }

    /// Returns true if the stack reaches the thread's first frame, as far as one can tell.
    pub(crate) fn is_complete(&self, stack: StackId) -> bool {
        self.complete.get(stack.index()) == Some(&true)
    }

    /// Returns true if the stack is nothing but the state of a thread.
    pub(crate) fn is_state(&self, stack: StackId) -> bool {
        self.states.binary_search(&stack).is_ok()
    }

    /// Returns true if names have come that stacks do not have yet.
    pub(crate) fn is_behind(&self, symbols: &SymbolTable) -> bool {
        self.names != symbols.names()
    }

    /// Describes the stacks that came since the last time; and all of them where names have come: `at_once`, or when it is
    /// worth while.
    pub(crate) fn update(
        &mut self,
        stacks: &StackTable,
        spaces: &SpaceTable,
        symbols: &mut SymbolTable,
        at_once: bool,
    ) {
        let table = stacks.places();
        while let Some(&entry) = table.get(self.places.len()) {
            self.places.push(symbols.number(entry, spaces));
        }
        for (stack, place, caller) in stacks.iter_from(self.calls.len()) {
            let number = self.places.get(place.index()).copied().unwrap_or(0);
            self.calls.push(Call { caller: caller.index() as u32, place: number });
            let is_complete = match caller == StackId::EMPTY {
                true => table.get(place.index()).is_some_and(|entry| begins(spaces.get(entry.space))),
                false => self.is_complete(caller),
            };
            self.complete.push(is_complete);
            let space = table.get(place.index()).map(|entry| spaces.get(entry.space));
            if caller == StackId::EMPTY && matches!(space, Some(Space::State(_))) {
                self.states.push(stack);
            }
        }
        let begin = Instant::now();
        let has_rested = self.renewed.is_none_or(|(when, took)| begin.duration_since(when) > took * REST);
        let renews = self.is_behind(symbols) && (at_once || has_rested);
        if renews {
            self.names = symbols.names();
            self.clear_branches();
        }
        for stack in self.tips.len()..self.calls.len() {
            let Call { caller, place } = self.calls[stack];
            let mut branch = self.tips.get(caller as usize).copied().unwrap_or(0);
            for frame in symbols.frames_of(place) {
                branch = self.child(branch, frame);
            }
            self.tips.push(branch);
        }
        if renews {
            self.renewed = Some((begin, begin.elapsed()));
        }
    }

    fn clear_branches(&mut self) {
        self.branches = SharedList::default();
        self.branches.push(Branch::ROOT);
        self.children = Children::default();
        self.tips = SharedList::default();
        self.tips.push(0);
    }

    /// The branch that goes on from another one with a frame.
    fn child(&mut self, caller: u32, frame: Frame) -> u32 {
        let branches = &self.branches;
        let is = |child: u32| {
            let branch = &branches[child as usize];
            (branch.caller, branch.frame) == (caller, frame)
        };
        let number = self.children.find_or_add(caller, frame.key(), is);
        if number as usize == branches.len() {
            self.branches.push(Branch { caller, frame });
        }
        number
    }
}

/// Returns true if a thread can begin in this space: it does not where nobody knows how the stack goes on, nor where nobody saw
/// its stack.
fn begins(space: &Space) -> bool {
    !matches!(space, Space::Truncated(_) | Space::Unmapped { .. } | Space::State(_) | Space::Foreign(_))
}
