//! Stacks, each kept once.

use model::StackEntry;

use crate::index::{Children, Index, hash_of_pair};

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

/// A stack: an entry on top of another stack.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Node {
    caller: StackId,
    place: PlaceId,
}

impl Node {
    fn hash(&self) -> u64 {
        hash_of_pair(self.caller.0.into(), self.place.0.into())
    }
}

fn hash_of_entry(entry: &StackEntry) -> u64 {
    let StackEntry { offset, space, kind, in_kernel } = *entry;
    hash_of_pair(offset, u64::from(space.0) << 2 | (kind as u64) << 1 | u64::from(in_kernel))
}

/// How many recent stacks a new one is compared with: about the number of threads that run at a time.
const RECENT: usize = 8;

/// All stacks as one tree, outermost entries at its root: a stack costs what it does not share with others.
#[derive(Debug)]
pub struct StackTable {
    places: Vec<StackEntry>,
    place_index: Index,
    /// Node 0 stands for the empty stack.
    nodes: Vec<Node>,
    children: Children,
    /// Stacks interned lately, outermost entry first: the next one is likely to begin like one of them, the one of
    /// its own thread.
    recent: [Vec<(StackEntry, StackId)>; RECENT],
    /// Which of `recent` is the latest, and which was the latest to be replaced.
    latest: usize,
    replaced: usize,
}

impl Default for StackTable {
    fn default() -> Self {
        Self {
            places: Vec::new(),
            place_index: Index::default(),
            nodes: vec![Node { caller: StackId::EMPTY, place: PlaceId(0) }],
            children: Children::default(),
            recent: Default::default(),
            latest: 0,
            replaced: 0,
        }
    }
}

impl StackTable {
    /// The id of the stack with these entries, innermost first.
    pub fn intern(&mut self, entries: &[StackEntry]) -> StackId {
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
            stack = self.push(Node { caller: stack, place });
            recent.push((entry, stack));
        }
        self.recent[latest] = recent;
        stack
    }

    /// All entries that occur, each once. A [`PlaceId`] is a position in this list.
    pub fn places(&self) -> &[StackEntry] {
        &self.places
    }

    /// How many stacks there are, the empty one and each caller's part included: all [`StackId::index`]es are below.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether no stack has an entry.
    pub fn is_empty(&self) -> bool {
        self.nodes.len() == 1
    }

    /// The innermost entry of a stack, and the stack without it; `None` for the empty stack.
    pub fn split(&self, stack: StackId) -> Option<(PlaceId, StackId)> {
        if stack == StackId::EMPTY {
            return None;
        }
        self.nodes.get(stack.index()).map(|node| (node.place, node.caller))
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
        let nodes = self.nodes.iter().enumerate().skip(first.max(1));
        nodes.map(|(index, node)| (StackId::from_index(index), node.place, node.caller))
    }

    fn place(&mut self, entry: StackEntry) -> PlaceId {
        let places = &self.places;
        let next = places.len() as u32;
        let is = |number: u32| places[number as usize] == entry;
        let number = self.place_index.find_or_add(hash_of_entry(&entry), is, next);
        if number == next {
            // 2^32 places would need 64 GiB.
            self.places.push(entry);
        }
        PlaceId(number)
    }

    fn push(&mut self, node: Node) -> StackId {
        let nodes = &self.nodes;
        let is = |number: u32| nodes[number as usize] == node;
        let number = self.children.find_or_add(node.caller.0, node.hash(), is);
        if number as usize == self.nodes.len() {
            self.nodes.push(node);
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
            stacks in prop::collection::vec(prop::collection::vec(0_u64..12, 0..6), 1..100),
        ) {
            let mut table = StackTable::default();
            let mut known = std::collections::HashMap::new();
            for offsets in &stacks {
                let entries: Vec<_> = offsets.iter().map(|&offset| entry(offset)).collect();
                let id = table.intern(&entries);
                prop_assert_eq!(*known.entry(offsets).or_insert(id), id);
                let back: Vec<_> = table.entries(id).map(|place| table.places()[place.index()]).collect();
                prop_assert_eq!(back, entries);
            }
            let distinct: std::collections::HashSet<_> = known.values().collect();
            prop_assert_eq!(distinct.len(), known.len());
        }
    }
}
