use std::hash::BuildHasher;
use std::sync::Arc;

use hashbrown::DefaultHashBuilder;
use hashbrown::hash_table::{Entry as TableEntry, HashTable};
use model::{Resolution, StackEntry};

/// The resolutions of stack entries, which outputs look names up in.
///
/// An entry takes 30 to 60 bytes. Consecutive equal resolutions are stored once, and so are their frames where only the
/// offset in the function differs.
#[derive(Default)]
pub struct Resolutions {
    /// The hash has a random key, because the profiled program chooses the addresses.
    slots: HashTable<Slot>,
    hasher: DefaultHashBuilder,
    resolutions: Vec<Resolution>,
}

/// An entry with the index of its resolution. Entries lie in the table itself: a lookup then misses the cache once less
/// than with a table of indices.
struct Slot {
    entry: StackEntry,
    resolution: u32,
}

impl Resolutions {
    /// Reserves memory for `more` further entries.
    pub fn reserve(&mut self, more: usize) {
        let hasher = &self.hasher;
        self.slots.reserve(more, |slot| hash(&slot.entry, hasher));
    }

    /// Adds the resolution of an entry, unless the entry has one. Insert entries in ascending order, so that equal
    /// resolutions follow each other.
    pub fn insert(&mut self, entry: StackEntry, resolution: Resolution) {
        let Self { slots, hasher, resolutions } = self;
        let slot =
            slots.entry(hash(&entry, hasher), |slot| slot.entry == entry, |slot| hash(&slot.entry, hasher));
        let TableEntry::Vacant(slot) = slot else { return };
        let resolution = match (resolution, resolutions.last()) {
            (Resolution::Resolved(mut new), Some(Resolution::Resolved(last)))
                if new.frames == last.frames =>
            {
                new.frames = Arc::clone(&last.frames);
                Resolution::Resolved(new)
            }
            (resolution, _) => resolution,
        };
        if resolutions.last() != Some(&resolution) {
            resolutions.push(resolution);
        }
        // 2^32 entries do not fit into memory.
        slot.insert(Slot { entry, resolution: (resolutions.len() - 1) as u32 });
    }

    /// Returns the resolution of an entry; `None` if it has none.
    pub fn get(&self, entry: &StackEntry) -> Option<&Resolution> {
        let slot = self.slots.find(hash(entry, &self.hasher), |slot| slot.entry == *entry)?;
        self.resolutions.get(slot.resolution as usize)
    }

    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Returns true if there is no entry.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }
}

/// Hashes an entry as two numbers, which takes a third of the time of its four fields.
fn hash(entry: &StackEntry, hasher: &DefaultHashBuilder) -> u64 {
    let rest = u64::from(entry.space.0) << 32 | u64::from(entry.in_kernel) << 8 | entry.kind as u64;
    hasher.hash_one((entry.offset, rest))
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
