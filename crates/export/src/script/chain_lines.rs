//! Lines of call chains. Each is formatted once, because a recording has far fewer different addresses than samples.
//!
//! The thread that reads samples interns lines in a [`ChainLineTable`]. Another thread may format their texts
//! ([`ChainLineTexts`]) once their symbols are known.

use std::hash::{BuildHasher, RandomState};

use model::StackEntry;

use super::address::{AddressStyle, LocatedAddress, SymbolLookup};
use super::number;

/// The id of an interned line.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct ChainLineId(u32);

/// An address of a call chain with the style in which it is printed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ChainLine {
    /// The address.
    pub address: LocatedAddress,
    /// The style in which it is printed.
    pub style: AddressStyle,
}

/// Interns lines of call chains.
#[derive(Debug)]
pub struct ChainLineTable {
    lines: Vec<ChainLine>,
    /// The number of lines that [`ChainLineTable::drain_new`] has returned.
    drained: usize,
    /// An open-addressing hash table with a power of two of slots, at least half of them empty. Each has the upper half of
    /// the hash, and the id of the line plus one, or 0 if the slot is empty.
    slots: Vec<(u32, u32)>,
    /// Random, because a hostile file chooses the addresses.
    seeds: [u64; 3],
}

impl Default for ChainLineTable {
    fn default() -> Self {
        let random = RandomState::new();
        let seeds = [0, 1, 2].map(|number: u64| random.hash_one(number) | 1);
        Self { lines: Vec::new(), drained: 0, slots: vec![(0, 0); 1 << 10], seeds }
    }
}

impl ChainLineTable {
    /// Interns a line and returns its id. Ids count from 0.
    pub fn intern(&mut self, style: AddressStyle, address: LocatedAddress) -> ChainLineId {
        let line = ChainLine { address, style };
        let hash = self.hash(&line);
        match self.find(hash, &line) {
            Ok(id) => id,
            Err(slot) => {
                // 2^32 lines do not fit into memory.
                let id = self.lines.len() as u32;
                self.lines.push(line);
                if let Some(slot) = self.slots.get_mut(slot) {
                    *slot = (upper_half(hash), id + 1);
                }
                if self.lines.len() * 2 > self.slots.len() {
                    self.grow();
                }
                ChainLineId(id)
            }
        }
    }

    /// Returns the lines that were interned since the last call, in the order of their ids.
    pub fn drain_new(&mut self) -> Vec<ChainLine> {
        let first = std::mem::replace(&mut self.drained, self.lines.len());
        self.lines.get(first..).unwrap_or_default().to_vec()
    }

    /// Estimates the memory that the lines take, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.lines.len() * (size_of::<ChainLine>() + 4 * size_of::<(u32, u32)>())
    }

    /// Removes all lines, and keeps their memory for new ones. Ids returned before are invalid.
    pub fn clear(&mut self) {
        self.lines.clear();
        self.drained = 0;
        self.slots.fill((0, 0));
    }

    /// Returns the id of a line, or else the slot to insert it into.
    fn find(&self, hash: u64, line: &ChainLine) -> Result<ChainLineId, usize> {
        let mask = self.slots.len() - 1;
        let mut slot = hash as usize & mask;
        loop {
            match self.slots.get(slot) {
                Some(&(known, id)) if id != 0 => {
                    let id = id - 1;
                    if known == upper_half(hash) && self.lines.get(id as usize) == Some(line) {
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
                *slot = (upper_half(hash), id);
            }
        }
        self.slots = slots;
    }

    fn hash(&self, line: &ChainLine) -> u64 {
        let ChainLine { address: LocatedAddress { address, entry }, style } = line;
        let [first, second, third] = self.seeds;
        let rest = u64::from(entry.space.0) << 32 | u64::from(entry.in_kernel) << 8 | entry.kind as u64;
        let position = folded_product(address ^ first, entry.offset ^ second);
        folded_product(position ^ rest.rotate_left(17) ^ third, u64::from(style.number()) ^ second)
    }
}

/// Returns the upper half of a hash, which does not select the slot in a table of less than 2^32 slots.
fn upper_half(hash: u64) -> u32 {
    (hash >> 32) as u32
}

/// Returns the two halves of the 128-bit product of two numbers, combined by XOR.
fn folded_product(one: u64, other: u64) -> u64 {
    let product = u128::from(one) * u128::from(other);
    product as u64 ^ (product >> 64) as u64
}

/// The texts of interned lines, by their ids.
///
/// Many processes run the same code at different addresses. Of lines that differ in the address only, the first is
/// formatted, and the others are copies of its text with another address.
#[derive(Default, Debug)]
pub struct ChainLineTexts {
    /// All texts, concatenated.
    text: Vec<u8>,
    /// The end of each text.
    ends: Vec<usize>,
    /// The lines that were formatted, sorted.
    originals: Vec<LineKey>,
}

/// All that the text of a line depends on but its address, and the id of the line.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct LineKey {
    entry: StackEntry,
    /// [`AddressStyle::number`].
    style: u32,
    id: u32,
}

impl LineKey {
    fn is_alike(&self, other: &Self) -> bool {
        self.without_id() == other.without_id()
    }

    fn without_id(&self) -> (StackEntry, u32) {
        (self.entry, self.style)
    }
}

/// Further lines to format, sorted by their keys: see [`ChainLineTexts::plan`].
#[derive(Debug)]
pub struct ChainLinePlan {
    /// The key of each line that has to be formatted, sorted.
    originals: Vec<LineKey>,
    /// For each line, in the order of ids, the id of the line whose text it shares: its own if it has to be formatted.
    sources: Vec<u32>,
}

impl ChainLinePlan {
    /// Returns the entries whose resolutions [`ChainLineTexts::format`] needs, sorted and unique.
    pub fn entries(&self) -> Vec<StackEntry> {
        let mut entries: Vec<StackEntry> = self.originals.iter().map(|key| key.entry).collect();
        entries.dedup();
        entries
    }
}

impl ChainLineTexts {
    /// Finds out which of some further lines, in the order of their ids, have to be formatted.
    pub fn plan(&self, lines: &[ChainLine]) -> ChainLinePlan {
        // 2^32 lines do not fit into memory.
        let first_id = self.ends.len() as u32;
        let key = |(line, id): (&ChainLine, u32)| LineKey {
            entry: line.address.entry,
            style: line.style.number(),
            id,
        };
        let mut keys: Vec<LineKey> = lines.iter().zip(first_id..).map(key).collect();
        keys.sort_unstable();
        let mut plan = ChainLinePlan { originals: Vec::new(), sources: vec![0; lines.len()] };
        let mut known = self.originals.iter().peekable();
        for alike in keys.chunk_by(LineKey::is_alike) {
            let Some(first) = alike.first() else { continue };
            while known.next_if(|known| known.without_id() < first.without_id()).is_some() {}
            let source = match known.peek().filter(|known| known.is_alike(first)) {
                Some(known) => known.id,
                None => {
                    plan.originals.push(*first);
                    first.id
                }
            };
            for key in alike {
                if let Some(slot) = plan.sources.get_mut((key.id - first_id) as usize) {
                    *slot = source;
                }
            }
        }
        plan
    }

    /// Formats lines by their plan. Inlined functions get lines of their own before that of their caller.
    pub fn format(&mut self, lines: &[ChainLine], plan: ChainLinePlan, symbols: &dyn SymbolLookup) {
        let ChainLinePlan { originals, sources } = plan;
        let first_id = self.ends.len();
        // In one loop, so that the processor overlaps the cache misses of several lookups.
        let mut resolutions = vec![None; lines.len()];
        for key in &originals {
            if let Some(slot) = resolutions.get_mut(key.id as usize - first_id) {
                *slot = symbols.resolution(&key.entry);
            }
        }
        for ((line, source), resolution) in lines.iter().zip(sources).zip(resolutions) {
            if source as usize == self.ends.len() {
                line.style.lines(&mut self.text, &line.address, resolution, symbols);
            } else {
                self.copy(source as usize, line.address.address);
            }
            self.ends.push(self.text.len());
        }
        self.originals.extend(originals);
        // Two sorted runs: the stable sort merges them.
        self.originals.sort();
    }

    /// Appends a copy of a text with another address. Addresses stand behind a tab at the start of a line.
    fn copy(&mut self, id: usize, address: u64) {
        let start = self.text.len();
        let Some(range) = self.range(id) else { return };
        self.text.extend_from_within(range);
        let mut digits = [b' '; 16];
        number::hex_digits(&mut digits, address);
        for line in self.text.get_mut(start..).unwrap_or_default().split_mut(|&byte| byte == b'\n') {
            if let Some((b'\t', rest)) = line.split_first_mut()
                && let Some(old) = rest.first_chunk_mut()
            {
                *old = digits;
            }
        }
    }

    /// Estimates the memory that the texts take, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.text.len() + size_of_val(self.ends.as_slice()) + size_of_val(self.originals.as_slice())
    }

    /// Removes all texts, and keeps their memory for new ones.
    pub fn clear(&mut self) {
        self.text.clear();
        self.ends.clear();
        self.originals.clear();
    }

    fn range(&self, id: usize) -> Option<std::ops::Range<usize>> {
        let start = id.checked_sub(1).map_or(Some(0), |before| self.ends.get(before).copied())?;
        Some(start..*self.ends.get(id)?)
    }

    /// Returns the text of a line, with its line break.
    #[inline]
    pub(super) fn text(&self, ChainLineId(id): ChainLineId) -> &[u8] {
        self.range(id as usize).and_then(|range| self.text.get(range)).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::super::fields::Fields;
    use super::*;
    use model::{AddressKind, Frame, Name, Resolution, Space, SpaceId, Symbolized};

    #[test]
    fn equal_lines_have_equal_ids_also_after_a_clear() {
        let mut table = ChainLineTable::default();
        let line = |number: u64| {
            let kind = if number & 1 == 0 { AddressKind::ReturnAddress } else { AddressKind::Data };
            let space = SpaceId((number >> 1 & 1) as u32);
            let entry = StackEntry { offset: number >> 3, space, kind, in_kernel: number >> 2 & 1 == 1 };
            (AddressStyle::new(Fields::IP, false), LocatedAddress { address: 7, entry })
        };
        for round in 0..4 {
            for number in 0..5000 {
                let (style, address) = line(number);
                assert_eq!(table.intern(style, address), ChainLineId(number as u32));
            }
            if round == 1 {
                table.clear();
            }
        }
        let (_, address) = line(9);
        assert_eq!(table.intern(AddressStyle::new(Fields::SYM, false), address), ChainLineId(5000));
        assert_eq!(table.drain_new().len(), 5001);
        assert_eq!(table.drain_new(), []);
    }

    struct Inlined(Resolution, Space);

    impl SymbolLookup for Inlined {
        fn resolution(&self, entry: &StackEntry) -> Option<&Resolution> {
            (entry.offset < 8).then_some(&self.0)
        }

        fn space(&self, _: SpaceId) -> &Space {
            &self.1
        }

        fn lists_module(&self, _: &Name) -> bool {
            false
        }
    }

    #[test]
    fn lines_of_one_entry_differ_in_their_addresses_alone() {
        let frame = |name: &str, inlined| Frame { function: name.into(), location: None, inlined };
        let frames = [frame("inner", true), frame("outer", false)].into();
        let found = Resolution::Resolved(Symbolized { frames, symbol_offset: Some(3) });
        let symbols = Inlined(found, Space::Vdso { build_id: None });
        let styles = [true, false].map(|inlined| AddressStyle::new(Fields::all(), inlined));
        let mut lines = Vec::new();
        for address in [0x1234, u64::MAX, 0, 0xabc] {
            for (offset, style) in [(1, styles[0]), (9, styles[0]), (1, styles[1])] {
                let (space, kind) = (SpaceId(0), AddressKind::InstructionPointer);
                let entry = StackEntry { offset, space, kind, in_kernel: false };
                lines.push(ChainLine { address: LocatedAddress { address, entry }, style });
            }
        }
        let mut texts = ChainLineTexts::default();
        for lines in lines.chunks(5) {
            let plan = texts.plan(lines);
            assert!(plan.entries().len() <= 2);
            texts.format(lines, plan, &symbols);
        }
        for (line, id) in lines.iter().zip(0..) {
            let mut expected = Vec::new();
            let resolution = symbols.resolution(&line.address.entry);
            line.style.lines(&mut expected, &line.address, resolution, &symbols);
            assert_eq!(texts.text(ChainLineId(id)), expected, "{line:?}");
        }
    }
}
