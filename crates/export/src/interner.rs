//! Interning: gives equal values one id.

use std::collections::HashMap;
use std::hash::Hash;

use rustc_hash::FxBuildHasher;

/// Values, each stored once.
#[derive(Debug)]
pub(crate) struct Interner<T> {
    /// The values by their ids.
    pub(crate) values: Vec<T>,
    ids: HashMap<T, u32>,
}

impl<T> Default for Interner<T> {
    fn default() -> Self {
        Self { values: Vec::new(), ids: HashMap::new() }
    }
}

impl<T: Clone + Eq + Hash> Interner<T> {
    /// Returns the id of a value: a new one if the value is new. Ids count from 0.
    pub(crate) fn intern(&mut self, value: T) -> u32 {
        // 2^32 values do not fit into memory.
        let next = self.values.len() as u32;
        let values = &mut self.values;
        *self.ids.entry(value).or_insert_with_key(|value| {
            values.push(value.clone());
            next
        })
    }
}

/// Values of which each has an index, and most indices have one value alone: those are found without hashing. The profiled program must
/// not choose the values.
#[derive(Debug)]
pub(crate) struct IndexedInterner<T> {
    /// The values by their ids.
    pub(crate) values: Vec<T>,
    /// The id of the first value of each index.
    first: Vec<Option<u32>>,
    others: HashMap<T, u32, FxBuildHasher>,
}

impl<T> Default for IndexedInterner<T> {
    fn default() -> Self {
        Self { values: Vec::new(), first: Vec::new(), others: HashMap::default() }
    }
}

impl<T: Copy + Eq + Hash> IndexedInterner<T> {
    /// Returns the id of a value of this index: a new one if the value is new. Ids count from 0.
    pub(crate) fn intern(&mut self, index: usize, value: T) -> u32 {
        if self.first.len() <= index {
            self.first.resize(index + 1, None);
        }
        // 2^32 values do not fit into memory.
        let next = self.values.len() as u32;
        let id = match self.first[index] {
            Some(first) if self.values[first as usize] == value => first,
            Some(_) => *self.others.entry(value).or_insert(next),
            None => *self.first[index].insert(next),
        };
        if id == next {
            self.values.push(value);
        }
        id
    }
}
