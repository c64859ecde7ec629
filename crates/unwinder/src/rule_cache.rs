//! Rules by place, for all processes at once.
//!
//! A rule is a fact of the object, not of the process that maps it: keyed by (object, file offset), it needs no
//! invalidation when mappings change, and the hundredth process of a build finds everything known already.

use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;

use model::FileOffset;

use crate::address_space::ObjectNumber;
use crate::rule::Rule;

/// Which code a rule is for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Place {
    pub(crate) object: ObjectNumber,
    /// The byte to look up: for a return address, the one before it.
    pub(crate) offset: FileOffset,
    /// Whether it is the byte before a return address: signal trampolines are known by the bytes *at* theirs.
    pub(crate) is_call: bool,
}

/// Beyond this many rules (about 60 MB) all are dropped; the few thousand that are in use come back at once.
const MOST_RULES: usize = 1 << 20;

#[derive(Default, Debug)]
pub(crate) struct RuleCache {
    rules: HashMap<Place, Rule, FxBuildHasher>,
}

impl RuleCache {
    #[inline]
    pub(crate) fn get(&self, place: &Place) -> Option<&Rule> {
        self.rules.get(place)
    }

    pub(crate) fn insert(&mut self, place: Place, rule: Rule) {
        if self.rules.len() >= MOST_RULES {
            self.rules.clear();
        }
        self.rules.insert(place, rule);
    }

    pub(crate) fn len(&self) -> usize {
        self.rules.len()
    }
}
