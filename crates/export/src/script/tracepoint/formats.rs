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
    /// Parses a TRACING_DATA section. Skips formats that cannot be parsed. If the section is cut or damaged, returns the
    /// formats before that and the error.
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

    /// Returns the format of the tracepoint with this id (`attr.config`).
    pub fn get(&self, id: u64) -> Option<&TracepointFormat> {
        self.by_id.get(&id)
    }

    /// Returns all formats.
    pub fn iter(&self) -> impl Iterator<Item = &TracepointFormat> {
        self.by_id.values()
    }
}

/// Parses `tracing/printk_formats`, the strings of the kernel that fields point at, with a line for each:
/// `0xffffffff8281a2a4 : "Start context switch"`.
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
