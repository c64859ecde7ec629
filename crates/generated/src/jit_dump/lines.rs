//! Source lines of generated code: `JIT_CODE_DEBUG_INFO`.

use std::collections::HashMap;
use std::mem;

use model::Name;

use super::OBJECT_HEADER_BYTES;
use super::record::{Endian, Fields};

/// Names the file of the entry before.
const SAME_FILE: &[u8] = &[0xff];

/// A source line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Line<'a> {
    /// The file as the runtime names it.
    pub file: &'a str,
    /// The line, as the runtime counts.
    pub line: u32,
    /// The column, or what the runtime tells instead ("discriminator").
    pub column: u32,
}

/// The lines of one function.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Lines {
    first: usize,
    count: usize,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    /// The address; once the function is loaded, the offset from its first byte.
    address: u64,
    line: u32,
    column: u32,
    file: u32,
}

/// The lines of all functions.
#[derive(Default, Debug)]
pub(super) struct LineTable {
    entries: Vec<Entry>,
    files: Vec<String>,
    /// The numbers of files. The profiled process chooses the names, so the map has a random hash key.
    numbers: HashMap<String, u32>,
    file_bytes: usize,
}

impl LineTable {
    /// Parses the body of a record. Returns the address of the function that it is about, and its lines.
    pub(super) fn parse(&mut self, bytes: &[u8], endian: Endian) -> Option<(u64, Lines)> {
        let mut fields = Fields::new(bytes, endian);
        let (code, mut left) = (fields.u64()?, fields.u64()?);
        let first = self.entries.len();
        let mut file = None;
        let mut next = || -> Option<Entry> {
            left = left.checked_sub(1)?;
            let (address, line, column) = (fields.u64()?, fields.u32()?, fields.u32()?);
            let number = match fields.text()? {
                SAME_FILE => file?,
                name => self.file(name),
            };
            file = Some(number);
            Some(Entry { address, line, column, file: number })
        };
        let entries: Vec<Entry> = std::iter::from_fn(&mut next).collect();
        if left > 0 {
            return None;
        }
        self.entries.extend(entries);
        Some((code, Lines { first, count: self.entries.len() - first }))
    }

    fn file(&mut self, name: &[u8]) -> u32 {
        let text = String::from_utf8_lossy(name);
        let name = Name::cut(&text);
        if let Some(&number) = self.numbers.get(name.as_ref()) {
            return number;
        }
        // Each takes bytes of its own, of which there are fewer.
        let number = self.files.len() as u32;
        self.file_bytes += name.len();
        self.numbers.insert(name.clone().into_owned(), number);
        self.files.push(name.into_owned());
        number
    }

    /// Makes addresses count from the function's first byte, in ascending order.
    pub(super) fn relative(&mut self, lines: Lines, start: u64, size: u64) -> Lines {
        let Some(entries) = self.entries.get_mut(lines.first..lines.first + lines.count) else {
            return Lines::default();
        };
        let least = entries.iter().map(|entry| entry.address).min().unwrap_or(start).wrapping_sub(start);
        let most = entries.iter().map(|entry| entry.address).max().unwrap_or(start).wrapping_sub(start);
        let is_shifted = least == OBJECT_HEADER_BYTES || (least > OBJECT_HEADER_BYTES && most >= size);
        let zero = if is_shifted { start.wrapping_add(OBJECT_HEADER_BYTES) } else { start };
        for entry in entries.iter_mut() {
            entry.address = entry.address.wrapping_sub(zero);
        }
        entries.sort_by_key(|entry| entry.address);
        lines
    }

    /// Finds the source line at `offset` bytes from the function's first.
    pub(super) fn find(&self, lines: Lines, offset: u64) -> Option<Line<'_>> {
        let entries = self.entries.get(lines.first..lines.first + lines.count)?;
        let after = entries.partition_point(|entry| entry.address <= offset);
        let entry = entries.get(after.checked_sub(1)?)?;
        let file = self.files.get(entry.file as usize)?;
        Some(Line { file, line: entry.line, column: entry.column })
    }

    /// The memory that it takes.
    pub(super) fn bytes(&self) -> usize {
        self.entries.len() * mem::size_of::<Entry>() + 2 * self.file_bytes
    }
}
