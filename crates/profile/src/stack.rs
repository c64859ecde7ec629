//! The table of stacks, which stores each stack once.

use model::StackEntry;

use crate::index::Index;
use crate::places::{PlaceId, Places};
use crate::runs::Callers;

/// A stack in a [`StackTable`]. The empty stack is [`StackId::EMPTY`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct StackId(u32);

impl StackId {
    /// The stack without entries.
    pub const EMPTY: Self = Self(0);

    /// Returns the position among all stacks. A stack comes after its caller.
    pub fn index(self) -> usize {
        self.0 as usize
    }

    /// Returns the stack with the next number. It is a callee of this stack if both belong to one run.
    pub(crate) fn next_of_run(self) -> Self {
        Self(self.0 + 1)
    }

    /// Returns the id of the stack at a position, which must exist in the table.
    pub(crate) fn from_index(index: usize) -> Self {
        Self(index as u32)
    }
}

fn hash_of_branch(index: &Index, caller: StackId, place: PlaceId) -> u64 {
    index.hash_of_pair(caller.0.into(), place.index() as u64)
}

/// The number of recent stacks that a new one is compared with: about the number of threads that run at a time.
const RECENT: usize = 8;

/// All stacks as one tree, with the outermost entries at its root. A stack takes four bytes for each entry that it does not
/// share with another stack.
///
/// A new stack adds a run of nodes to the tree, and each node of a run is the caller of the next. So the caller and the first
/// callee of a node follow from its number. Only the first node of a run stores its caller.
#[derive(Clone, Debug)]
pub struct StackTable {
    places: Places,
    /// The innermost entry of each stack. Number 0 is the empty stack.
    innermost: Vec<PlaceId>,
    callers: Callers,
    /// Finds the first node of a run by its caller and its innermost entry.
    branches: Index,
    /// Stacks interned lately, outermost entry first. The next stack probably shares its outermost entries with one of
    /// them: the previous stack of its thread.
    recent: [Vec<(StackEntry, StackId)>; RECENT],
    /// The position in `recent` of the stack interned last.
    latest: usize,
    /// The position in `recent` that was replaced last.
    replaced: usize,
    /// The places of the entries that were interned last. A field so that its allocation is reused.
    interned: Vec<PlaceId>,
}

impl Default for StackTable {
    fn default() -> Self {
        Self {
            places: Places::default(),
            innermost: vec![PlaceId::default()],
            callers: Callers::default(),
            branches: Index::default(),
            recent: Default::default(),
            latest: 0,
            replaced: 0,
            interned: Vec::new(),
        }
    }
}

impl StackTable {
    /// Returns the id of the stack with these entries, innermost first. Adds the stack if it is new.
    pub fn intern(&mut self, entries: &[StackEntry]) -> StackId {
        self.restore_indexes();
        let outermost_first = || entries.iter().rev();
        let shared_length = |recent: &[(StackEntry, StackId)]| {
            recent.iter().zip(outermost_first()).take_while(|((known, _), entry)| known == *entry).count()
        };
        // A new stack replaces a recent one if it shares at least half of that one's entries: they are probably of the same thread.
        let mut places = (self.latest..RECENT).chain(0..self.latest);
        let same_thread = places.find_map(|place| {
            let length = shared_length(&self.recent[place]);
            (length > 0 && length * 2 >= self.recent[place].len()).then_some((place, length))
        });
        let (latest, length) = same_thread.unwrap_or_else(|| {
            self.replaced = (self.replaced + 1) % RECENT;
            (self.replaced, shared_length(&self.recent[self.replaced]))
        });
        self.latest = latest;
        self.recent[latest].truncate(length);
        let mut stack = self.recent[latest].last().map_or(StackId::EMPTY, |&(_, stack)| stack);
        // All places first: finding one does not wait for another, as finding a callee waits for its caller.
        self.interned.clear();
        for &entry in outermost_first().skip(length) {
            self.interned.push(self.places.intern(entry));
        }
        for (index, &entry) in outermost_first().skip(length).enumerate() {
            stack = self.callee(stack, self.interned[index]);
            self.recent[latest].push((entry, stack));
        }
        stack
    }

    /// Frees the memory that only [`StackTable::intern`] and [`StackTable::push`] need. Their next call rebuilds it.
    pub fn release_indexes(&mut self) {
        self.recent = Default::default();
        self.places.release_index();
        self.branches = Index::default();
    }

    /// Rebuilds the indexes, where [`StackTable::release_indexes`] has freed them.
    fn restore_indexes(&mut self) {
        if !self.places.restore_index() {
            return;
        }
        for stack in (1..self.innermost.len()).map(StackId::from_index) {
            let (place, caller) = (self.innermost[stack.index()], self.caller(stack));
            if caller.index() + 1 != stack.index() {
                self.branches.find_or_add(hash_of_branch(&self.branches, caller, place), |_| false, stack.0);
            }
        }
    }

    /// Returns the distinct entries of all stacks. A [`PlaceId`] is a position in this list.
    pub fn places(&self) -> &[StackEntry] {
        self.places.entries()
    }

    /// Returns the entries of [`StackTable::places`] with their ids.
    pub fn numbered_places(&self) -> impl Iterator<Item = (PlaceId, &StackEntry)> {
        self.places.numbered()
    }

    /// Returns the number of stacks, including the empty stack and all callers. Every [`StackId::index`] is less than this.
    pub fn len(&self) -> usize {
        self.innermost.len()
    }

    /// Returns true if no stack has an entry.
    pub fn is_empty(&self) -> bool {
        self.innermost.len() == 1
    }

    /// Returns the innermost entry of a stack, and the stack without it; `None` for the empty stack.
    pub fn split(&self, stack: StackId) -> Option<(PlaceId, StackId)> {
        if stack == StackId::EMPTY {
            return None;
        }
        let place = *self.innermost.get(stack.index())?;
        Some((place, self.caller(stack)))
    }

    /// Returns the entries of a stack, innermost first.
    pub fn entries(&self, stack: StackId) -> impl Iterator<Item = PlaceId> {
        let mut rest = stack;
        core::iter::from_fn(move || {
            let (place, caller) = self.split(rest)?;
            rest = caller;
            Some(place)
        })
    }

    /// Returns all stacks but the empty one, each with its innermost entry and its caller. A stack comes after its caller.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (StackId, PlaceId, StackId)> {
        (1..self.innermost.len()).map(|index| {
            let stack = StackId::from_index(index);
            (stack, self.innermost[index], self.caller(stack))
        })
    }

    /// Returns the stack without its innermost entry; the empty stack for the empty stack.
    pub(crate) fn caller(&self, stack: StackId) -> StackId {
        StackId(self.callers.of(stack.0))
    }

    /// Returns the number of the run that a stack belongs to: stacks with consecutive numbers, each the caller of the next. The run of
    /// the empty stack is number 0.
    #[inline]
    pub(crate) fn run(&self, stack: StackId) -> usize {
        self.callers.run(stack.0)
    }

    /// Returns the first stack of a run.
    pub(crate) fn first_of_run(&self, run: usize) -> StackId {
        StackId(self.callers.start(run))
    }

    /// Returns the number of runs.
    pub(crate) fn runs(&self) -> usize {
        self.callers.runs()
    }

    /// Returns the id of `caller` with `entry` added as the innermost entry. Adds the stack if it is new.
    pub fn push(&mut self, caller: StackId, entry: StackEntry) -> StackId {
        self.restore_indexes();
        let place = self.places.intern(entry);
        self.callee(caller, place)
    }

    /// Returns the stack with the entry `place` on top of `caller`. Adds it if it is new.
    fn callee(&mut self, caller: StackId, place: PlaceId) -> StackId {
        // A node takes 4 bytes and a place 16, so memory runs out before the 32-bit numbers do.
        let next = self.innermost.len() as u32;
        let follower = caller.0 + 1;
        if follower == next {
            // The caller is the newest node, so it has no callee yet: the run continues.
            self.callers.push_follower();
            self.innermost.push(place);
            return StackId(next);
        }
        let Self { innermost, callers, branches, .. } = self;
        if innermost[follower as usize] == place && callers.of(follower) == caller.0 {
            return StackId(follower);
        }
        let is = |number: u32| innermost[number as usize] == place && callers.of(number) == caller.0;
        let number = branches.find_or_add(hash_of_branch(branches, caller, place), is, next);
        if number == next {
            self.callers.push_branch(caller.0);
            self.innermost.push(place);
        }
        StackId(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::entry;
    use proptest::prelude::*;

    #[test]
    fn equal_stacks_are_one_and_share_their_callers() {
        let mut table = StackTable::default();
        let (a, b, c) = (entry(1), entry(2), entry(3));
        let ba = table.intern(&[b, a]);
        let ca = table.intern(&[c, a]);
        assert_ne!(ba, ca);
        assert_eq!(table.intern(&[b, a]), ba);
        assert_eq!(table.intern(&[]), StackId::EMPTY);
        assert_eq!(table.places().len(), 3);
        assert_eq!(table.len(), 4, "the empty stack, a, ba, ca");
        assert_eq!(table.split(ba).unwrap().1, table.split(ca).unwrap().1);
    }

    proptest! {
        #[test]
        fn stacks_come_back_as_they_went_in(
            stacks in prop::collection::vec((prop::collection::vec(0_u64..12, 0..6), prop::bool::weighted(0.1)), 1..100),
        ) {
            let mut table = StackTable::default();
            let mut known = std::collections::HashMap::new();
            for (offsets, pause) in &stacks {
                if *pause {
                    table.release_indexes();
                }
                let entries: Vec<_> = offsets.iter().map(|&offset| entry(offset)).collect();
                let id = table.intern(&entries);
                prop_assert_eq!(*known.entry(offsets).or_insert(id), id);
                let back: Vec<_> = table.entries(id).map(|place| table.places()[place.index()]).collect();
                prop_assert_eq!(back, entries);
            }
            for (stack, place, caller) in table.iter() {
                prop_assert_eq!(table.split(stack), Some((place, caller)));
                prop_assert!(caller < stack);
            }
            let distinct: std::collections::HashSet<_> = known.values().collect();
            prop_assert_eq!(distinct.len(), known.len());
        }
    }
}
