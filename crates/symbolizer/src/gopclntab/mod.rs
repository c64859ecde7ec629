//! `.gopclntab`: the table of functions and lines that Go's runtime uses. Stripping a program does not remove it.
//!
//! Source of the layout: Go's `src/debug/gosym/pclntab.go` and `src/runtime/symtab.go`. There are four versions; all
//! start with a magic number, two zero bytes, the instruction quantum and the size of a pointer.

mod line_table;
mod module_data;
mod section_bytes;

use elf::Object;

pub use line_table::{GoFrame, GoLineTable};
use module_data::ModuleData;
use section_bytes::SectionBytes;

/// A function of a Go program.
pub(crate) struct GoFunction {
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// The offset of its name in the section.
    pub(crate) name: u32,
}

/// The table's bytes, up to the end of their section, and the address of the first.
pub(crate) struct TableBytes<'a> {
    address: u64,
    pub(crate) data: &'a [u8],
}

impl<'a> TableBytes<'a> {
    /// Finds an object's table.
    pub(crate) fn of_object<D: AsRef<[u8]>>(object: &'a Object<D>) -> Option<Self> {
        // Position-independent programs have it as `.data.rel.ro.gopclntab`.
        let own = object.sections().iter().find(|section| section.name.ends_with(b".gopclntab"));
        if let Some(section) = own {
            return Some(Self { address: section.address.0, data: object.section_bytes(section).ok()? });
        }
        // Before Go 1.26, linkers of other languages put that into `.data.rel.ro`, among other data.
        let section = object.section(".data.rel.ro").filter(|_| object.has_go_code())?;
        let data = object.section_bytes(section).ok()?;
        let starts = (0..data.len()).step_by(if object.is_64() { 8 } else { 4 });
        let starts_table = |&at: &usize| {
            let rest = data.get(at..).unwrap_or_default();
            GoFunctionTable::read(rest, object.endian())
                .is_some_and(|table| table.is_plausible(object.is_64()))
        };
        let at = starts.into_iter().find(starts_table)?;
        Some(Self { address: section.address.0.checked_add(at as u64)?, data: data.get(at..)? })
    }
}

/// The function table of an object, with the offsets of the tables that it refers to.
pub(crate) struct GoFunctionTable<'a> {
    bytes: SectionBytes<'a>,
    version: Version,
    /// The address of the section.
    address: u64,
    /// The number of functions.
    count: usize,
    /// The offset that the offsets of names are relative to.
    names: usize,
    /// The offset of the list of functions.
    list: usize,
    /// The size of each of the two numbers of a list entry, in bytes.
    entry_width: usize,
    /// The address that function starts are relative to (`runtime.text`).
    text: u64,
    /// The address that the offsets of inlining trees are relative to, where known.
    trees: Option<u64>,
    /// The instruction quantum: the unit of address steps in value tables, in bytes.
    quantum: u64,
    /// The offset of the table that has the offsets of file names, by unit.
    units: usize,
    /// The offset that the offsets of file names are relative to.
    files: usize,
    /// The offset that the offsets of value tables are relative to.
    values: usize,
}

/// The Go release that introduced a version of the table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Version {
    Go1_2,
    Go1_16,
    Go1_18,
    Go1_20,
}

impl<'a> GoFunctionTable<'a> {
    /// Reads the table of an object; returns `None` where it has none, one of another version, or one that does not tell
    /// where the functions lie.
    pub(crate) fn of_object<D: AsRef<[u8]>>(object: &'a Object<D>) -> Option<Self> {
        let TableBytes { address, data } = TableBytes::of_object(object)?;
        let table = Self { address, ..Self::read(data, object.endian())? };
        match ModuleData::find(&table, object) {
            Some(module) => Some(Self { text: module.text, trees: Some(module.trees), ..table }),
            None => Some(table).filter(|table| table.version < Version::Go1_18 || table.text != 0),
        }
    }

    fn read(data: &'a [u8], endian: elf::Endianness) -> Option<Self> {
        let pointer = usize::from(*data.get(7)?);
        if !matches!(pointer, 4 | 8) || data.get(4..6)? != [0, 0] {
            return None;
        }
        let bytes = SectionBytes { data, endian, pointer };
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
            trees: None,
            quantum: u64::from(*data.get(6)?).max(1),
            units: 0,
            files: 0,
            values: 0,
        };
        let table = match magic {
            // Go 1.2 to 1.15: the list follows, and all offsets are relative to the start of the table. The end of the
            // last function and the offset of the file table follow the list.
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
            // 1.18 and 1.20: addresses are relative to the start of Go's functions in the text. It is 0 where the dynamic
            // linker relocates it, and since Go 1.26.
            0xffff_fff0 | 0xffff_fff1 => Self {
                version: if magic == 0xffff_fff0 { Version::Go1_18 } else { Version::Go1_20 },
                text: word(2)?,
                names: offset(3)?,
                units: offset(4)?,
                files: offset(5)?,
                values: offset(6)?,
                list: offset(7)?,
                entry_width: 4,
                ..old
            },
            _ => return None,
        };
        Some(table)
    }

    /// Returns true if the sizes in the header are those of a table, and not of other data with the same first bytes.
    fn is_plausible(&self, is_64: bool) -> bool {
        self.bytes.pointer == if is_64 { 8 } else { 4 }
            && matches!(self.quantum, 1 | 2 | 4)
            && self.count > 0
            && self.entry(self.count, 0).is_some()
    }

    /// Reads a number of a list entry: number 0 is where the function starts, 1 the offset of its description.
    fn entry(&self, index: usize, number: usize) -> Option<u64> {
        let at = index.checked_mul(2)?.checked_add(number)?.checked_mul(self.entry_width)?;
        self.bytes.number(at.checked_add(self.list)?, self.entry_width)
    }

    fn start(&self, index: usize) -> Option<u64> {
        self.text.checked_add(self.entry(index, 0)?)
    }

    /// Returns the offset of the fields in a function's description that follow its address.
    fn description(&self, index: usize) -> Option<usize> {
        // Relative to the start of the table in 1.2, and to the list since 1.16.
        let base = if self.version == Version::Go1_2 { 0 } else { self.list };
        let width = if self.version < Version::Go1_18 { self.bytes.pointer } else { 4 };
        base.checked_add(usize::try_from(self.entry(index, 1)?).ok()?)?.checked_add(width)
    }

    fn name(&self, offset: u64) -> Option<&'a [u8]> {
        self.bytes.text(self.names.checked_add(usize::try_from(offset).ok()?)?)
    }

    /// Returns the number of functions, at most as many as the section has bytes for.
    fn count(&self) -> usize {
        self.count.min(self.bytes.data.len() / (2 * self.entry_width))
    }

    /// Returns all functions in the order of the table. Skips functions that cannot be read, and stops at the end of the
    /// section.
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
        let table = GoFunctionTable::read(bytes, Endianness::Little);
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
