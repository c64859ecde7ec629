//! The text of `-D`: each record with its time, offset, type, size and fields, in the words of `perf script -D`.

mod sample;
mod sideband;
mod tool_record;

use decoder::registers::Architecture;
use decoder::{Record, SampleFormat, kind as kernel_kind};
use model::Timestamp;
use perfdata::tool::{self, ToolRecord};

use super::address::display;
use super::number;

/// The position of a record, and the fields of its header.
#[derive(Clone, Copy, Debug)]
pub struct RecordHeading {
    /// Its offset from the start of the file, or of the unpacked stream, in bytes.
    pub offset: u64,
    /// Its size with the header, in bytes.
    pub size: u64,
    /// Its time, if it states one.
    pub time: Option<Timestamp>,
    /// The header's `misc`.
    pub misc: u16,
}

/// Returns the name of a record type: `PERF_RECORD_*` without the prefix; `None` for an unknown type.
pub fn name(kind: u32) -> Option<&'static str> {
    if kind >= kernel_kind::FIRST_OF_TOOLS {
        return tool::kind::name(kind);
    }
    kernel_kind::name(kind)
}

/// Appends the heading of a record: `3708614969882 0x3f8 [0xf0]: PERF_RECORD_SAMPLE`, to which its fields are added.
pub fn heading(out: &mut Vec<u8>, heading: &RecordHeading, kind: u32) {
    number::decimal(out, heading.time.map_or(0, |time| time.0), 0);
    display(out, format_args!(" {:#x} [{:#x}]: ", heading.offset, heading.size));
    match name(kind) {
        Some(name) => display(out, format_args!("PERF_RECORD_{name}")),
        None => display(out, format_args!("PERF_RECORD_{kind} (unknown)")),
    }
}

/// Appends a record of the kernel's types.
pub fn record(
    out: &mut Vec<u8>,
    at: &RecordHeading,
    kind: u32,
    record: &Record<'_>,
    format: SampleFormat,
    architecture: Architecture,
) {
    heading(out, at, kind);
    match record {
        Record::Sample(fields) => sample::sample(out, fields, at.misc, format, architecture),
        other => sideband::sideband(out, other),
    }
    out.push(b'\n');
}

/// Appends a record that a tool wrote.
pub fn tool_record(out: &mut Vec<u8>, at: &RecordHeading, kind: u32, record: &ToolRecord<'_>) {
    heading(out, at, kind);
    tool_record::tool_record(out, record);
    out.push(b'\n');
}

/// Appends a record that cannot be decoded, with the reason in place of its fields.
pub fn undecodable(out: &mut Vec<u8>, at: &RecordHeading, kind: u32, why: &str) {
    heading(out, at, kind);
    display(out, format_args!(" <{}>\n", model::Name::from(why)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_types() {
        assert_eq!(name(1), Some("MMAP"));
        assert_eq!(name(22), Some("CALLCHAIN_DEFERRED"));
        assert_eq!(name(64), Some("ATTR"));
        assert_eq!(name(83), Some("COMPRESSED2"));
        assert_eq!(name(86), Some("SCHEDSTAT_DOMAIN"));
        assert_eq!(name(0), None);
        assert_eq!(name(63), None);
        assert_eq!(name(u32::MAX), None);
    }
}
