//! The functions that decide which one covers an address, picked out of all symbols of a large object.

use std::cmp::Ordering;

use crate::MAX_TABLE_ENTRIES;
use crate::function_symbol::Function;

/// Collects functions in the order of the file, and keeps those on which the answer for some addresses depends: functions that cover one,
/// and those that start last before one.
pub(crate) struct NearFunctions<'a> {
    /// The addresses that are asked for, in ascending order.
    addresses: &'a [u64],
    /// Functions with a size that cover an address.
    covering: Vec<Function>,
    /// By address: of the other functions that start behind the address before it, and not behind this one, those that start last.
    last: Vec<Vec<Function>>,
}

impl<'a> NearFunctions<'a> {
    /// Keeps nothing yet. `addresses` ascend.
    pub(crate) fn new(addresses: &'a [u64]) -> Self {
        Self { addresses, covering: Vec::new(), last: vec![Vec::new(); addresses.len()] }
    }

    /// Looks at a function.
    pub(crate) fn add(&mut self, function: Function) {
        let next = self.addresses.partition_point(|&address| address < function.start);
        let (Some(&address), Some(last)) = (self.addresses.get(next), self.last.get_mut(next)) else {
            return;
        };
        if function.is_sized() && function.end > address {
            if self.covering.len() < MAX_TABLE_ENTRIES {
                self.covering.push(function);
            }
            return;
        }
        match last.first().map_or(Ordering::Greater, |known| function.start.cmp(&known.start)) {
            Ordering::Greater => {
                last.clear();
                last.push(function);
            }
            Ordering::Equal => last.push(function),
            Ordering::Less => {}
        }
    }

    /// Returns what was kept. Functions that start at the same address, and are found by the same one, are in the order of the file.
    pub(crate) fn into_functions(self) -> Vec<Function> {
        let mut functions = self.covering;
        functions.extend(self.last.into_iter().flatten());
        functions
    }
}
