//! Lines of call chains, each formatted once: a recording has few places beside the samples that lie in them.
//!
//! Whoever reads samples gives lines their numbers ([`ChainLineTable`]); their texts ([`ChainLineTexts`]) are made when symbols
//! are known, by another thread perhaps.

use std::hash::{BuildHasher, RandomState};

use model::Resolution;

use super::address::{AddressStyle, LocatedAddress, SymbolLookup};

/// So many lines are formatted together.
const BATCH: usize = 256;

/// The number of a line.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct ChainLineId(u32);

/// A place of a call chain, as it is printed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ChainLine {
    /// The place.
    pub place: LocatedAddress,
    /// The form in which it is printed.
    pub style: AddressStyle,
}

/// The lines of call chains seen lately.
#[derive(Debug)]
pub struct ChainLineTable {
    lines: Vec<ChainLine>,
    /// Lines that have been taken.
    taken: usize,
    /// By hash: parts of the hash, and the line's number plus one. As many slots as a power of two, half of them empty.
    slots: Vec<(u32, u32)>,
    /// Secret, since a hostile file chooses the addresses.
    seeds: [u64; 3],
}

impl Default for ChainLineTable {
    fn default() -> Self {
        let random = RandomState::new();
        let seeds = [0, 1, 2].map(|number: u64| random.hash_one(number) | 1);
        Self { lines: Vec::new(), taken: 0, slots: vec![(0, 0); 1 << 10], seeds }
    }
}

impl ChainLineTable {
    /// Adds the line of a place of a call chain: new, or added before.
    pub fn add(&mut self, style: AddressStyle, place: LocatedAddress) -> ChainLineId {
        let line = ChainLine { place, style };
        let hash = self.hash(&line);
        match self.find(hash, &line) {
            Ok(id) => id,
            Err(slot) => {
                // As many lines as fit into memory, far below 2^32.
                let id = self.lines.len() as u32;
                self.lines.push(line);
                if let Some(slot) = self.slots.get_mut(slot) {
                    *slot = (tag(hash), id + 1);
                }
                if self.lines.len() * 2 > self.slots.len() {
                    self.grow();
                }
                ChainLineId(id)
            }
        }
    }

    /// The lines that were added since the last call.
    pub fn drain_new(&mut self) -> Vec<ChainLine> {
        let first = std::mem::replace(&mut self.taken, self.lines.len());
        self.lines.get(first..).unwrap_or_default().to_vec()
    }

    /// Estimates the memory that the lines take, in bytes.
    pub fn bytes(&self) -> usize {
        size_of_val(self.lines.as_slice()) + size_of_val(self.slots.as_slice())
    }

    /// Forgets all lines. Numbers given before mean nothing any more.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// The line's number, or the slot that it belongs into.
    fn find(&self, hash: u64, line: &ChainLine) -> Result<ChainLineId, usize> {
        let mask = self.slots.len() - 1;
        let mut slot = hash as usize & mask;
        loop {
            match self.slots.get(slot) {
                Some(&(known, id)) if id != 0 => {
                    let id = id - 1;
                    if known == tag(hash) && self.lines.get(id as usize) == Some(line) {
                        return Ok(ChainLineId(id));
                    }
                }
                _ => return Err(slot),
            }
            slot = (slot + 1) & mask;
        }
    }

    fn grow(&mut self) {
        let mask = self.slots.len() * 2 - 1;
        let mut slots = vec![(0, 0); mask + 1];
        for (id, line) in (1..).zip(&self.lines) {
            let hash = self.hash(line);
            let mut slot = hash as usize & mask;
            while slots.get(slot).is_some_and(|&(_, id)| id != 0) {
                slot = (slot + 1) & mask;
            }
            if let Some(slot) = slots.get_mut(slot) {
                *slot = (tag(hash), id);
            }
        }
        self.slots = slots;
    }

    fn hash(&self, line: &ChainLine) -> u64 {
        let ChainLine { place: LocatedAddress { address, entry }, style } = line;
        let [first, second, third] = self.seeds;
        let rest = u64::from(entry.space.0) << 32 | u64::from(entry.in_kernel) << 8 | entry.kind as u64;
        let place = folded(address ^ first, entry.offset ^ second);
        folded(place ^ rest.rotate_left(17) ^ third, style.number() ^ second)
    }
}

/// The part of the hash that does not choose the slot of a table with less than 2^32 ones.
fn tag(hash: u64) -> u32 {
    (hash >> 32) as u32
}

/// Both halves of the product of two numbers, mixed.
fn folded(one: u64, other: u64) -> u64 {
    let product = u128::from(one) * u128::from(other);
    product as u64 ^ (product >> 64) as u64
}

/// The texts of lines.
#[derive(Default, Debug)]
pub struct ChainLineTexts {
    /// One behind the other.
    text: Vec<u8>,
    /// The end of each.
    ends: Vec<usize>,
}

impl ChainLineTexts {
    /// TracepointFormats the lines with the next numbers. An inlined function has a line of its own, before that of its caller.
    pub fn format(&mut self, lines: &[ChainLine], symbols: &dyn SymbolLookup) {
        for lines in lines.chunks(BATCH) {
            // No cache holds what is known of so many places: looked up side by side, their memory is fetched so.
            let found = lines.iter().map(|line| symbols.resolution(&line.place.entry));
            let found: Vec<Option<&Resolution>> = found.collect();
            for (ChainLine { place, style }, resolution) in lines.iter().zip(found) {
                style.lines(&mut self.text, place, resolution, symbols);
                self.ends.push(self.text.len());
            }
        }
    }

    /// Estimates the memory that the lines take, in bytes.
    pub fn bytes(&self) -> usize {
        self.text.len() + size_of_val(self.ends.as_slice())
    }

    /// Forgets all lines and their texts.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// The text of a line, with its end.
    #[inline]
    pub(super) fn text(&self, ChainLineId(id): ChainLineId) -> &[u8] {
        let end = |number: usize| self.ends.get(number).copied().unwrap_or(0);
        let start = if id == 0 { 0 } else { end(id as usize - 1) };
        self.text.get(start..end(id as usize)).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::super::fields::Fields;
    use super::*;
    use model::{AddressKind, SpaceId, StackEntry};

    #[test]
    fn equal_lines_have_equal_numbers() {
        let mut numbers = ChainLineTable::default();
        let line = |number: u64| {
            let kind = if number & 1 == 0 { AddressKind::ReturnAddress } else { AddressKind::Data };
            let space = SpaceId((number >> 1 & 1) as u32);
            let entry = StackEntry { offset: number >> 3, space, kind, in_kernel: number >> 2 & 1 == 1 };
            (AddressStyle::new(Fields::IP, false), LocatedAddress { address: 7, entry })
        };
        for _ in 0..2 {
            for number in 0..5000 {
                let (style, place) = line(number);
                assert_eq!(numbers.add(style, place), ChainLineId(number as u32));
            }
        }
        let (_, place) = line(9);
        assert_eq!(numbers.add(AddressStyle::new(Fields::SYM, false), place), ChainLineId(5000));
        assert_eq!(numbers.drain_new().len(), 5001);
        assert_eq!(numbers.drain_new(), []);
    }
}
