//! Stacks, each kept once.

use model::StackEntry;

use crate::index::Index;
use crate::runs::Callers;

/// A stack in a [`StackTable`]. The empty stack is [`StackId::EMPTY`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct StackId(u32);

/// A place (an entry that occurs in some stack) in a [`StackTable`]: what has to be symbolized, once.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PlaceId(u32);

impl StackId {
    /// The stack without entries.
    pub const EMPTY: Self = Self(0);

    /// The position among all stacks, callers before what they call.
    pub fn index(self) -> usize {
        self.0 as usize
    }

    /// The stack after this one, which lies on top of it where both are of one run.
    pub(crate) fn next_of_run(self) -> Self {
        Self(self.0 + 1)
    }

    /// The stack at a position, which is one of a table's.
    pub(crate) fn from_index(index: usize) -> Self {
        Self(index as u32)
    }
}

impl PlaceId {
    /// The position in [`StackTable::places`].
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Stacks that were added together, each on top of the one before: their numbers follow each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Run {
    /// Counted from 0, the run of the empty stack.
    pub(crate) number: usize,
    /// The first of them.
    pub(crate) first: StackId,
}

fn hash_of_entry(index: &Index, entry: &StackEntry) -> u64 {
    let StackEntry { offset, space, kind, in_kernel } = *entry;
    index.hash_of_pair(offset, u64::from(space.0) << 2 | (kind as u64) << 1 | u64::from(in_kernel))
}

fn hash_of_branch(index: &Index, caller: StackId, place: PlaceId) -> u64 {
    index.hash_of_pair(caller.0.into(), place.0.into())
}

/// The number of recent stacks that a new one is compared with: about the number of threads that run at a time.
const RECENT: usize = 8;

/// Places in [`StackTable::frequent`], 24 bytes each: they stay in the second-level cache. `flame` of 956,396 samples of compilers
/// (`perf record -a -g`) takes 3 % less CPU time with them.
const FREQUENT_PLACES: usize = 2048;

/// All stacks as one tree, outermost entries at its root: a stack costs what it does not share with others, four bytes
/// an entry.
///
/// What a stack adds to the tree is a run of nodes, each on top of the one before; so neither the caller nor the first
/// callee of a node needs to be written down. Only where a run leaves another one is there more.
#[derive(Debug)]
pub struct StackTable {
    places: Vec<StackEntry>,
    place_index: Index,
    /// Places looked up lately, by the low bits of their hash: the places of most frames are few, and the index does not fit into the
    /// processor's cache.
    frequent: Box<[(StackEntry, PlaceId)]>,
    /// The innermost entry of each stack. Number 0 is the empty stack.
    innermost: Vec<PlaceId>,
    callers: Callers,
    /// The first nodes of runs, by the place and the caller.
    branches: Index,
    /// Stacks interned lately, outermost entry first: the next one is likely to begin like one of them, the one of
    /// its own thread.
    recent: [Vec<(StackEntry, StackId)>; RECENT],
    /// The position in `recent` of the latest, and below it that of the one replaced last.
    latest: usize,
    replaced: usize,
}

impl Default for StackTable {
    fn default() -> Self {
        Self {
            places: Vec::new(),
            place_index: Index::default(),
            frequent: Box::default(),
            innermost: vec![PlaceId(0)],
            callers: Callers::default(),
            branches: Index::default(),
            recent: Default::default(),
            latest: 0,
            replaced: 0,
        }
    }
}

impl StackTable {
    /// The id of the stack with these entries, innermost first.
    pub fn intern(&mut self, entries: &[StackEntry]) -> StackId {
        if self.place_index.is_empty() && !self.places.is_empty() {
            self.restore_indexes();
        }
        let outermost_first = || entries.iter().rev();
        let alike = |recent: &[(StackEntry, StackId)]| {
            recent.iter().zip(outermost_first()).take_while(|((known, _), entry)| known == *entry).count()
        };
        // Half alike is as good as the same thread; else a recent stack of another thread would be lost.
        let mut places = (self.latest..RECENT).chain(0..self.latest);
        let same_thread = places.find_map(|place| {
            let length = alike(&self.recent[place]);
            (length > 0 && length * 2 >= self.recent[place].len()).then_some((place, length))
        });
        let (latest, length) = same_thread.unwrap_or_else(|| {
            self.replaced = (self.replaced + 1) % RECENT;
            (self.replaced, alike(&self.recent[self.replaced]))
        });
        self.latest = latest;
        let mut recent = std::mem::take(&mut self.recent[latest]);
        recent.truncate(length);
        let mut stack = recent.last().map_or(StackId::EMPTY, |&(_, stack)| stack);
        for &entry in outermost_first().skip(recent.len()) {
            let place = self.place(entry);
            stack = self.callee(stack, place);
            recent.push((entry, stack));
        }
        self.recent[latest] = recent;
        stack
    }

    /// Gives memory back that only [`StackTable::intern`] needs, until it is called again.
    pub fn release_indexes(&mut self) {
        self.recent = Default::default();
        self.frequent = Box::default();
        self.place_index = Index::default();
        self.branches = Index::default();
    }

    /// Makes the indexes anew where they were given back.
    fn restore_indexes(&mut self) {
        for (number, entry) in (0..).zip(&self.places) {
            self.place_index.find_or_add(hash_of_entry(&self.place_index, entry), |_| false, number);
        }
        for stack in (1..self.innermost.len()).map(StackId::from_index) {
            let (place, caller) = (self.innermost[stack.index()], self.caller(stack));
            if caller.index() + 1 != stack.index() {
                self.branches.find_or_add(hash_of_branch(&self.branches, caller, place), |_| false, stack.0);
            }
        }
    }

    /// All entries that occur, each once. A [`PlaceId`] is a position in this list.
    pub fn places(&self) -> &[StackEntry] {
        &self.places
    }

    /// Returns the number of stacks, the empty one and each caller's part included: all [`StackId::index`]es are
    /// below.
    pub fn len(&self) -> usize {
        self.innermost.len()
    }

    /// Returns true if no stack has an entry.
    pub fn is_empty(&self) -> bool {
        self.innermost.len() == 1
    }

    /// The innermost entry of a stack, and the stack without it; `None` for the empty stack.
    pub fn split(&self, stack: StackId) -> Option<(PlaceId, StackId)> {
        if stack == StackId::EMPTY {
            return None;
        }
        let place = *self.innermost.get(stack.index())?;
        Some((place, self.caller(stack)))
    }

    /// The entries of a stack, innermost first.
    pub fn entries(&self, stack: StackId) -> impl Iterator<Item = PlaceId> {
        let mut rest = stack;
        core::iter::from_fn(move || {
            let (place, caller) = self.split(rest)?;
            rest = caller;
            Some(place)
        })
    }

    /// All stacks but the empty one with their innermost entry and their caller, callers first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (StackId, PlaceId, StackId)> {
        self.iter_from(1)
    }

    /// [`StackTable::iter`] from a position on: what came since there were so many.
    pub fn iter_from(&self, first: usize) -> impl DoubleEndedIterator<Item = (StackId, PlaceId, StackId)> {
        (first.max(1)..self.innermost.len()).map(|index| {
            let stack = StackId::from_index(index);
            (stack, self.innermost[index], self.caller(stack))
        })
    }

    /// The stack without its innermost entry; the empty stack's is the empty stack.
    pub(crate) fn caller(&self, stack: StackId) -> StackId {
        StackId(self.callers.of(stack.0))
    }

    /// The run of a stack.
    pub(crate) fn run(&self, stack: StackId) -> Run {
        let (number, first) = self.callers.run(stack.0);
        Run { number, first: StackId(first) }
    }

    /// Returns the number of runs.
    pub(crate) fn runs(&self) -> usize {
        self.callers.runs()
    }

    fn place(&mut self, entry: StackEntry) -> PlaceId {
        let hash = hash_of_entry(&self.place_index, &entry);
        let slot = hash as usize % FREQUENT_PLACES;
        if let Some((frequent, place)) = self.frequent.get(slot)
            && *frequent == entry
        {
            return *place;
        }
        let places = &self.places;
        let next = places.len() as u32;
        let is = |number: u32| places[number as usize] == entry;
        let number = self.place_index.find_or_add(hash, is, next);
        if number == next {
            // 2^32 places would need 64 GiB.
            self.places.push(entry);
        }
        let place = PlaceId(number);
        if self.frequent.is_empty() {
            self.frequent = vec![(entry, place); FREQUENT_PLACES].into_boxed_slice();
        } else if let Some(frequent) = self.frequent.get_mut(slot) {
            *frequent = (entry, place);
        }
        place
    }

    /// The stack with one entry more, the innermost.
    pub fn push(&mut self, caller: StackId, entry: StackEntry) -> StackId {
        if self.place_index.is_empty() && !self.places.is_empty() {
            self.restore_indexes();
        }
        let place = self.place(entry);
        self.callee(caller, place)
    }

    /// The stack with the entry `place` on top of `caller`.
    fn callee(&mut self, caller: StackId, place: PlaceId) -> StackId {
        // Each node takes 4 bytes and a place 16: memory ends before the numbers do.
        let next = self.innermost.len() as u32;
        let follower = caller.0 + 1;
        if follower == next {
            // Nothing came after the caller: it calls nothing yet.
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
