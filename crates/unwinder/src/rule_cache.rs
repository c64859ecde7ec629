//! Rules by location, for all processes at once.
//!
//! A rule is a fact of the object, not of the process that maps it: keyed by (object, file offset), it needs no
//! invalidation when mappings change, and the hundredth process of a build finds everything known already.
//!
//! Threads are sampled at ever new instructions of the same functions. What holds for a stretch of code is remembered as
//! such: to find the stretch is cheaper than to read the tables again, and cheaper still by the block of code that the place
//! is in. Of stretches, blocks and places there are many, of different rules there are few.

use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;

use model::FileOffset;

use crate::address_space::ObjectNumber;
use crate::rule::Rule;

/// The code that a rule is for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CodeLocation {
    pub(crate) object: ObjectNumber,
    /// The byte to look up: for a return address, the one before it.
    pub(crate) offset: FileOffset,
    /// True if it is the byte before a return address: signal trampolines are known by the bytes *at* theirs.
    pub(crate) is_call: bool,
}

impl CodeLocation {
    /// In one word, where that is enough: no file is as large as that. The remaining bits are the object's.
    fn key(self) -> Option<u64> {
        const OFFSET_BITS: u32 = 40;
        let Self { object: ObjectNumber(object), offset: FileOffset(offset), is_call } = self;
        let fits = offset >> OFFSET_BITS == 0 && u64::from(object) >> (63 - OFFSET_BITS) == 0;
        fits.then_some(u64::from(object) << (OFFSET_BITS + 1) | offset << 1 | u64::from(is_call))
    }

    /// The block that it lies in, by its first byte, and how far in.
    fn in_block(self) -> (Self, u8) {
        let within = self.offset.0 % BLOCK_BYTES;
        let first = FileOffset(self.offset.0 - within);
        (Self { offset: first, is_call: false, ..self }, within as u8)
    }
}

/// Beyond this many places (about 30 MB) all are forgotten; the few thousand that are in use come back at once.
const MAX_LOCATIONS: usize = 1 << 20;

/// Bytes of code that are looked up as one, a power of two.
const BLOCK_BYTES: u64 = 32;

/// The part of a block that was met last, of those that one stretch covers.
#[derive(Clone, Copy, Debug)]
struct BlockPart {
    /// From the block's beginning: the first byte, and the one behind the last.
    start: u8,
    end: u8,
    rule: Index,
}

/// The blocks met last, by [`CodeLocation::key`] of their first bytes. Each has one place that it can be in: a table this small stays in
/// a core's cache, which one that holds all blocks of a compiler does not.
#[derive(Default, Debug)]
struct Blocks(Vec<(u64, BlockPart)>);

/// Half a megabyte.
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
    /// Other bytes of the file that it is the rule for, whether as instructions or before return addresses.
    pub(crate) holds_in: Option<Range<FileOffset>>,
}

/// The position of a rule among the different ones.
type Index = u32;

#[derive(Default, Debug)]
pub(crate) struct RuleCache {
    /// The different rules.
    rules: Vec<Rule>,
    indices: HashMap<Rule, Index, FxBuildHasher>,
    /// By [`CodeLocation::key`]: those that lie in no stretch.
    locations: HashMap<u64, Index, FxBuildHasher>,
    blocks: Blocks,
    /// By object and first byte: the byte behind the last, and the rule.
    stretches: BTreeMap<(ObjectNumber, FileOffset), (FileOffset, Index)>,
}

impl RuleCache {
    /// The rule for a place; `find` finds one that is not known, or nothing that is worth keeping.
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
        // One bound is half as dear as two.
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

    /// More was found out about a place that lies in no stretch.
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

    /// Returns the number of known places and stretches.
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
