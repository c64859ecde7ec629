//! The mappings of one process: those that it shares with its relatives, and those that it made since.
//!
//! A process that forks passes all its mappings on. Parent and child share one tree, which is copied path by path when
//! it changes: a change costs as many nodes as the tree is high. So what a process maps lies in a list of its own
//! before the shared tree, and is put into the tree when the process forks: a child that maps a little and runs costs
//! what it maps, however much its parent has.

use alloc::collections::BTreeMap;

use model::{Avma, SpaceId};

use crate::mapping::Mapping;
use crate::mapping_tree::{MappingTree, TreeId};

/// Mappings that do not overlap, by address, the newest on top.
#[derive(Default, Debug)]
pub(crate) struct Mappings {
    /// As they were at the last fork.
    shared: MappingTree,
    /// Those made since, by their first address. They cover the shared ones.
    own: BTreeMap<Avma, Mapping>,
}

impl Mappings {
    /// The mapping that covers `address`.
    pub(crate) fn get(&self, address: Avma) -> Option<Mapping> {
        self.first_from(address).filter(|mapping| mapping.start <= address)
    }

    /// The space that `address` lies in, and its offset there.
    pub(crate) fn locate(&self, address: Avma) -> Option<(SpaceId, u64)> {
        let mapping = self.own_at(address).or_else(|| self.shared_at(address))?;
        Some((mapping.space, mapping.offset_of(address)))
    }

    /// The mapping around `address`, if it was made since the last fork: all of it counts.
    pub(crate) fn own_at(&self, address: Avma) -> Option<Mapping> {
        self.own_before(address).filter(|mapping| mapping.contains(address))
    }

    /// The mapping around `address` that was there at the last fork. Those made since may cover parts of it.
    pub(crate) fn shared_at(&self, address: Avma) -> Option<Mapping> {
        self.shared.get(address).copied()
    }

    /// Adds a mapping. What it overlaps is cut away, or cut in two.
    pub(crate) fn insert(&mut self, mapping: Mapping) {
        let keep_above = |own: &mut BTreeMap<Avma, Mapping>, old: Mapping| {
            if old.last > mapping.last {
                // An address after `mapping.last` exists: `old` ends there.
                let (_, above) = old.cut(Avma(mapping.last.0.saturating_add(1)));
                own.insert(above.start, above);
            }
        };
        if let Some(old) = self.own_before(mapping.start).filter(|old| old.contains(mapping.start)) {
            if old.start < mapping.start {
                self.own.insert(old.start, old.cut(mapping.start).0);
            }
            keep_above(&mut self.own, old);
        }
        while let Some((&start, &old)) = self.own.range(mapping.start..=mapping.last).next() {
            self.own.remove(&start);
            keep_above(&mut self.own, old);
        }
        self.own.insert(mapping.start, mapping);
    }

    /// The lowest mapping that ends at or after `address`.
    pub(crate) fn first_from(&self, address: Avma) -> Option<Mapping> {
        let own = self.own_from(address);
        let Some(shared) = self.shared.first_from(address) else { return own };
        // The lowest address of the shared one that counts.
        let visible = shared.start.max(address);
        match own {
            Some(own) if own.start <= visible => return Some(own),
            _ => {}
        }
        let mut part = *shared;
        if let Some(next) = own {
            part.last = part.last.min(Avma(next.start.0.saturating_sub(1)));
        }
        if let Some(below) = self.own_before(visible)
            && below.last >= part.start
        {
            // It ends before `visible`, as it is not what `own_from` found.
            part = part.cut(Avma(below.last.0.saturating_add(1))).1;
        }
        Some(part)
    }

    /// All mappings, by ascending address.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Mapping> {
        let mut from = Some(Avma(0));
        let mut own = self.shared.is_empty().then(|| self.own.values());
        core::iter::from_fn(move || {
            if let Some(own) = &mut own {
                return own.next().copied();
            }
            let mapping = self.first_from(from?)?;
            from = mapping.last.checked_add(1);
            Some(mapping)
        })
    }

    /// The mappings of a child of this process.
    pub(crate) fn fork(&mut self) -> Self {
        let own = core::mem::take(&mut self.own);
        if self.shared.is_empty() {
            self.shared = MappingTree::from_ascending(&own.into_values().collect::<alloc::vec::Vec<_>>());
        } else {
            own.into_values().for_each(|mapping| self.shared.insert(mapping));
        }
        Self { shared: self.shared.clone(), own: BTreeMap::new() }
    }

    /// Calls `space` with the space of each mapping, also of those that are covered. Shared trees for which `is_new` is
    /// false are left out.
    pub(crate) fn each_space(&self, is_new: impl FnOnce(TreeId) -> bool, space: impl FnMut(SpaceId)) {
        let shared = self.shared.id().filter(|&id| is_new(id)).map(|_| self.shared.iter());
        let shared = shared.into_iter().flatten().map(|mapping| mapping.space);
        shared.chain(self.own.values().map(|mapping| mapping.space)).for_each(space);
    }

    /// The last of the own mappings that begin at or before `address`.
    fn own_before(&self, address: Avma) -> Option<Mapping> {
        self.own.range(..=address).next_back().map(|(_, &mapping)| mapping)
    }

    /// The lowest of the own mappings that end at or after `address`.
    fn own_from(&self, address: Avma) -> Option<Mapping> {
        let covering = self.own_before(address).filter(|mapping| mapping.contains(address));
        covering.or_else(|| self.own.range(address..).next().map(|(_, &mapping)| mapping))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mapping::testing::mapping;
    use alloc::vec;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    #[test]
    fn a_child_holds_what_it_maps_and_shares_the_rest() {
        let mut parent = Mappings::default();
        for page in 0..5000 {
            parent.insert(mapping(page * 0x2000, page * 0x2000 + 0xfff, page as u32));
        }
        let mut child = parent.fork();
        child.insert(mapping(0x2800, 0x47ff, 9999));
        assert_eq!((parent.own.len(), child.own.len()), (0, 1));
        assert!(child.shared.id().is_some() && child.shared.id() == parent.shared.id());
        let around: Vec<_> =
            child.iter().take(4).map(|m| (m.start.0, m.last.0, m.offset, m.space.0)).collect();
        let expected =
            [(0, 0xfff, 0, 0), (0x2000, 0x27ff, 0, 1), (0x2800, 0x47ff, 0, 9999), (0x4800, 0x4fff, 0x800, 2)];
        assert_eq!(around, expected);
        assert_eq!(child.get(Avma(0x4900)).unwrap().start, Avma(0x4800));
    }

    #[test]
    fn the_last_address_can_be_mapped() {
        let mut mappings = Mappings::default();
        mappings.insert(mapping(10, u64::MAX, 1));
        let mut mappings = mappings.fork();
        mappings.insert(mapping(20, u64::MAX, 2));
        mappings.insert(mapping(u64::MAX, u64::MAX, 3));
        let parts: Vec<_> = mappings.iter().map(|m| (m.start.0, m.last.0, m.space.0)).collect();
        assert_eq!(parts, [(10, 19, 1), (20, u64::MAX - 1, 2), (u64::MAX, u64::MAX, 3)]);
    }

    /// An act of a process: it maps a range, or forks and goes on as the parent or as the child.
    #[derive(Clone, Debug)]
    enum Step {
        Map(u64, u64),
        Fork { as_child: bool },
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            5 => (0_u64..200, 0_u64..40).prop_map(|(start, len)| Step::Map(start, len)),
            1 => any::<bool>().prop_map(|as_child| Step::Fork { as_child }),
        ]
    }

    proptest! {
        #[test]
        fn each_relative_agrees_with_an_array_of_pages(steps in prop::collection::vec(step(), 1..120)) {
            let mut mappings = Mappings::default();
            let mut pages = vec![None; 256];
            let mut relatives = vec![];
            for (number, step) in steps.iter().enumerate() {
                match *step {
                    Step::Map(start, len) => {
                        mappings.insert(mapping(start, start + len, number as u32));
                        for page in start..=start + len {
                            pages[page as usize] = Some((number as u32, page - start));
                        }
                    }
                    Step::Fork { as_child } => {
                        let mut other = mappings.fork();
                        if as_child {
                            core::mem::swap(&mut mappings, &mut other);
                        }
                        relatives.push((other, pages.clone()));
                    }
                }
            }
            relatives.push((mappings, pages));
            for (mappings, pages) in &relatives {
                let mut listed = vec![None; 256];
                let mut end = 0;
                for mapping in mappings.iter() {
                    prop_assert!(mapping.start.0 >= end, "ascending and disjoint");
                    end = mapping.last.0 + 1;
                    for page in mapping.start.0..=mapping.last.0 {
                        listed[page as usize] = Some((mapping.space.0, mapping.offset_of(Avma(page))));
                    }
                }
                prop_assert_eq!(&listed, pages);
                for (address, expected) in pages.iter().enumerate() {
                    let address = Avma(address as u64);
                    let located = mappings.locate(address).map(|(space, offset)| (space.0, offset));
                    prop_assert_eq!(&located, expected);
                    let got = mappings.get(address);
                    prop_assert_eq!(&got.map(|m| (m.space.0, m.offset_of(address))), expected);
                    prop_assert!(got.is_none_or(|m| m.contains(address)));
                }
            }
        }
    }
}
