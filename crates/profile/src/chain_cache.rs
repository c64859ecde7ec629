//! Raw call chains seen before: most samples need no mapping at all.

use std::hash::{BuildHasher, RandomState};

use hashbrown::HashTable;

use crate::StackId;

/// Default number of chains that are remembered before all are forgotten: 50 MiB at most.
const MOST: usize = 1 << 20;

/// Everything that decides which stack a sample has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RawChain<'a> {
    /// Names the state of the mappings (`tracker::Generation`).
    pub generation: u64,
    /// The sample's instruction pointer.
    pub ip: u64,
    /// The sample's privilege level.
    pub mode: u8,
    /// The call chain as it lies in the record, with its context markers.
    pub bytes: &'a [u8],
}

/// Remembers the stacks of raw call chains, a bounded number of them: by their ids, or by what else `S` stands for.
///
/// A chain is known by 128 bits of hash and not compared: under a million chains and secret seeds, two that are taken
/// for one are less likely than a broken memory cell, and nobody can make them.
#[derive(Debug)]
pub struct ChainCache<S = StackId> {
    known: HashTable<Known<S>>,
    most: usize,
    seeds: [u64; 4],
}

/// The key under which a cache finds a chain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ChainKey {
    first: u64,
    second: u64,
}

#[derive(Clone, Copy, Debug)]
struct Known<S> {
    key: ChainKey,
    stack: S,
}

impl<S: Copy> Default for ChainCache<S> {
    fn default() -> Self {
        Self::bounded(MOST)
    }
}

impl<S: Copy> ChainCache<S> {
    /// Makes a cache of at most `most` chains, of about 50 bytes each.
    pub fn bounded(most: usize) -> Self {
        let random = RandomState::new();
        let seeds = [0, 1, 2, 3].map(|number: u64| random.hash_one(number));
        Self { known: HashTable::new(), most, seeds }
    }

    /// Forgets all chains; the memory stays, for the next ones.
    pub fn clear(&mut self) {
        self.known.clear();
    }

    /// The stack of `chain`: as remembered, or as `map` finds it.
    #[inline]
    pub fn get_or_map(&mut self, chain: RawChain<'_>, map: impl FnOnce() -> S) -> S {
        let key = self.key(&chain);
        self.get(key).unwrap_or_else(|| {
            let stack = map();
            self.insert(key, stack);
            stack
        })
    }

    /// Returns the key under which this cache finds `chain`.
    #[inline]
    pub fn key(&self, chain: &RawChain<'_>) -> ChainKey {
        let (first, second) = self.hash(chain);
        ChainKey { first, second }
    }

    /// The stack of a chain, if it is remembered. Looking up several in a row costs little more than one: their
    /// memory is fetched side by side.
    #[inline]
    pub fn get(&self, key: ChainKey) -> Option<S> {
        self.known.find(key.first, |known| known.key == key).map(|known| known.stack)
    }

    /// Remembers the stack of a chain that [`Self::get`] does not know. Returns true if all others are forgotten for it.
    pub fn insert(&mut self, key: ChainKey, stack: S) -> bool {
        let is_full = self.known.len() >= self.most;
        if is_full {
            self.known.clear();
        }
        self.known.insert_unique(key.first, Known { key, stack }, |known| known.key.first);
        is_full
    }

    fn hash(&self, chain: &RawChain<'_>) -> (u64, u64) {
        let RawChain { generation, ip, mode, bytes } = *chain;
        let mut hashes =
            Hashes { state: [self.seeds[0], self.seeds[1]], keys: [self.seeds[2], self.seeds[3]] };
        hashes.add(generation, ip);
        let (pairs, rest) = bytes.as_chunks::<16>();
        for pair in pairs {
            let pair = u128::from_le_bytes(*pair);
            hashes.add(pair as u64, (pair >> 64) as u64);
        }
        let mut last = [0; 16];
        last[..rest.len()].copy_from_slice(rest);
        let last = u128::from_le_bytes(last);
        hashes.add(last as u64, (last >> 64) as u64);
        hashes.add(u64::from(mode) << 56 | bytes.len() as u64, 0);
        (hashes.state[0], hashes.state[1])
    }
}

/// Two hashes side by side, each a chain of folded multiplications (as in wyhash) with its own secret.
struct Hashes {
    state: [u64; 2],
    keys: [u64; 2],
}

impl Hashes {
    #[inline]
    fn add(&mut self, first: u64, second: u64) {
        for (state, key) in self.state.iter_mut().zip(self.keys) {
            let product = u128::from(*state ^ first) * u128::from(key ^ second);
            // All three again, so that a factor of zero does not forget what came before it.
            let again = state.rotate_left(23) ^ first.rotate_left(41) ^ second;
            *state = ((product as u64) ^ ((product >> 64) as u64)).wrapping_add(again);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::StackTable;
    use crate::testing::entry;
    use std::collections::HashSet;

    #[test]
    fn only_the_very_same_chain_is_found() {
        let mut table = StackTable::default();
        let mut cache = ChainCache::default();
        let chain = RawChain { generation: 1, ip: 2, mode: 3, bytes: b"12345678" };
        let others = [
            RawChain { generation: 2, ..chain },
            RawChain { ip: 3, ..chain },
            RawChain { mode: 2, ..chain },
            RawChain { bytes: b"12345679", ..chain },
            RawChain { bytes: b"12345678\0", ..chain },
            RawChain { bytes: b"", ..chain },
        ];
        let first = table.intern(&[entry(1)]);
        assert_eq!(cache.get_or_map(chain, || first), first);
        assert_eq!(cache.get_or_map(chain, || unreachable!("it is known")), first);
        for (offset, other) in others.into_iter().enumerate() {
            let stack = table.intern(&[entry(10 + offset as u64)]);
            assert_eq!(cache.get_or_map(other, || stack), stack);
        }
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut table = StackTable::default();
        let stack = table.intern(&[entry(1)]);
        let mut cache = ChainCache::bounded(1000);
        for ip in 0..100_000 {
            cache.get_or_map(RawChain { generation: 0, ip, mode: 0, bytes: b"" }, || stack);
            assert!(cache.known.len() <= 1000);
        }
        assert!(cache.known.capacity() < 4000, "{}", cache.known.capacity());
        cache.clear();
        assert!(cache.known.is_empty());
    }

    #[test]
    fn chains_that_differ_by_a_bit_or_a_swap_differ_in_both_hashes() {
        let cache = ChainCache::<StackId>::default();
        let (mut firsts, mut seconds) = (HashSet::new(), HashSet::new());
        let base: Vec<u64> = (0..16).map(|index| 0x7f00_0000_1000 + index * 16).collect();
        let mut chains = vec![base.clone(), vec![0; 16], vec![]];
        for index in 0..16 {
            for bit in 0..64 {
                let mut chain = base.clone();
                chain[index] ^= 1 << bit;
                chains.push(chain);
            }
            for other in 0..index {
                let mut chain = base.clone();
                chain.swap(index, other);
                chains.push(chain);
            }
        }
        for chain in &chains {
            let bytes: Vec<u8> = chain.iter().flat_map(|word| word.to_le_bytes()).collect();
            let (first, second) = cache.hash(&RawChain { generation: 0, ip: 0, mode: 0, bytes: &bytes });
            firsts.insert(first);
            seconds.insert(second);
        }
        assert_eq!((firsts.len(), seconds.len()), (chains.len(), chains.len()));
    }
}
