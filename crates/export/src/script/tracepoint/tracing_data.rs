//! The TRACING_DATA section: formats of tracepoints (`tools/perf/util/trace-event-info.c`).

use std::collections::HashMap;
use std::sync::Arc;

use thiserror::Error;

use super::cursor::Cursor;
use super::format::Format;

/// What is wrong with tracing data.
#[derive(Clone, PartialEq, Eq, Error, Debug)]
pub enum TracingDataError {
    /// The first bytes are others.
    #[error("tracing data begin with {found:02x?}, not with 17 08 44 and `tracing`")]
    Magic {
        /// What they are.
        found: Vec<u8>,
    },
    /// A part is longer than what is left.
    #[error("tracing data end inside {field}: {len} bytes at offset {offset}, {available} are left")]
    Cut {
        /// The part.
        field: &'static str,
        /// Where it begins.
        offset: usize,
        /// How long it claims to be.
        len: u64,
        /// How much is there.
        available: usize,
    },
    /// A string without its NUL.
    #[error("{field} at offset {offset} of the tracing data has no end")]
    Unterminated {
        /// The string.
        field: &'static str,
        /// Where it begins.
        offset: usize,
    },
}

/// The formats of a recording's tracepoints.
#[derive(Default, Debug)]
pub struct TracingData {
    // With a keyed hash: a hostile file chooses the ids.
    formats: HashMap<u64, Format>,
}

impl TracingData {
    /// Reads a TRACING_DATA section. Formats that make no sense are left out; of data that break off, what was read
    /// before stays, and the error says where.
    pub fn parse(bytes: &[u8]) -> (Self, Option<TracingDataError>) {
        let mut data = Self::default();
        let error = data.read(&mut Cursor::new(bytes)).err();
        (data, error)
    }

    /// The format of the tracepoint with this id (`attr.config`).
    pub fn format(&self, id: u64) -> Option<&Format> {
        self.formats.get(&id)
    }

    /// All formats.
    pub fn formats(&self) -> impl Iterator<Item = &Format> {
        self.formats.values()
    }

    /// How many formats there are.
    pub fn len(&self) -> usize {
        self.formats.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.formats.is_empty()
    }

    fn read(&mut self, cursor: &mut Cursor<'_>) -> Result<(), TracingDataError> {
        let magic = cursor.take("magic", 10)?;
        if magic != b"\x17\x08\x44tracing" {
            return Err(TracingDataError::Magic { found: magic.to_vec() });
        }
        cursor.string("version")?;
        cursor.big_endian = cursor.u8("byte order")? != 0;
        let long_size = cursor.u8("long size")?;
        cursor.u32("page size")?;
        for name in ["header_page", "header_event"] {
            cursor.string(name)?;
            let len = cursor.u64("header size")?;
            cursor.take("header", len)?;
        }
        for _ in 0..cursor.u32("count of ftrace formats")? {
            self.read_format(cursor, long_size)?;
        }
        for _ in 0..cursor.u32("count of systems")? {
            cursor.string("system name")?;
            for _ in 0..cursor.u32("count of formats")? {
                self.read_format(cursor, long_size)?;
            }
        }
        let symbols = cursor.u32("kallsyms size")?;
        cursor.take("kallsyms", symbols.into())?;
        let len = cursor.u32("printk formats size")?;
        let strings = Arc::new(strings(&String::from_utf8_lossy(cursor.take("printk formats", len.into())?)));
        self.formats.values_mut().for_each(|format| format.strings = Arc::clone(&strings));
        // Behind them lie saved names, which say nothing about fields.
        Ok(())
    }

    fn read_format(&mut self, cursor: &mut Cursor<'_>, long_size: u8) -> Result<(), TracingDataError> {
        let len = cursor.u64("format size")?;
        let text = cursor.take("format", len)?;
        if let Some((id, format)) =
            Format::parse(&String::from_utf8_lossy(text), cursor.big_endian, long_size)
        {
            self.formats.insert(id, format);
        }
        Ok(())
    }
}

/// Strings of the kernel by address, for fields that only point at them: `0xffffffff8281a2a4 : "Start context switch"`
/// in each line of `tracing/printk_formats`.
fn strings(text: &str) -> HashMap<u64, String> {
    let string = |line: &str| {
        let (address, text) = line.split_once(" : ")?;
        let address = u64::from_str_radix(address.trim().strip_prefix("0x")?, 16).ok()?;
        Some((address, text.trim().strip_prefix('"')?.strip_suffix('"')?.to_owned()))
    };
    text.lines().filter_map(string).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn section() -> Vec<u8> {
        let mut bytes = b"\x17\x08\x44tracing0.6\0\0\x08\0\x10\0\0".to_vec();
        for name in ["header_page", "header_event"] {
            bytes.extend_from_slice(name.as_bytes());
            bytes.extend_from_slice(&[0, 2, 0, 0, 0, 0, 0, 0, 0, b'x', b'y']);
        }
        bytes.extend_from_slice(&0_u32.to_le_bytes());
        bytes.extend_from_slice(&1_u32.to_le_bytes());
        bytes.extend_from_slice(b"sched\0");
        bytes.extend_from_slice(&1_u32.to_le_bytes());
        let format = b"name: x\nID: 7\nformat:\n\tfield:int a;\toffset:8;\tsize:4;\tsigned:1;\n\nprint fmt: \"a=%d\", REC->a\n";
        bytes.extend_from_slice(&(format.len() as u64).to_le_bytes());
        bytes.extend_from_slice(format);
        bytes.extend_from_slice(&[0; 8]);
        bytes
    }

    #[test]
    fn formats_by_id() {
        let (data, error) = TracingData::parse(&section());
        assert_eq!(error, None);
        assert_eq!(data.len(), 1);
        assert!(data.format(7).is_some() && data.format(8).is_none());
    }

    #[test]
    fn strings_by_address() {
        let found = strings("0xffffffff8281a2a4 : \"Start: x\"\nnonsense\n0x12 : \"\"\n");
        assert_eq!(found.get(&0xffff_ffff_8281_a2a4).map(String::as_str), Some("Start: x"));
        assert_eq!(found.len(), 2);
    }

    #[test]
    fn cut_anywhere_it_names_the_place() {
        let section = section();
        for len in 0..section.len() {
            let (data, error) = TracingData::parse(&section[..len]);
            assert!(error.is_some(), "{len}");
            assert_eq!(data.is_empty(), len < section.len() - 8, "{len}");
        }
        let mut wrong = section;
        wrong[0] = 0;
        let (_, error) = TracingData::parse(&wrong);
        assert!(error.is_some_and(|error| error.to_string().contains("begin with [00, 08, 44")));
    }
}
