//! `.gopclntab`: the table by which a Go program knows its own functions. It stays when a program is stripped.
//!
//! Source of the layout: Go's `src/debug/gosym/pclntab.go` and `src/runtime/symtab.go`. There are four versions; all
//! start with a magic number, two zero bytes, the instruction quantum and the size of a pointer.

mod bytes;
mod places;

use elf::{Object, Section};

use bytes::Bytes;
pub(crate) use places::GoPlaces;

/// A function of a Go program.
pub(crate) struct GoFunction {
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// The offset of its name in the section.
    pub(crate) name: u32,
}

/// The section with an object's table, and its bytes.
pub(crate) fn section<D: AsRef<[u8]>>(object: &Object<D>) -> Option<(&Section, &[u8])> {
    // Position-independent programs have it among the relocated data.
    let section = object.sections().iter().find(|section| section.name.ends_with(b".gopclntab"))?;
    Some((section, object.section_bytes(section).ok()?))
}

/// An object's table.
pub(crate) struct Table<'a> {
    bytes: Bytes<'a>,
    version: Version,
    /// The address at which it will be loaded.
    address: u64,
    /// The number of functions.
    count: usize,
    /// The offset that names are counted from.
    names: usize,
    /// The offset of the list of functions, from which its entries are counted.
    list: usize,
    /// The size of each of the two numbers of an entry.
    entry_width: usize,
    /// The address that addresses are counted from.
    text: u64,
    /// Instructions start at multiples of this.
    quantum: u64,
    /// The offsets that offsets of file names (by unit), file names and tables of values by address are counted from.
    units: usize,
    files: usize,
    values: usize,
}

/// The Go release that a form of the table came with.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Version {
    Go1_2,
    Go1_16,
    Go1_18,
    Go1_20,
}

impl<'a> Table<'a> {
    /// The object's table; `None` where it has none that can be read.
    pub(crate) fn of_object<D: AsRef<[u8]>>(object: &'a Object<D>) -> Option<Self> {
        let (section, data) = section(object)?;
        let text = object.section(".text").map_or(0, |section| section.address.0);
        let table = Self::read(data, object.endian(), text)?;
        Some(Self { address: section.address.0, ..table })
    }

    fn read(data: &'a [u8], endian: elf::Endianness, text: u64) -> Option<Self> {
        let pointer = usize::from(*data.get(7)?);
        if !matches!(pointer, 4 | 8) || data.get(4..6)? != [0, 0] {
            return None;
        }
        let bytes = Bytes { data, endian, pointer };
        let magic = bytes.number(0, 4)?;
        let word = |index: usize| bytes.number(8 + index * pointer, pointer);
        let offset = |index| usize::try_from(word(index)?).ok();
        let count = offset(0)?;
        let old = Self {
            bytes,
            version: Version::Go1_2,
            address: 0,
            count,
            names: 0,
            list: 8 + pointer,
            entry_width: pointer,
            text: 0,
            quantum: u64::from(*data.get(6)?).max(1),
            units: 0,
            files: 0,
            values: 0,
        };
        let table = match magic {
            // Go 1.2 to 1.15: the list follows, everything else is counted from the table's start. Behind the list, and
            // the end of its last function, is the offset of the list of files.
            0xffff_fffb => {
                let behind =
                    old.list.checked_add(count.checked_mul(2)?.checked_add(1)?.checked_mul(pointer)?)?;
                Self { files: usize::try_from(bytes.number(behind, 4).unwrap_or(0)).ok()?, ..old }
            }
            0xffff_fffa => Self {
                version: Version::Go1_16,
                names: offset(2)?,
                units: offset(3)?,
                files: offset(4)?,
                values: offset(5)?,
                list: offset(6)?,
                ..old
            },
            // 1.18 and 1.20: addresses are counted from where the text starts. Of a position-independent program
            // that is filled in when it is loaded.
            0xffff_fff0 | 0xffff_fff1 => {
                let start = word(2)?;
                Self {
                    version: if magic == 0xffff_fff0 { Version::Go1_18 } else { Version::Go1_20 },
                    text: if start == 0 { text } else { start },
                    names: offset(3)?,
                    units: offset(4)?,
                    files: offset(5)?,
                    values: offset(6)?,
                    list: offset(7)?,
                    entry_width: 4,
                    ..old
                }
            }
            _ => return None,
        };
        Some(table)
    }

    /// A number of an entry of the list: 0 for where the function starts, 1 for where its description is.
    fn entry(&self, index: usize, part: usize) -> Option<u64> {
        let at = index.checked_mul(2)?.checked_add(part)?.checked_mul(self.entry_width)?;
        self.bytes.number(at.checked_add(self.list)?, self.entry_width)
    }

    fn start(&self, index: usize) -> Option<u64> {
        self.text.checked_add(self.entry(index, 0)?)
    }

    /// The offset of a function's description, behind its address.
    fn description(&self, index: usize) -> Option<usize> {
        // In 1.2 counted from the table's start, later from the list's.
        let base = if self.version == Version::Go1_2 { 0 } else { self.list };
        let width = if self.version < Version::Go1_18 { self.bytes.pointer } else { 4 };
        base.checked_add(usize::try_from(self.entry(index, 1)?).ok()?)?.checked_add(width)
    }

    fn name(&self, offset: u64) -> Option<&'a [u8]> {
        self.bytes.text(self.names.checked_add(usize::try_from(offset).ok()?)?)
    }

    /// The table cannot list more functions than it has room for.
    fn count(&self) -> usize {
        self.count.min(self.bytes.data.len() / (2 * self.entry_width))
    }

    /// All functions, in the table's order. One that cannot be read leaves a hole; behind the table's end there are no
    /// more.
    pub(crate) fn functions(&self) -> Vec<GoFunction> {
        let function = |index: usize| {
            let (start, end) = (self.start(index)?, self.start(index + 1)?);
            let offset = self.bytes.number(self.description(index)?, 4)?;
            let is_named = self.name(offset).is_some_and(|name| !name.is_empty());
            let name = u32::try_from(self.names.checked_add(usize::try_from(offset).ok()?)?).ok()?;
            (start < end && is_named).then_some(GoFunction { start, end, name })
        };
        (0..self.count()).map_while(|index| self.entry(index, 1).map(|_| function(index))).flatten().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use elf::Endianness;

    /// A table of Go 1.20 with two functions.
    fn table() -> Vec<u8> {
        let mut bytes = vec![0xf1, 0xff, 0xff, 0xff, 0, 0, 1, 8];
        let header = 8 + 8 * 8;
        let names = b"main.main\0main.other\0\0\0\0";
        let list = header + names.len();
        for word in [2, 0, 0x40_1000, header, 0, 0, 0, list] {
            bytes.extend_from_slice(&(word as u64).to_le_bytes());
        }
        bytes.extend_from_slice(names);
        // Each: offset of the code, offset of the description, counted from the list.
        for word in [0_u32, 20, 0x20, 28, 0x50] {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        for (code, name) in [(0_u32, 0_u32), (0x20, 10)] {
            bytes.extend_from_slice(&code.to_le_bytes());
            bytes.extend_from_slice(&name.to_le_bytes());
        }
        bytes
    }

    fn read(bytes: &[u8]) -> Vec<(u64, u64, String)> {
        let table = Table::read(bytes, Endianness::Little, 0x1000);
        let functions = table.map(|table| table.functions()).unwrap_or_default();
        functions
            .into_iter()
            .map(|f| {
                (f.start, f.end, String::from_utf8_lossy(elf::name_at(bytes, f.name as usize)).into_owned())
            })
            .collect()
    }

    #[test]
    fn functions_end_where_the_next_starts() {
        let functions = read(&table());
        assert_eq!(functions[0], (0x40_1000, 0x40_1020, String::from("main.main")));
        assert_eq!(functions[1], (0x40_1020, 0x40_1050, String::from("main.other")));
        assert_eq!(functions.len(), 2);
    }

    #[test]
    fn damaged_tables_give_less_and_never_panic() {
        let table = table();
        for cut in 0..table.len() {
            read(&table[..cut]);
            for value in [0, 1, 0x7f, 0xff] {
                let mut damaged = table.clone();
                damaged[cut] = value;
                read(&damaged);
            }
        }
    }
}
