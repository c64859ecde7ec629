//! Functions listed by start address and size, as in perf maps.

use model::Avma;

/// The functions of generated code, sorted by address.
#[derive(Default)]
pub struct FunctionRanges {
    /// All names, concatenated.
    text: String,
    /// Sorted by start, without overlaps.
    entries: Vec<Entry>,
}

#[derive(Clone, Copy)]
struct Entry {
    start: u64,
    end: u64,
    /// Where the function starts: before `start` if a later function covers its beginning.
    function: u64,
    /// Offset and length in `text`.
    name: (usize, usize),
}

impl FunctionRanges {
    /// Builds the list from the start address, size in bytes and name of each function. Where two overlap, the later one
    /// in the list wins. Functions without a name or of size 0 are left out.
    pub fn new<'a>(functions: impl IntoIterator<Item = (u64, u64, &'a str)>) -> Self {
        let mut text = String::new();
        let entry = |(start, size, name): (u64, u64, &str)| {
            let end = start.checked_add(size).filter(|&end| end > start && !name.is_empty())?;
            let name_at = (text.len(), name.len());
            text.push_str(name);
            Some(Entry { start, end, function: start, name: name_at })
        };
        let entries = without_overlaps(functions.into_iter().filter_map(entry).collect());
        Self { entries, text }
    }

    /// Returns the name and start of the function that covers the address.
    pub fn find(&self, address: Avma) -> Option<(&str, Avma)> {
        let after = self.entries.partition_point(|entry| entry.start <= address.0);
        let entry = self.entries.get(after.checked_sub(1)?).filter(|entry| address.0 < entry.end)?;
        let (offset, length) = entry.name;
        Some((self.text.get(offset..offset + length)?, Avma(entry.function)))
    }

    /// Returns true if no function is listed.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

/// Splits functions where they overlap, so that the latest function in the list has the overlapping part.
fn without_overlaps(lines: Vec<Entry>) -> Vec<Entry> {
    let mut bounds: Vec<(u64, bool, usize)> = Vec::with_capacity(lines.len() * 2);
    for (index, line) in lines.iter().enumerate() {
        bounds.push((line.start, true, index));
        bounds.push((line.end, false, index));
    }
    bounds.sort_unstable_by_key(|&(address, _, _)| address);
    let mut open = std::collections::BTreeSet::new();
    let mut entries: Vec<Entry> = Vec::with_capacity(lines.len());
    let mut bounds = bounds.into_iter().peekable();
    while let Some((address, starts, index)) = bounds.next() {
        if starts {
            open.insert(index);
        } else {
            open.remove(&index);
        }
        let Some(&(next, _, _)) = bounds.peek() else { break };
        if next == address {
            continue;
        }
        if let Some(line) = open.last().and_then(|&index| lines.get(index)) {
            match entries.last_mut() {
                Some(last) if last.end == address && last.name == line.name => last.end = next,
                _ => entries.push(Entry { start: address, end: next, ..*line }),
            }
        }
    }
    entries
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_ones_win_and_bad_ones_are_left_out() {
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
