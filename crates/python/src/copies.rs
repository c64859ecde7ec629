//! The copies of bytecode that threads run in builds without a global lock (since 3.14): each thread but the first has its own one of
//! each function that it has called, outside of the code object.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

/// The copies that are known of the functions of a process.
#[derive(Default, Debug)]
pub(crate) struct Copies {
    by_start: BTreeMap<u64, Original>,
    /// The copies of each bytecode.
    starts: FxHashMap<u64, Vec<u64>>,
}

/// The bytecode in a code object: its address and size in bytes.
#[derive(Clone, Copy, Debug)]
struct Original {
    bytecode: u64,
    size: u64,
}

impl Copies {
    /// Returns the address in the code object for one behind an instruction of a copy, and any other one as it is.
    pub(crate) fn in_object(&self, next: u64) -> u64 {
        let copy = self.by_start.range(..next).next_back();
        let copy = copy.filter(|(start, original)| next - *start <= original.size);
        copy.map_or(next, |(start, original)| original.bytecode.saturating_add(next - start))
    }

    /// Puts these copies in place of those that were known of a bytecode of `size` bytes.
    pub(crate) fn set(&mut self, bytecode: u64, size: u64, starts: Vec<u64>) {
        self.remove(bytecode);
        for start in &starts {
            self.by_start.insert(*start, Original { bytecode, size });
        }
        if !starts.is_empty() {
            self.starts.insert(bytecode, starts);
        }
    }

    /// Forgets the copies of a bytecode.
    pub(crate) fn remove(&mut self, bytecode: u64) {
        for start in self.starts.remove(&bytecode).unwrap_or_default() {
            // Another function's may lie there since.
            if self.by_start.get(&start).is_some_and(|original| original.bytecode == bytecode) {
                self.by_start.remove(&start);
            }
        }
    }

    /// Returns the number of copies.
    pub(crate) fn len(&self) -> usize {
        self.by_start.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_in_copies_are_those_of_the_object() {
        let mut copies = Copies::default();
        copies.set(1000, 100, vec![5000, 5100]);
        copies.set(2000, 60, vec![5200]);
        let found = [5000, 5001, 5100, 5102, 5200, 5201, 5260, 5261, 1004].map(|next| copies.in_object(next));
        // An address behind the last instruction of a copy is not that of the next copy's first one.
        assert_eq!(found, [5000, 1001, 1100, 1002, 1100, 2001, 2060, 5261, 1004]);
        // The second thread has ended, and what it ran is another function's now.
        copies.set(2000, 60, vec![5100, 5200]);
        copies.set(1000, 100, vec![5000]);
        assert_eq!((copies.in_object(5102), copies.len()), (2002, 3));
        copies.remove(2000);
        assert_eq!((copies.in_object(5102), copies.in_object(5202), copies.len()), (5102, 5202, 1));
    }
}
