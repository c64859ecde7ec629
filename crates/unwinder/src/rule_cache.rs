//! Caches unwind rules by code location, for all processes.
//!
//! A rule is a property of the object, not of the process that maps it. The keys are (object, file offset), so that mappings may change
//! without invalidating rules, and the hundredth process of a build finds all rules cached.
//!
//! Threads are sampled at ever new instructions of the same functions. A rule that holds for a range of code (a stretch) is cached for
//! all of it. Finding the stretch is cheaper than reading the tables again; finding it by the aligned block of code around the location
//! is cheaper still. Stretches, blocks and locations are many, different rules are few.

use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;

use model::FileOffset;

use crate::address_space::ObjectNumber;
use crate::rule::Rule;

/// A byte of code in an object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CodeLocation {
    pub(crate) object: ObjectNumber,
    /// The byte to look up: for a return address, the one before it.
    pub(crate) offset: FileOffset,
    /// True if it is the byte before a return address: signal trampolines are known by the bytes *at* theirs.
    pub(crate) is_call: bool,
}

impl CodeLocation {
    /// Packs the location into one word. Returns `None` where its numbers are too large, as those of no real file are.
    fn key(self) -> Option<u64> {
        const OFFSET_BITS: u32 = 40;
        let Self { object: ObjectNumber(object), offset: FileOffset(offset), is_call } = self;
        let fits = offset >> OFFSET_BITS == 0 && u64::from(object) >> (63 - OFFSET_BITS) == 0;
        fits.then_some(u64::from(object) << (OFFSET_BITS + 1) | offset << 1 | u64::from(is_call))
    }

    /// Returns the first byte of the block that holds the location, and the offset in the block.
    fn in_block(self) -> (Self, u8) {
        let within = self.offset.0 % BLOCK_BYTES;
        let first = FileOffset(self.offset.0 - within);
        (Self { offset: first, is_call: false, ..self }, within as u8)
    }
}

/// The maximum number of locations and stretches, which take about 30 MB. Beyond it all are dropped; the few thousand in use come back at
/// once.
const MAX_LOCATIONS: usize = 1 << 20;

/// The size of a block of code; a power of two.
const BLOCK_BYTES: u64 = 32;

/// The part of a block that one stretch covers.
#[derive(Clone, Copy, Debug)]
struct BlockPart {
    /// The first byte of the part, counted from the block's beginning.
    start: u8,
    /// The byte behind the last one.
    end: u8,
    rule: Index,
}

/// The newest part of each block, by [`CodeLocation::key`] of the block's first byte. Each block has one slot, which others share: a table
/// this small stays in a core's cache, where one with all blocks of a compiler would not.
#[derive(Default, Debug)]
struct Blocks(Vec<(u64, BlockPart)>);

/// The binary logarithm of the number of slots, which take half a megabyte.
const BLOCK_SLOTS_BITS: u32 = 15;

impl Blocks {
    fn slot(key: u64) -> usize {
        (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - BLOCK_SLOTS_BITS)) as usize
    }

    #[inline]
    fn get(&self, key: u64) -> Option<BlockPart> {
        self.0.get(Self::slot(key)).filter(|(known, _)| *known == key).map(|(_, part)| *part)
    }

    fn insert(&mut self, key: u64, part: BlockPart) {
        if self.0.is_empty() {
            self.0 = vec![(0, BlockPart { start: 0, end: 0, rule: 0 }); 1 << BLOCK_SLOTS_BITS];
        }
        if let Some(slot) = self.0.get_mut(Self::slot(key)) {
            *slot = (key, part);
        }
    }
}

/// A rule as it is found in the tables.
#[derive(Clone, Debug)]
pub(crate) struct FoundRule {
    pub(crate) rule: Rule,
    /// The range of the file for which the rule holds, for instructions and for bytes before return addresses.
    pub(crate) holds_in: Option<Range<FileOffset>>,
}

/// The position of a rule among the different ones.
type Index = u32;

#[derive(Default, Debug)]
pub(crate) struct RuleCache {
    /// The different rules.
    rules: Vec<Rule>,
    indices: HashMap<Rule, Index, FxBuildHasher>,
    /// Rules of locations outside stretches, by [`CodeLocation::key`].
    locations: HashMap<u64, Index, FxBuildHasher>,
    blocks: Blocks,
    /// Stretches by object and first byte: the byte behind the last one, and the rule.
    stretches: BTreeMap<(ObjectNumber, FileOffset), (FileOffset, Index)>,
}

impl RuleCache {
    /// Returns the rule for a location. Calls `find` for one that is not cached; nothing is cached where that returns `None`.
    #[inline]
    pub(crate) fn get_or_find(
        &mut self,
        location: CodeLocation,
        find: impl FnOnce() -> Option<FoundRule>,
    ) -> Option<Rule> {
        let (block, offset) = location.in_block();
        let part = block.key().and_then(|key| self.blocks.get(key));
        let part = part.filter(|part| (part.start..part.end).contains(&offset));
        let index = part.map(|part| part.rule).or_else(|| self.locations.get(&location.key()?).copied());
        match index.and_then(|index| self.rules.get(index as usize)) {
            Some(rule) => Some(rule.clone()),
            None => self.find(location, find),
        }
    }

    fn find(&mut self, location: CodeLocation, find: impl FnOnce() -> Option<FoundRule>) -> Option<Rule> {
        let CodeLocation { object, offset, .. } = location;
        // A range with one bound takes half as long as one with two.
        let before = self.stretches.range(..=(object, offset)).next_back();
        let known = before.filter(|((its, _), (end, _))| *its == object && offset < *end);
        let known = known.map(|((_, start), (end, index))| (*start..*end, *index));
        let (stretch, index) = match known {
            Some((stretch, index)) => (Some(stretch), index),
            None => {
                let FoundRule { rule, holds_in } = find()?;
                if self.len() >= MAX_LOCATIONS {
                    *self = Self::default();
                }
                let index = self.index_of(rule);
                let stretch = holds_in.filter(|range| range.contains(&offset));
                if let Some(Range { start, end }) = stretch {
                    self.stretches.insert((object, start), (end, index));
                }
                (stretch, index)
            }
        };
        match stretch {
            Some(Range { start, end }) => {
                let (block, _) = location.in_block();
                let within =
                    |bound: FileOffset| bound.0.saturating_sub(block.offset.0).min(BLOCK_BYTES) as u8;
                let part = BlockPart { start: within(start), end: within(end), rule: index };
                if let Some(key) = block.key() {
                    self.blocks.insert(key, part);
                }
            }
            None => self.set(location, index),
        }
        self.rules.get(index as usize).cloned()
    }

    /// Replaces the rule of a location outside stretches.
    pub(crate) fn replace(&mut self, location: CodeLocation, rule: Rule) {
        let index = self.index_of(rule);
        self.set(location, index);
    }

    fn set(&mut self, location: CodeLocation, index: Index) {
        self.locations.extend(location.key().map(|key| (key, index)));
    }

    fn index_of(&mut self, rule: Rule) -> Index {
        let next = self.rules.len() as Index;
        let index = *self.indices.entry(rule.clone()).or_insert(next);
        if index == next {
            self.rules.push(rule);
        }
        index
    }

    /// Returns the number of cached locations and stretches.
    pub(crate) fn len(&self) -> usize {
        self.locations.len() + self.stretches.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stretch_is_found_once_for_all_its_bytes() {
        let mut cache = RuleCache::default();
        let mut ask = |object, offset, is_call, holds_in: Option<Range<u64>>| {
            let mut found = false;
            let location = CodeLocation { object: ObjectNumber(object), offset: FileOffset(offset), is_call };
            let rule = cache.get_or_find(location, || {
                found = true;
                let holds_in = holds_in.map(|range| FileOffset(range.start)..FileOffset(range.end));
                Some(FoundRule { rule: Rule::Malformed, holds_in })
            });
            assert!(matches!(rule, Some(Rule::Malformed)));
            found
        };
        assert!(ask(1, 0x120, false, Some(0x100..0x140)));
        assert!(!ask(1, 0x100, true, None) && !ask(1, 0x13f, false, None));
        assert!(ask(1, 0x140, false, None), "behind its end");
        assert!(ask(1, 0xff, false, None), "before it");
        assert!(ask(2, 0x120, false, None) && ask(0, 0x120, false, None), "in another object");
        assert!(ask(1, 0x200, false, Some(0x300..0x400)), "a stretch elsewhere");
        assert!(ask(1, 0x300, false, None), "is not believed");
        assert!(!ask(1, 0x300, false, None) && ask(1, 0x300, true, None), "a place alone");
    }
}
