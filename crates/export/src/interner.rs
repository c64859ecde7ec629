//! Interning: gives equal values one id.

use std::collections::HashMap;
use std::hash::Hash;

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
