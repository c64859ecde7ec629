//! The places of stacks: distinct entries, each with a number.

use model::StackEntry;

use crate::index::Index;

/// The id of a distinct stack entry in a [`crate::StackTable`]. Each is symbolized once.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct PlaceId(u32);

impl PlaceId {
    /// Returns the position in [`crate::StackTable::places`].
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Places in [`Places::frequent`], 24 bytes each: they stay in the second-level cache. `flame` of 9.5 million samples of compilers
/// (`perf record -a -g -F 24000`) takes 7 % less CPU time with 8192 than with 2048, and no less with 32768.
const FREQUENT: usize = 8192;

/// Distinct entries of stacks, in the order in which they were met first.
#[derive(Clone, Default, Debug)]
pub(crate) struct Places {
    entries: Vec<StackEntry>,
    index: Index,
    /// Places looked up lately, by the low bits of their hash: the places of most frames are few, and the index does not fit into the
    /// processor's cache.
    frequent: Box<[(StackEntry, PlaceId)]>,
}

impl Places {
    /// Returns the number of an entry. Adds the entry if it is new.
    pub(crate) fn intern(&mut self, entry: StackEntry) -> PlaceId {
        let hash = self.hash_of(&entry);
        let slot = hash as usize % FREQUENT;
        if let Some((frequent, place)) = self.frequent.get(slot)
            && *frequent == entry
        {
            return *place;
        }
        let entries = &self.entries;
        let next = entries.len() as u32;
        let is = |number: u32| entries[number as usize] == entry;
        let number = self.index.find_or_add(hash, is, next);
        if number == next {
            // 2^32 places would need 64 GiB.
            self.entries.push(entry);
        }
        let place = PlaceId(number);
        if self.frequent.is_empty() {
            self.frequent = vec![(entry, place); FREQUENT].into_boxed_slice();
        } else if let Some(frequent) = self.frequent.get_mut(slot) {
            *frequent = (entry, place);
        }
        place
    }

    /// Returns the entries. A [`PlaceId`] is a position in this list.
    pub(crate) fn entries(&self) -> &[StackEntry] {
        &self.entries
    }

    /// Returns the entries with their numbers.
    pub(crate) fn numbered(&self) -> impl Iterator<Item = (PlaceId, &StackEntry)> {
        (0..).map(PlaceId).zip(&self.entries)
    }

    /// Frees the memory that only [`Self::intern`] needs.
    pub(crate) fn release_index(&mut self) {
        self.frequent = Box::default();
        self.index = Index::default();
    }

    /// Rebuilds the index if it was freed. Returns true if it was.
    pub(crate) fn restore_index(&mut self) -> bool {
        let is_released = self.index.is_empty() && !self.entries.is_empty();
        if is_released {
            for (number, entry) in (0..).zip(&self.entries) {
                self.index.find_or_add(self.hash_of(entry), |_| false, number);
            }
        }
        is_released
    }

    fn hash_of(&self, entry: &StackEntry) -> u64 {
        let StackEntry { offset, space, kind, in_kernel } = *entry;
        self.index.hash_of_pair(offset, u64::from(space.0) << 2 | (kind as u64) << 1 | u64::from(in_kernel))
    }
}
