//! The errors of decoding a record or an attr.

use core::fmt;

use thiserror::Error;

use crate::header::kind;

/// The reason why bytes could not be decoded. Offsets count from the start of the record (of its header) or of the
/// attr.
#[derive(Clone, Copy, PartialEq, Eq, Error, Debug)]
#[non_exhaustive]
pub enum DecodeError {
    /// The bytes end before the record does.
    #[error("record of {size} bytes is cut: only {available} are there")]
    RecordCut {
        /// The size that the header states, or the size of a header.
        size: usize,
        /// The number of bytes that are there.
        available: usize,
    },
    /// The header gives a size below its own.
    #[error("record size {size} is smaller than a record header")]
    RecordSize {
        /// The size field.
        size: usize,
    },
    /// The record ends before a field does.
    #[error("{}: {field} at offset {offset} needs {needed} bytes, only {available} are left", RecordName(*.kind))]
    FieldCut {
        /// The record's type.
        kind: u32,
        /// The field, in the kernel's words.
        field: &'static str,
        /// The offset of the field.
        offset: usize,
        /// The length of the field.
        needed: u64,
        /// The number of bytes that are left of the record.
        available: usize,
    },
    /// A count does not fit into its record.
    #[error("{}: {field} at offset {offset} is {count}, which the {available} bytes left cannot hold", RecordName(*.kind))]
    Count {
        /// The record's type.
        kind: u32,
        /// The count's name, in the kernel's words.
        field: &'static str,
        /// The offset of the count.
        offset: usize,
        /// Its value.
        count: u64,
        /// The number of bytes that are left of the record behind it.
        available: usize,
    },
    /// A type that this version does not know.
    #[error("unknown record type {0}")]
    UnknownKind(u32),
    /// The event's attr has bits that lay records out in a way that this version does not know.
    #[error("the attr's {field} has unknown bits {bits:#x}: the layout of this event's samples is not known")]
    UnknownFormat {
        /// `sample_type`, `read_format` or `branch_sample_type`.
        field: &'static str,
        /// The unknown bits.
        bits: u64,
    },
    /// An attr's size is below that of the first version, or above what is there.
    #[error("attr size {size} at offset 4 is not between 64 and {available}")]
    AttrSize {
        /// The size field.
        size: u32,
        /// The number of bytes that are there.
        available: usize,
    },
}

/// A record type for people.
struct RecordName(u32);

impl fmt::Display for RecordName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match kind::name(self.0) {
            Some(name) => write!(f, "{name} record"),
            None => write!(f, "record of type {}", self.0),
        }
    }
}
