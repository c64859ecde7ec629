//! The window's stacks as snapshots have them: by places, and by the frames that those are called.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use model::{Space, SpaceTable};
use profile::{StackId, StackTable};
use rustc_hash::FxBuildHasher;

use super::shared_list::SharedList;
use super::symbol_table::SymbolTable;
use crate::snapshot::{Branch, Call, Frame};

/// New names come to old stacks after as many times of what it takes to describe all of them anew.
const REST: u32 = 32;
/// How many children of a branch are looked through before the rest is looked up.
const FEW: usize = 8;

/// Stacks, each described once, and again when names have come.
pub(crate) struct Described {
    /// The numbers of places in the book, by their positions in the table.
    places: Vec<u32>,
    calls: SharedList<Call>,
    /// Whether the stack reaches the thread's first frame, as far as one can tell; by its number.
    complete: Vec<bool>,
    branches: SharedList<Branch>,
    /// By the number of the branch.
    links: Vec<Link>,
    /// The children of a branch beyond the first [`FEW`].
    further: HashMap<(u32, Frame), u32, FxBuildHasher>,
    /// The branch of a stack, by its number.
    tips: SharedList<u32>,
    /// How many names had come to the book by then.
    names: u64,
    /// When all were described anew, and what it took.
    renewed: Option<(Instant, Duration)>,
}

/// Of a branch. 0 is none: the root is nobody's child.
#[derive(Clone, Copy)]
struct Link {
    first_child: u32,
    next_sibling: u32,
    /// A bit for each function on the way to it, which other functions share.
    functions: u128,
}

const ROOT: Link = Link { first_child: 0, next_sibling: 0, functions: 0 };

impl Described {
    /// Nothing yet.
    pub(crate) fn new() -> Self {
        let mut described = Self {
            places: Vec::new(),
            calls: SharedList::default(),
            complete: vec![false],
            branches: SharedList::default(),
            links: Vec::new(),
            further: HashMap::default(),
            tips: SharedList::default(),
            names: 0,
            renewed: None,
        };
        // The empty stack.
        described.calls.push(Call { caller: 0, place: 0 });
        described.clear_branches();
        described
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

    /// Whether the stack reaches the thread's first frame, as far as one can tell.
    pub(crate) fn is_complete(&self, stack: StackId) -> bool {
        self.complete.get(stack.index()) == Some(&true)
    }

    /// Whether names have come that stacks do not have yet.
    pub(crate) fn is_behind(&self, book: &SymbolTable) -> bool {
        self.names != book.names()
    }

    /// Describes the stacks that came since the last time; and all of them where names have come: `at_once`, or when it is
    /// worth while.
    pub(crate) fn update(
        &mut self,
        stacks: &StackTable,
        spaces: &SpaceTable,
        book: &mut SymbolTable,
        at_once: bool,
    ) {
        let table = stacks.places();
        while let Some(&entry) = table.get(self.places.len()) {
            self.places.push(book.number(entry, spaces));
        }
        for (_, place, caller) in stacks.iter_from(self.calls.len()) {
            let number = self.places.get(place.index()).copied().unwrap_or(0);
            self.calls.push(Call { caller: caller.index() as u32, place: number });
            let is_complete = match caller == StackId::EMPTY {
                true => table.get(place.index()).is_some_and(|entry| begins(spaces.get(entry.space))),
                false => self.is_complete(caller),
            };
            self.complete.push(is_complete);
        }
        let begin = Instant::now();
        let has_rested = self.renewed.is_none_or(|(when, took)| begin.duration_since(when) > took * REST);
        let renews = self.is_behind(book) && (at_once || has_rested);
        if renews {
            self.names = book.names();
            self.clear_branches();
        }
        for stack in self.tips.len()..self.calls.len() {
            let Call { caller, place } = self.calls[stack];
            let mut branch = self.tips.get(caller as usize).copied().unwrap_or(0);
            for frame in book.frames_of(place) {
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
        self.links.clear();
        self.links.push(ROOT);
        self.further.clear();
        self.tips = SharedList::default();
        self.tips.push(0);
    }

    /// The branch that goes on from another one with a frame.
    fn child(&mut self, caller: u32, frame: Frame) -> u32 {
        let mut last = 0;
        let mut child = self.links[caller as usize].first_child;
        for _ in 0..FEW {
            if child == 0 {
                return self.grow(caller, frame, last);
            }
            if self.branches[child as usize].frame == frame {
                return child;
            }
            last = child;
            child = self.links[child as usize].next_sibling;
        }
        if let Some(&child) = self.further.get(&(caller, frame)) {
            return child;
        }
        let child = self.grow(caller, frame, last);
        self.further.insert((caller, frame), child);
        child
    }

    /// A new branch behind its sibling `last`.
    fn grow(&mut self, caller: u32, frame: Frame, last: u32) -> u32 {
        let number = self.links.len() as u32;
        let link = match last {
            0 => &mut self.links[caller as usize].first_child,
            last => &mut self.links[last as usize].next_sibling,
        };
        let next_sibling = std::mem::replace(link, number);
        let bit = 1 << (frame.function.wrapping_mul(0x9e37_79b9) >> 25);
        let functions = self.links[caller as usize].functions;
        let mut rest = if functions & bit == 0 { 0 } else { caller };
        while rest != 0 && self.branches[rest as usize].frame.function != frame.function {
            rest = self.branches[rest as usize].caller;
        }
        self.branches.push(Branch { caller, frame, is_outermost: rest == 0 });
        self.links.push(Link { first_child: 0, next_sibling, functions: functions | bit });
        number
    }
}

/// Whether a thread can begin in this space: it does not where nobody knows how the stack goes on.
fn begins(space: &Space) -> bool {
    !matches!(space, Space::Truncated(_) | Space::Unmapped { .. } | Space::Foreign(_))
}
