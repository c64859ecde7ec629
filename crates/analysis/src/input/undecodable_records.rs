//! Records that cannot be decoded: a notice describes the first of each kind in full and counts the others.

use std::fmt::Write;

use decoder::DecodeError;

/// Maximum number of kinds that the notice describes in full.
const MAX_DESCRIBED_KINDS: usize = 3;

/// Counts records that could not be decoded.
#[derive(Default, Debug)]
pub(crate) struct UndecodableRecords {
    kinds: Vec<UndecodableKind>,
    /// The number of records of further kinds.
    others: u64,
}

/// Records of one type with the same bad field.
#[derive(Debug)]
struct UndecodableKind {
    /// The record type, and the bad field.
    cause: (u32, &'static str),
    /// The offset of the first such record in its file, in bytes.
    offset: Option<u64>,
    /// The error of the first such record.
    error: DecodeError,
    /// The number of further such records.
    more: u64,
}

impl UndecodableRecords {
    /// Counts a record of type `kind` that begins at byte `offset` of its file.
    pub(crate) fn count(&mut self, offset: Option<u64>, kind: u32, error: DecodeError) {
        let cause = (kind, field(&error));
        if let Some(known) = self.kinds.iter_mut().find(|known| known.cause == cause) {
            known.more = known.more.saturating_add(1);
        } else if self.kinds.len() < MAX_DESCRIBED_KINDS {
            self.kinds.push(UndecodableKind { cause, offset, error, more: 0 });
        } else {
            self.others = self.others.saturating_add(1);
        }
    }

    /// Returns a notice of one line; `None` if every record could be decoded.
    pub(crate) fn notice(&self) -> Option<String> {
        if self.kinds.is_empty() {
            return None;
        }
        let mut text = String::from("left out:");
        for (index, UndecodableKind { offset, error, more, .. }) in self.kinds.iter().enumerate() {
            let separator = if index == 0 { "" } else { ";" };
            // Writing to a string does not fail.
            let _ = match offset {
                Some(offset) => write!(text, "{separator} the record at offset {offset:#x}: {error}"),
                None => write!(text, "{separator} a record: {error}"),
            };
            if *more > 0 {
                let _ = write!(text, " (and {more} like it)");
            }
        }
        if self.others > 0 {
            let _ = write!(text, "; {} more for other reasons", self.others);
        }
        Some(text)
    }
}

/// Returns the name of the bad field, by which errors of one record type are grouped whatever their offsets and values.
fn field(error: &DecodeError) -> &'static str {
    match error {
        DecodeError::FieldCut { field, .. }
        | DecodeError::Count { field, .. }
        | DecodeError::UnknownFormat { field, .. } => field,
        DecodeError::RecordCut { .. } | DecodeError::RecordSize { .. } | DecodeError::AttrSize { .. } => {
            "size"
        }
        // An unknown record type, or an error without a field.
        _ => "type",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_each_kind_is_described() {
        let mut undecodable = UndecodableRecords::default();
        assert_eq!(undecodable.notice(), None);
        let count = |field, count| DecodeError::Count { kind: 9, field, offset: 40, count, available: 96 };
        for number in 0..12 {
            undecodable.count(Some(0x1234 + number), 9, count("callchain nr", 1 << 61));
        }
        undecodable.count(None, 9, count("raw size", 5));
        let first = "left out: the record at offset 0x1234: SAMPLE record: callchain nr at offset 40 is \
                     2305843009213693952, which the 96 bytes left cannot hold (and 11 like it)";
        let second =
            "; a record: SAMPLE record: raw size at offset 40 is 5, which the 96 bytes left cannot hold";
        assert_eq!(undecodable.notice().unwrap(), format!("{first}{second}"));
        undecodable.count(None, 9, count("nr", 5));
        undecodable.count(None, 9, count("bnr", 5));
        assert!(undecodable.notice().unwrap().ends_with("; 1 more for other reasons"));
    }
}
