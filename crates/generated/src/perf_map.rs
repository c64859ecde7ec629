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
/// Code is freed and its memory used again, while the map only grows, and has no times. So the last line that covers an address names it,
/// and the last one before it with another name is an alternative: the address may have been sampled while that function was there. The
/// caller pushes lines from the last one to the first. Memory grows with the addresses, time with the lines.
#[derive(Debug)]
pub struct PerfMapSearch {
    /// Ascending, each once.
    addresses: Vec<u64>,
    found: Vec<Found>,
    /// For each address, and for the end, the index of one at or behind it that further lines may tell of (a union-find forest:
    /// paths get shorter as they are followed).
    next: Vec<usize>,
    /// The number of addresses that further lines may tell of.
    open: usize,
    functions: Vec<(String, u64)>,
    /// The size of all names so far, in bytes.
    bytes: usize,
    cut_names: usize,
}

/// The functions that lines have named for one address so far.
#[derive(Clone, Copy, Default, Debug)]
struct Found {
    /// The number of its function, plus one; 0 where there is none yet.
    function: u32,
    /// The number of an earlier function with another name, plus one; 0 where there is none.
    earlier: u32,
    /// The number of lines that covered it.
    lines: u32,
}

/// The number of lines about an address that are compared. A hostile map can have millions.
const MAX_LINES: u32 = 256;

/// A function that a perf map lists.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MappedFunction<'a> {
    /// The name of the function.
    pub name: &'a str,
    /// The address of its first byte.
    pub start: Avma,
    /// The name of another function that the map lists for the same address before this one.
    pub earlier: Option<&'a str>,
}

impl PerfMapSearch {
    /// Creates a search for these addresses.
    pub fn new(addresses: impl IntoIterator<Item = Avma>) -> Self {
        let mut addresses: Vec<u64> = addresses.into_iter().map(|address| address.0).collect();
        addresses.sort_unstable();
        addresses.dedup();
        Self {
            found: vec![Found::default(); addresses.len()],
            next: (0..=addresses.len()).collect(),
            open: addresses.len(),
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
            let mut index = self.open_from(first);
            // The number of the line's function, where an address is the first to need it.
            let mut number = None;
            while self.addresses.get(index).is_some_and(|&address| address < end) {
                self.cover(index, &mut number, name, start);
                index = self.open_from(index + 1);
            }
        }
        if self.open == 0 || self.bytes > MAX_NAMES_BYTES {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }

    /// Records that a function covers the address at `index`.
    fn cover(&mut self, index: usize, number: &mut Option<u32>, name: &[u8], start: u64) {
        let mut found = self.found[index];
        found.lines += 1;
        let known = found.function.checked_sub(1).and_then(|known| self.functions.get(known as usize));
        let is_known =
            known.is_some_and(|(known, _)| Name::cut(&String::from_utf8_lossy(name)) == known.as_str());
        if !is_known {
            let number = *number.get_or_insert_with(|| self.push_function(name, start));
            match found.function {
                0 => found.function = number,
                _ => found.earlier = number,
            }
        }
        if found.earlier != 0 || found.lines == MAX_LINES {
            self.next[index] = index + 1;
            self.open -= 1;
        }
        self.found[index] = found;
    }

    /// Returns the function of one of the addresses.
    pub fn find(&self, address: Avma) -> Option<MappedFunction<'_>> {
        let index = self.addresses.binary_search(&address.0).ok()?;
        let found = self.found.get(index)?;
        let function = |number: u32| self.functions.get(number.checked_sub(1)? as usize);
        let (name, start) = function(found.function)?;
        let earlier = function(found.earlier).map(|(name, _)| name.as_str());
        Some(MappedFunction { name, start: Avma(*start), earlier })
    }

    /// Returns the number of names that were cut, because they are longer than [`Name::MAX_BYTES`].
    pub fn cut_names(&self) -> usize {
        self.cut_names
    }

    /// Returns the index of the first address at or behind `index` that further lines may tell of, or the end.
    fn open_from(&mut self, index: usize) -> usize {
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

    /// Adds a function, and returns its number plus one.
    fn push_function(&mut self, name: &[u8], start: u64) -> u32 {
        let text = String::from_utf8_lossy(name);
        let name = Name::cut(&text);
        self.cut_names += usize::from(name.len() < text.len());
        self.bytes += name.len();
        self.functions.push((name.into_owned(), start));
        // There are no more than two functions for each address, and 2³² would not fit into memory.
        self.functions.len() as u32
    }
}

/// Parses a line into the first address, the one behind the last, and the name.
fn parse(line: &[u8]) -> Option<(u64, u64, &[u8])> {
    let (start, rest) = number(line.trim_ascii_start())?;
    let (size, name) = number(rest)?;
    let (end, name) = (start.checked_add(size)?, name.trim_ascii_end());
    (size > 0 && !name.is_empty()).then_some((start, end, name))
}

/// Parses a hexadecimal number, and returns what follows the blank after it, too.
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
        let name = |address| map.find(Avma(address)).map(|found| (found.name, found.start.0));
        assert_eq!(name(0x1000), Some(("first", 0x1000)));
        assert_eq!(name(0x1040), Some(("second", 0x1040)));
        assert_eq!(name(0x1060), Some(("first", 0x1000)));
        assert_eq!(name(0x10ff), Some(("first", 0x1000)));
        for nameless in [0x1100, 0x2000, 0x4000, 0x6000, 0x1041] {
            assert_eq!(name(nameless), None, "{nameless:x}");
        }
        assert_eq!(name(0x300f), Some(("with blanks in it", 0x3000)));
        assert_eq!(name(0x5000), Some((" both", 0x5000)));
        assert_eq!(map.find(Avma(0x1040)).unwrap().earlier, Some("first"));
        assert_eq!(map.find(Avma(0x1060)).unwrap().earlier, None);
    }

    #[test]
    fn an_earlier_function_with_another_name_is_an_alternative() {
        let text = "1000 40 eldest\n1000 40 elder\n1000 40 same\n1020 8 inner\n1000 40 same";
        let map = search(text, &[0x1000, 0x1020]);
        let found = |address| map.find(Avma(address)).map(|found| (found.name, found.earlier));
        assert_eq!(found(0x1000), Some(("same", Some("elder"))));
        assert_eq!(found(0x1020), Some(("same", Some("inner"))));
        let repeated = search(&"1000 40 same\n".repeat(1000), &[0x1000]);
        assert_eq!(repeated.find(Avma(0x1000)).unwrap().earlier, None);
    }

    #[test]
    fn reading_ends_when_every_address_has_its_names() {
        let mut search = PerfMapSearch::new([Avma(0x1000), Avma(0x2000), Avma(0x1000)]);
        assert!(search.push_line(b"1000 10 one").is_continue());
        assert!(search.push_line(b"1000 10 older").is_continue());
        assert!(search.push_line(b"2000 10 two").is_continue());
        assert!(search.push_line(b"2000 10 older").is_break());
        let expected = MappedFunction { name: "one", start: Avma(0x1000), earlier: Some("older") };
        assert_eq!(search.find(Avma(0x1000)), Some(expected));
        assert!(PerfMapSearch::new([]).push_line(b"1000 10 one").is_break());
    }

    #[test]
    fn long_names_are_cut_and_counted() {
        let mut search = PerfMapSearch::new([Avma(0x1000)]);
        let line = ["1000 10 ", &"é".repeat(Name::MAX_BYTES)].concat();
        assert!(search.push_line(line.as_bytes()).is_continue());
        assert!(Name::is_cut(search.find(Avma(0x1000)).unwrap().name));
        assert!(search.push_line(line.as_bytes()).is_continue());
        assert_eq!(search.find(Avma(0x1000)).unwrap().earlier, None);
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
                let earlier = last.and_then(|last| lines[..last].iter().rposition(covers));
                let expected = last.map(|number| MappedFunction {
                    name: &names[number],
                    start: Avma(lines[number].0),
                    earlier: earlier.map(|number| names[number].as_str()),
                });
                prop_assert_eq!(search.find(Avma(address)), expected);
            }
        }
    }
}
