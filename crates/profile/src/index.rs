//! Interning: equal values get equal numbers.

use std::hash::{BuildHasher, Hash};

use hashbrown::{DefaultHashBuilder, HashTable};

/// The hash of two numbers, which may be small and regular: every bit of both reaches every bit of the result (the
/// folded multiplication of wyhash).
pub(crate) fn hash_of_pair(first: u64, second: u64) -> u64 {
    let product = u128::from(first ^ 0x9e37_79b9_7f4a_7c15) * u128::from(second ^ 0xd6e8_feb8_6659_fd93);
    (product as u64) ^ ((product >> 64) as u64)
}

/// Finds the number of a value in a list of values. Half of the hash is kept, so that neither growing nor a chance
/// neighbour touches the list: it is large, and each touch would be a cache miss.
///
/// Names and addresses are chosen by those who are profiled: hashes have a random key, so that nobody can make up values
/// that all collide.
#[derive(Clone, Debug)]
pub(crate) struct Index {
    table: HashTable<Entry>,
    hasher: DefaultHashBuilder,
    /// The key of [`Index::hash_of_pair`].
    key: [u64; 2],
}

impl Default for Index {
    fn default() -> Self {
        let hasher = DefaultHashBuilder::default();
        Self { table: HashTable::new(), key: [0_u64, 1].map(|number| hasher.hash_one(number)), hasher }
    }
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    hash: u32,
    number: u32,
}

impl Index {
    /// Returns true if nothing was added.
    pub(crate) fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// The hash of any value.
    pub(crate) fn hash_of(&self, value: &impl Hash) -> u64 {
        self.hasher.hash_one(value)
    }

    /// The hash of two numbers.
    pub(crate) fn hash_of_pair(&self, first: u64, second: u64) -> u64 {
        hash_of_pair(first ^ self.key[0], second ^ self.key[1])
    }

    /// The number of the value with this hash for which `is` holds; else `next`, which becomes its number.
    pub(crate) fn find_or_add(&mut self, hash: u64, is: impl Fn(u32) -> bool, next: u32) -> u32 {
        let hash = (hash >> 32) as u32;
        let found = self.table.entry(
            spread(hash),
            |entry| entry.hash == hash && is(entry.number),
            |entry| spread(entry.hash),
        );
        found.or_insert_with(|| Entry { hash, number: next }).get().number
    }
}

/// The table looks at the lowest and at the highest bits.
fn spread(hash: u32) -> u64 {
    u64::from(hash) << 32 | u64::from(hash)
}

/// The number of children of a node that are looked through before the rest is looked up.
const FEW: usize = 8;

/// Finds the children of a tree's nodes, which are numbered as they come; the root is 0.
///
/// Most nodes of a tree of stacks have one child or two: those hang together in a list, made while the node was in
/// the cache anyway. Only what comes after the first few is hashed.
#[derive(Debug)]
pub(crate) struct Children {
    links: Vec<Link>,
    further: Index,
}

/// Numbers of nodes; 0 for none, as the root is nobody's child.
#[derive(Clone, Copy, Default, Debug)]
struct Link {
    first_child: u32,
    next_sibling: u32,
}

impl Default for Children {
    fn default() -> Self {
        Self { links: vec![Link::default()], further: Index::default() }
    }
}

impl Children {
    /// The child of `parent` with this key, which is one for which `is` holds; if there is none, a new node with the next
    /// number. `parent` must be a number that was given out, or 0.
    pub(crate) fn find_or_add(&mut self, parent: u32, key: u64, is: impl Fn(u32) -> bool) -> u32 {
        // Each node takes 20 bytes or more: memory ends before the numbers do.
        let next = self.links.len() as u32;
        let mut last = 0;
        let mut child = self.links[parent as usize].first_child;
        for _ in 0..FEW {
            if child == 0 {
                self.links.push(Link::default());
                match last {
                    0 => self.links[parent as usize].first_child = next,
                    _ => self.links[last as usize].next_sibling = next,
                }
                return next;
            }
            if is(child) {
                return child;
            }
            last = child;
            child = self.links[child as usize].next_sibling;
        }
        let hash = self.further.hash_of_pair(parent.into(), key);
        let number = self.further.find_or_add(hash, is, next);
        if number == next {
            self.links.push(Link::default());
        }
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_children_are_found_as_few_are() {
        let mut children = Children::default();
        let mut keys = vec![(0_u32, 0_u32)];
        for round in 0..2 {
            for key in (0..3).flat_map(|parent| (0..40).map(move |name| (parent, name))) {
                let number = children.find_or_add(key.0, key.1.into(), |number| keys[number as usize] == key);
                if round == 0 {
                    assert_eq!(number as usize, keys.len());
                    keys.push(key);
                }
                assert_eq!(keys[number as usize], key);
            }
        }
    }
}
