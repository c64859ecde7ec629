use std::hash::BuildHasher;
use std::sync::Arc;

use hashbrown::{DefaultHashBuilder, HashTable};
use model::{Resolution, StackEntry};

/// The resolutions of stack entries, which outputs look names up in.
///
/// An entry takes some 30 bytes. Consecutive equal resolutions are stored once, and so are their frames where only the
/// offset in the function differs.
#[derive(Default)]
pub struct Resolutions {
    /// Each entry with the index of its resolution in `resolutions`.
    entries: Vec<(StackEntry, u32)>,
    resolutions: Vec<Resolution>,
    /// Indices into `entries`. The hash has a random key, because the profiled program chooses the addresses.
    positions: HashTable<u32>,
    hasher: DefaultHashBuilder,
}

impl Resolutions {
    /// Reserves memory for `more` further entries.
    pub fn reserve(&mut self, more: usize) {
        self.entries.reserve(more);
        let (entries, hasher) = (&self.entries, &self.hasher);
        self.positions.reserve(more, |&position| hash_at(entries, position, hasher));
    }

    /// Adds the resolution of an entry, unless the entry has one. Insert entries in ascending order, so that equal
    /// resolutions follow each other.
    pub fn insert(&mut self, entry: StackEntry, resolution: Resolution) {
        if self.position(&entry).is_some() {
            return;
        }
        // 2^32 entries do not fit into memory.
        let position = self.entries.len() as u32;
        let resolution = match (resolution, self.resolutions.last()) {
            (Resolution::Resolved(mut new), Some(Resolution::Resolved(last)))
                if new.frames == last.frames =>
            {
                new.frames = Arc::clone(&last.frames);
                Resolution::Resolved(new)
            }
            (resolution, _) => resolution,
        };
        if self.resolutions.last() != Some(&resolution) {
            self.resolutions.push(resolution);
        }
        self.entries.push((entry, (self.resolutions.len() - 1) as u32));
        let (entries, hasher) = (&self.entries, &self.hasher);
        let hash = |&position: &u32| hash_at(entries, position, hasher);
        self.positions.insert_unique(hasher.hash_one(entry), position, hash);
    }

    /// Returns the resolution of an entry; `None` if it has none.
    pub fn get(&self, entry: &StackEntry) -> Option<&Resolution> {
        let (_, answer) = self.entries.get(self.position(entry)?)?;
        self.resolutions.get(*answer as usize)
    }

    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns true if there is no entry.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn position(&self, entry: &StackEntry) -> Option<usize> {
        let is_entry =
            |&position: &u32| self.entries.get(position as usize).is_some_and(|(known, _)| known == entry);
        self.positions.find(self.hasher.hash_one(entry), is_entry).map(|&position| position as usize)
    }
}

fn hash_at(entries: &[(StackEntry, u32)], position: u32, hasher: &DefaultHashBuilder) -> u64 {
    entries.get(position as usize).map_or(0, |(entry, _)| hasher.hash_one(entry))
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{AddressKind, Frame, Reason, SpaceId, Symbolized};

    fn entry(offset: u64) -> StackEntry {
        StackEntry { offset, space: SpaceId(0), kind: AddressKind::ReturnAddress, in_kernel: false }
    }

    fn function(name: &str, offset: u64) -> Resolution {
        let frame = Frame { function: name.into(), location: None, inlined: false };
        Resolution::Resolved(Symbolized { frames: [frame].into(), symbol_offset: Some(offset) })
    }

    #[test]
    fn each_entry_has_its_first_answer_and_equal_ones_share_their_memory() {
        let mut resolutions = Resolutions::default();
        resolutions.reserve(2);
        for offset in 0..1000 {
            resolutions.insert(entry(offset), Resolution::Unresolved(Reason::Unmapped));
            resolutions.insert(entry(offset), Resolution::Unresolved(Reason::FileMissing));
        }
        for offset in 1000..2000 {
            resolutions.insert(entry(offset), function(if offset < 1500 { "a" } else { "b" }, offset));
        }
        assert_eq!((resolutions.len(), resolutions.resolutions.len()), (2000, 1001));
        let found = |offset| resolutions.get(&entry(offset)).unwrap();
        assert!((0..1000).all(|offset| *found(offset) == Resolution::Unresolved(Reason::Unmapped)));
        assert!((1500..2000).all(|offset| *found(offset) == function("b", offset)));
        let frames = |offset| match found(offset) {
            Resolution::Resolved(found) => found.frames.as_ptr(),
            _ => panic!("it has a name"),
        };
        assert!(frames(1000) == frames(1499) && frames(1499) != frames(1500));
        assert_eq!(resolutions.get(&entry(2000)), None);
    }
}
