//! Functions listed by start address and size, as some recordings have them.

use model::Avma;

use crate::symbol_table::MAX_EXAMINED_SYMBOLS;

/// Functions of a list, sorted by address.
#[derive(Default)]
pub struct FunctionRanges {
    /// All names, concatenated.
    text: String,
    /// Sorted by start; of those that start at the same address, the later one in the list comes last.
    entries: Vec<Entry>,
}

struct Entry {
    start: u64,
    end: u64,
    /// Offset and length in `text`.
    name: (usize, usize),
}

impl FunctionRanges {
    /// Builds the list from the start address, size in bytes and name of each function. Functions without a name or of size 0 are left
    /// out.
    pub fn new<'a>(functions: impl IntoIterator<Item = (u64, u64, &'a str)>) -> Self {
        let mut text = String::new();
        let entry = |(start, size, name): (u64, u64, &str)| {
            let end = start.checked_add(size).filter(|&end| end > start && !name.is_empty())?;
            let name_at = (text.len(), name.len());
            text.push_str(name);
            Some(Entry { start, end, name: name_at })
        };
        let mut entries: Vec<Entry> = functions.into_iter().filter_map(entry).collect();
        entries.sort_by_key(|entry| entry.start);
        Self { entries, text }
    }

    /// Returns the name and start of the function that covers the address: of several, the one that starts last.
    pub fn find(&self, address: Avma) -> Option<(&str, Avma)> {
        let after = self.entries.partition_point(|entry| entry.start <= address.0);
        let mut before = self.entries.get(..after)?.iter().rev().take(MAX_EXAMINED_SYMBOLS);
        let entry = before.find(|entry| address.0 < entry.end)?;
        let (offset, length) = entry.name;
        Some((self.text.get(offset..offset + length)?, Avma(entry.start)))
    }

    /// Returns true if no function is listed.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_wins_and_bad_ones_are_left_out() {
        let functions = FunctionRanges::new([
            (0x1000, 0x100, "first"),
            (0x2000, 0, "empty"),
            (0x3000, 0x10, ""),
            (0x1040, 0x20, "second"),
            (u64::MAX, 0x10, "over"),
        ]);
        let name = |address| functions.find(Avma(address)).map(|(name, start)| (name, start.0));
        assert_eq!(name(0x1000), Some(("first", 0x1000)));
        assert_eq!(name(0x1040), Some(("second", 0x1040)));
        assert_eq!(name(0x1060), Some(("first", 0x1000)));
        assert_eq!(name(0x10ff), Some(("first", 0x1000)));
        assert_eq!(name(0x1100), None);
        assert_eq!(name(0x2000), None);
        assert_eq!(name(0x3000), None);
        assert_eq!(name(u64::MAX), None);
    }
}
