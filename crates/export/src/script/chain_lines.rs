//! Lines of call chains. Each is formatted once, because a recording has far fewer different addresses than samples.
//!
//! The thread that reads samples interns lines in a [`ChainLineTable`]. Another thread may format their texts
//! ([`ChainLineTexts`]) once their symbols are known.

use std::collections::HashMap;

use super::address::{AddressStyle, LocatedAddress, SymbolLookup};

/// The id of an interned line.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct ChainLineId(u32);

/// An address of a call chain with the style in which it is printed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ChainLine {
    /// The address.
    pub address: LocatedAddress,
    /// The style in which it is printed.
    pub style: AddressStyle,
}

/// Interns lines of call chains.
#[derive(Default, Debug)]
pub struct ChainLineTable {
    // With a keyed hash: a hostile file chooses the addresses.
    ids: HashMap<ChainLine, ChainLineId>,
    /// The lines that [`ChainLineTable::drain_new`] has not returned yet.
    new: Vec<ChainLine>,
}

impl ChainLineTable {
    /// Interns a line and returns its id. Ids count from 0.
    pub fn intern(&mut self, style: AddressStyle, address: LocatedAddress) -> ChainLineId {
        let line = ChainLine { address, style };
        // 2^32 lines do not fit into memory.
        let next = ChainLineId(self.ids.len() as u32);
        *self.ids.entry(line).or_insert_with(|| {
            self.new.push(line);
            next
        })
    }

    /// Returns the lines that were interned since the last call, in the order of their ids.
    pub fn drain_new(&mut self) -> Vec<ChainLine> {
        std::mem::take(&mut self.new)
    }

    /// Estimates the memory that the lines take, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.ids.capacity() * size_of::<(ChainLine, ChainLineId)>() + size_of_val(self.new.as_slice())
    }

    /// Removes all lines. Ids returned before are invalid.
    pub fn clear(&mut self) {
        *self = Self::default();
    }
}

/// The texts of interned lines, by their ids.
#[derive(Default, Debug)]
pub struct ChainLineTexts {
    /// All texts, concatenated.
    text: Vec<u8>,
    /// The end of each text.
    ends: Vec<usize>,
}

impl ChainLineTexts {
    /// Formats further lines, in the order of their ids. Inlined functions get lines of their own before that of their caller.
    pub fn format(&mut self, lines: &[ChainLine], symbols: &dyn SymbolLookup) {
        for line in lines {
            line.style.lines(&mut self.text, &line.address, symbols);
            self.ends.push(self.text.len());
        }
    }

    /// Estimates the memory that the texts take, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.text.len() + size_of_val(self.ends.as_slice())
    }

    /// Removes all texts, and keeps their memory for new ones.
    pub fn clear(&mut self) {
        self.text.clear();
        self.ends.clear();
    }

    /// Returns the text of a line, with its line break.
    #[inline]
    pub(super) fn text(&self, ChainLineId(id): ChainLineId) -> &[u8] {
        let before = id.checked_sub(1).and_then(|before| self.ends.get(before as usize));
        let (start, end) = (before.copied().unwrap_or(0), self.ends.get(id as usize).copied());
        end.and_then(|end| self.text.get(start..end)).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::super::fields::Fields;
    use super::*;
    use model::{AddressKind, Frame, Name, Resolution, Space, SpaceId, StackEntry, Symbolized};

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
            texts.format(lines, &symbols);
        }
        for (line, id) in lines.iter().zip(0..) {
            let mut expected = Vec::new();
            line.style.lines(&mut expected, &line.address, &symbols);
            assert_eq!(texts.text(ChainLineId(id)), expected, "{line:?}");
        }
    }
}
