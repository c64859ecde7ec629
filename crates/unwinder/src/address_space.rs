//! The mappings of one process: which object lies at an address, and whether code can run there.

use alloc::vec::Vec;
use core::ops::Range;

use model::{Avma, FileOffset};

/// The caller's number for an object file (or image) that is mapped somewhere. Numbers are shared by all processes
/// that one [`crate::Unwinder`] serves, and never used again for another object.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct ObjectNumber(pub u32);

/// One mapping of an address space.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mapping {
    /// The addresses it covers.
    pub range: Range<Avma>,
    /// The offset in the file (or image) of the first byte.
    pub file_offset: FileOffset,
    /// The object that is mapped; `None` where none can be had (generated code, anonymous memory).
    pub object: Option<ObjectNumber>,
    /// True if code can run there.
    pub executable: bool,
}

impl Mapping {
    /// Returns the file offset of an address, which must be covered.
    pub fn file_offset_of(&self, address: u64) -> Option<FileOffset> {
        self.file_offset.checked_add(address.checked_sub(self.range.start.0)?)
    }
}

/// The mappings of one process, none overlapping.
#[derive(Clone, Default, Debug)]
pub struct AddressSpace {
    mappings: Vec<Mapping>,
}

impl AddressSpace {
    /// Adds a mapping. What it overlaps gives way, as with `mmap(2)` and `MAP_FIXED`; an empty range is ignored.
    pub fn insert(&mut self, mapping: Mapping) {
        let Range { start, end } = mapping.range;
        if start >= end {
            return;
        }
        if self.highest_address() <= start.0 {
            self.mappings.push(mapping);
            return;
        }
        let first = self.mappings.partition_point(|known| known.range.end <= start);
        let last = self.mappings.partition_point(|known| known.range.start < end).max(first);
        let overlapped = self.mappings.get(first..last).unwrap_or_default();
        let mut kept = Vec::new();
        if let Some(below) = overlapped.first()
            && below.range.start < start
        {
            kept.push(Mapping { range: below.range.start..start, ..below.clone() });
        }
        kept.push(mapping);
        if let Some(above) = overlapped.last()
            && above.range.end > end
            && let Some(file_offset) = above.file_offset_of(end.0)
        {
            kept.push(Mapping { range: end..above.range.end, file_offset, ..above.clone() });
        }
        self.mappings.splice(first..last, kept);
    }

    /// The mapping that covers `address`.
    pub fn find(&self, address: Avma) -> Option<&Mapping> {
        let index = self.mappings.partition_point(|known| known.range.end <= address);
        self.mappings.get(index).filter(|known| known.range.start <= address)
    }

    /// The end of the highest mapping (0 where there is none).
    pub(crate) fn highest_address(&self) -> u64 {
        self.mappings.last().map_or(0, |mapping| mapping.range.end.0)
    }

    /// The mappings, by address.
    pub fn mappings(&self) -> &[Mapping] {
        &self.mappings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapping(start: u64, end: u64, file_offset: u64, object: u32) -> Mapping {
        Mapping {
            range: Avma(start)..Avma(end),
            file_offset: FileOffset(file_offset),
            object: Some(ObjectNumber(object)),
            executable: true,
        }
    }

    #[test]
    fn a_newer_mapping_cuts_what_it_overlaps() {
        let mut space = AddressSpace::default();
        space.insert(mapping(0x1000, 0x5000, 0, 1));
        space.insert(mapping(0x2000, 0x3000, 0x100, 2));
        let object_at = |space: &AddressSpace, address| {
            space
                .find(Avma(address))
                .map(|found| (found.object.unwrap().0, found.file_offset_of(address).unwrap().0))
        };
        assert_eq!(object_at(&space, 0x1fff), Some((1, 0xfff)));
        assert_eq!(object_at(&space, 0x2000), Some((2, 0x100)));
        assert_eq!(object_at(&space, 0x3000), Some((1, 0x2000)));
        assert_eq!(object_at(&space, 0x5000), None);
        space.insert(mapping(0x0, 0x10000, 0, 3));
        assert_eq!(space.mappings().len(), 1);
        space.insert(mapping(0x20, 0x20, 0, 4));
        assert_eq!(space.mappings().len(), 1);
    }
}
