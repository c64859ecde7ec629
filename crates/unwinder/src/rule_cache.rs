//! Rules by place, for all processes at once.
//!
//! A rule is a fact of the object, not of the process that maps it: keyed by (object, file offset), it needs no
//! invalidation when mappings change, and the hundredth process of a build finds everything known already.
//!
//! Threads are sampled at ever new instructions of the same functions. What holds for a stretch of code is remembered as
//! such: to find the stretch is cheaper than to read the tables again. Return addresses come again and again; each of them
//! is remembered by itself, too. Of all these places there are many, of different rules there are few.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::ops::Range;

use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;

use model::FileOffset;

use crate::address_space::ObjectNumber;
use crate::rule::Rule;

/// Which code a rule is for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) object: ObjectNumber,
    /// The byte to look up: for a return address, the one before it.
    pub(crate) offset: FileOffset,
    /// Whether it is the byte before a return address: signal trampolines are known by the bytes *at* theirs.
    pub(crate) is_call: bool,
}

impl Place {
    /// In one word, where that is enough: no file is as large as that. The remaining bits are the object's.
    fn key(self) -> Option<u64> {
        const OFFSET_BITS: u32 = 40;
        let Self { object: ObjectNumber(object), offset: FileOffset(offset), is_call } = self;
        let fits = offset >> OFFSET_BITS == 0 && u64::from(object) >> (63 - OFFSET_BITS) == 0;
        fits.then_some(u64::from(object) << (OFFSET_BITS + 1) | offset << 1 | u64::from(is_call))
    }
}

/// Beyond this many places (about 30 MB) all are forgotten; the few thousand that are in use come back at once.
const MOST_PLACES: usize = 1 << 20;

/// A rule as it is found in the tables.
#[derive(Clone, Debug)]
pub(crate) struct FoundRule {
    pub(crate) rule: Rule,
    /// Other bytes of the file that it is the rule for, whether as instructions or before return addresses.
    pub(crate) holds_in: Option<Range<FileOffset>>,
}

/// Where a rule is among the different ones.
type Index = u32;

#[derive(Default, Debug)]
pub(crate) struct RuleCache {
    /// The different rules.
    rules: Vec<Rule>,
    indices: HashMap<Rule, Index, FxBuildHasher>,
    /// By [`Place::key`].
    places: HashMap<u64, Index, FxBuildHasher>,
    /// By object and first byte: the byte behind the last, and the rule.
    stretches: BTreeMap<(ObjectNumber, FileOffset), (FileOffset, Index)>,
}

impl RuleCache {
    /// The rule for a place; `find` finds one that is not known, or nothing that is worth keeping.
    #[inline]
    pub(crate) fn get_or_find(
        &mut self,
        place: Place,
        find: impl FnOnce() -> Option<FoundRule>,
    ) -> Option<Rule> {
        let known = place.key().and_then(|key| self.places.get(&key));
        match known.and_then(|&index| self.rules.get(index as usize)) {
            Some(rule) => Some(rule.clone()),
            None => self.find(place, find),
        }
    }

    fn find(&mut self, place: Place, find: impl FnOnce() -> Option<FoundRule>) -> Option<Rule> {
        let Place { object, offset, is_call } = place;
        let before = self.stretches.range((object, FileOffset(0))..=(object, offset)).next_back();
        let known = before.filter(|(_, (end, _))| offset < *end).map(|(_, (_, index))| *index);
        let index = match known {
            Some(index) => index,
            None => {
                let FoundRule { rule, holds_in } = find()?;
                if self.len() >= MOST_PLACES {
                    *self = Self::default();
                }
                let index = self.index_of(rule);
                if let Some(Range { start, end }) = holds_in.filter(|range| range.contains(&offset)) {
                    self.stretches.insert((object, start), (end, index));
                }
                index
            }
        };
        if let Some(key) = place.key().filter(|_| is_call || known.is_none()) {
            self.places.insert(key, index);
        }
        self.rules.get(index as usize).cloned()
    }

    fn index_of(&mut self, rule: Rule) -> Index {
        let next = self.rules.len() as Index;
        let index = *self.indices.entry(rule.clone()).or_insert(next);
        if index == next {
            self.rules.push(rule);
        }
        index
    }

    /// How many places and stretches are known.
    pub(crate) fn len(&self) -> usize {
        self.places.len() + self.stretches.len()
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
            let place = Place { object: ObjectNumber(object), offset: FileOffset(offset), is_call };
            let rule = cache.get_or_find(place, || {
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
