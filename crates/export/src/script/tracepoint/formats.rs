//! The formats of a recording's tracepoints.

use std::collections::HashMap;
use std::sync::Arc;

use perfdata::tracing_data::TracingData;

use super::format::TracepointFormat;

/// The formats of a recording's tracepoints, by their ids.
#[derive(Default, Debug)]
pub struct TracepointFormats {
    // With a keyed hash: a hostile file chooses the ids.
    by_id: HashMap<u64, TracepointFormat>,
}

impl TracepointFormats {
    /// Reads a TRACING_DATA section. TracepointFormats that make no sense are left out; of data that break off, what was read
    /// before stays, and the error says where.
    pub fn parse(section: &[u8]) -> (Self, Option<perfdata::Error>) {
        let (data, error) = TracingData::parse(section);
        let strings = Arc::new(strings(&String::from_utf8_lossy(data.strings)));
        let format = |tracepoint: &perfdata::tracing_data::Tracepoint<'_>| {
            let text = String::from_utf8_lossy(tracepoint.format);
            let mut format = TracepointFormat::parse(&text, data.endian, data.long_size);
            format.strings = Arc::clone(&strings);
            Some((tracepoint.id()?, format))
        };
        (Self { by_id: data.tracepoints.iter().filter_map(format).collect() }, error)
    }

    /// The format of the tracepoint with this id (`attr.config`).
    pub fn get(&self, id: u64) -> Option<&TracepointFormat> {
        self.by_id.get(&id)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &TracepointFormat> {
        self.by_id.values()
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

    #[test]
    fn strings_by_address() {
        let found = strings("0xffffffff8281a2a4 : \"Start: x\"\nnonsense\n0x12 : \"\"\n");
        assert_eq!(found.get(&0xffff_ffff_8281_a2a4).map(String::as_str), Some("Start: x"));
        assert_eq!(found.len(), 2);
    }
}
