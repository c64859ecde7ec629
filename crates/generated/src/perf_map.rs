//! Perf maps (`/tmp/perf-PID.map`), in which a runtime names the code that it generates: one `START SIZE name` per line, both numbers
//! hexadecimal (tools/perf/Documentation/jit-interface.txt).
//!
//! A map is as long as its process likes, and has a thousand functions for each one that was sampled. So it is not kept: each line is
//! held against the sampled addresses, and only the names of these are kept.

use std::ops::ControlFlow;

use model::{Avma, Name};

/// The maximum size of the names of all functions that are found, in bytes.
const MAX_NAMES_BYTES: usize = 32 << 20;

/// Searches a perf map for the functions of a set of addresses.
///
/// Code is freed and its memory used again, while the map only grows. So the last line that covers an address names it. The caller pushes
/// lines from the last one to the first, and the first that covers an address gives its name. Memory grows with the addresses, time with
/// the lines.
#[derive(Debug)]
pub struct PerfMapSearch {
    /// Ascending, each once.
    addresses: Vec<u64>,
    /// The number of each address's function, plus one; 0 where there is none yet.
    found: Vec<u32>,
    /// For each address, and for the end, the index of one at or behind it that may have no function yet (a union-find forest: paths
    /// get shorter as they are followed).
    next: Vec<usize>,
    unnamed: usize,
    functions: Vec<(String, u64)>,
    /// Bytes of names.
    bytes: usize,
    cut_names: usize,
}

impl PerfMapSearch {
    /// Creates a search for these addresses.
    pub fn new(addresses: impl IntoIterator<Item = Avma>) -> Self {
        let mut addresses: Vec<u64> = addresses.into_iter().map(|address| address.0).collect();
        addresses.sort_unstable();
        addresses.dedup();
        Self {
            found: vec![0; addresses.len()],
            next: (0..=addresses.len()).collect(),
            unnamed: addresses.len(),
            addresses,
            functions: Vec::new(),
            bytes: 0,
            cut_names: 0,
        }
    }

    /// Applies a line of the map. Lines must come from the last one to the first. Breaks when no further line is needed. A malformed line is
    /// ignored: a runtime may still be writing the last one.
    pub fn push_line(&mut self, line: &[u8]) -> ControlFlow<()> {
        if let Some((start, end, name)) = parse(line) {
            let first = self.addresses.partition_point(|&address| address < start);
            let mut index = self.unnamed_from(first);
            if self.addresses.get(index).is_some_and(|&address| address < end) {
                let number = self.push_function(name, start);
                while self.addresses.get(index).is_some_and(|&address| address < end) {
                    self.found[index] = number;
                    self.next[index] = index + 1;
                    self.unnamed -= 1;
                    index = self.unnamed_from(index + 1);
                }
            }
        }
        if self.unnamed == 0 || self.bytes > MAX_NAMES_BYTES {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }

    /// Returns the function of one of the addresses, and where it starts.
    pub fn find(&self, address: Avma) -> Option<(&str, Avma)> {
        let index = self.addresses.binary_search(&address.0).ok()?;
        let number = self.found.get(index)?.checked_sub(1)?;
        let (name, start) = self.functions.get(number as usize)?;
        Some((name, Avma(*start)))
    }

    /// Returns the number of names that were cut, because they are longer than [`Name::MAX_BYTES`].
    pub fn cut_names(&self) -> usize {
        self.cut_names
    }

    /// The first address at or behind `index` that has no function yet, or the end.
    fn unnamed_from(&mut self, index: usize) -> usize {
        let mut last = index;
        while self.next[last] != last {
            last = self.next[last];
        }
        let mut passed = index;
        while self.next[passed] != last {
            passed = std::mem::replace(&mut self.next[passed], last);
        }
        last
    }

    /// The number of a function that is new, plus one.
    fn push_function(&mut self, name: &[u8], start: u64) -> u32 {
        let text = String::from_utf8_lossy(name);
        let name = Name::cut(&text);
        self.cut_names += usize::from(name.len() < text.len());
        self.bytes += name.len();
        self.functions.push((name.into_owned(), start));
        // There are no more functions than addresses, and 2³² of those would not fit into memory.
        self.functions.len() as u32
    }
}

/// First address, the one behind the last, and the name.
fn parse(line: &[u8]) -> Option<(u64, u64, &[u8])> {
    let (start, rest) = number(line.trim_ascii_start())?;
    let (size, name) = number(rest)?;
    let (end, name) = (start.checked_add(size)?, name.trim_ascii_end());
    (size > 0 && !name.is_empty()).then_some((start, end, name))
}

/// A hexadecimal number, and what comes behind the blank after it.
fn number(text: &[u8]) -> Option<(u64, &[u8])> {
    let digits = text.strip_prefix(b"0x").unwrap_or(text);
    let mut value = 0_u64;
    for (index, &byte) in digits.iter().enumerate() {
        match char::from(byte).to_digit(16) {
            Some(digit) if value >> 60 == 0 => value = value << 4 | u64::from(digit),
            None if byte == b' ' && index > 0 => return Some((value, &digits[index + 1..])),
            _ => return None,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn search(text: &str, addresses: &[u64]) -> PerfMapSearch {
        let mut search = PerfMapSearch::new(addresses.iter().copied().map(Avma));
        for line in text.lines().rev() {
            if search.push_line(line.as_bytes()).is_break() {
                break;
            }
        }
        search
    }

    #[test]
    fn the_last_line_names_an_address_and_bad_ones_none() {
        let text = "1000 100 first\n2000 0 empty\n0x3000 0x10 with blanks in it \nrubbish\n1040 20 second\n\
                    ffffffffffffffff 10 over\n11112222333344445 1 long\n 5000 8  both\n6000  8 c\n4000 1";
        let addresses = [0x1000, 0x1040, 0x1060, 0x10ff, 0x1100, 0x2000, 0x300f, 0x4000, 0x5000, 0x6000];
        let map = search(text, &addresses);
        let name = |address| map.find(Avma(address)).map(|(name, start)| (name, start.0));
        assert_eq!(name(0x1000), Some(("first", 0x1000)));
        assert_eq!(name(0x1040), Some(("second", 0x1040)));
        assert_eq!(name(0x1060), Some(("first", 0x1000)));
        assert_eq!(name(0x10ff), Some(("first", 0x1000)));
        for nameless in [0x1100, 0x2000, 0x4000, 0x6000, 0x1041] {
            assert_eq!(name(nameless), None, "{nameless:x}");
        }
        assert_eq!(name(0x300f), Some(("with blanks in it", 0x3000)));
        assert_eq!(name(0x5000), Some((" both", 0x5000)));
    }

    #[test]
    fn reading_ends_when_every_address_has_its_name() {
        let mut search = PerfMapSearch::new([Avma(0x1000), Avma(0x2000), Avma(0x1000)]);
        assert!(search.push_line(b"1000 10 one").is_continue());
        assert!(search.push_line(b"1000 10 older").is_continue());
        assert!(search.push_line(b"2000 10 two").is_break());
        assert_eq!(search.find(Avma(0x1000)), Some(("one", Avma(0x1000))));
        assert!(PerfMapSearch::new([]).push_line(b"1000 10 one").is_break());
    }

    #[test]
    fn long_names_are_cut_and_counted() {
        let mut search = PerfMapSearch::new([Avma(0x1000)]);
        let line = ["1000 10 ", &"é".repeat(Name::MAX_BYTES)].concat();
        assert!(search.push_line(line.as_bytes()).is_break());
        assert!(Name::is_cut(search.find(Avma(0x1000)).unwrap().0));
        assert_eq!(search.cut_names(), 1);
    }

    proptest! {
        #[test]
        fn names_are_those_of_a_list_in_which_later_ones_win(
            lines in prop::collection::vec((0_u64..64, 0_u64..32), 0..40),
        ) {
            let names: Vec<String> = (0..lines.len()).map(|number| format!("f{number}")).collect();
            let text: Vec<String> =
                lines.iter().zip(&names).map(|((start, size), name)| format!("{start:x} {size:x} {name}")).collect();
            let addresses: Vec<u64> = (0..100).collect();
            let search = search(&text.join("\n"), &addresses);
            for address in addresses {
                let covers = |&(start, size): &(u64, u64)| (start..start + size).contains(&address);
                let last = lines.iter().rposition(covers);
                let expected = last.map(|number| (names[number].as_str(), Avma(lines[number].0)));
                prop_assert_eq!(search.find(Avma(address)), expected);
            }
        }
    }
}
