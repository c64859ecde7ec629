//! What is wrong with records that cannot be decoded: the first of each kind in full, the rest as counts.

use std::fmt::Write;

use decoder::DecodeError;

/// So many are told in full.
const MOST_REASONS: usize = 3;

/// Records that could not be decoded.
#[derive(Default, Debug)]
pub(crate) struct Undecodable {
    reasons: Vec<Reason>,
    others: u64,
}

#[derive(Debug)]
struct Reason {
    /// The record's type, and the field that is wrong.
    cause: (u32, &'static str),
    /// The offset of the first one.
    offset: Option<u64>,
    error: DecodeError,
    /// The number of others.
    more: u64,
}

impl Undecodable {
    /// Takes a record of type `kind` that begins at `offset` of its file.
    pub(crate) fn add(&mut self, offset: Option<u64>, kind: u32, error: DecodeError) {
        let cause = (kind, field(&error));
        if let Some(reason) = self.reasons.iter_mut().find(|reason| reason.cause == cause) {
            reason.more = reason.more.saturating_add(1);
        } else if self.reasons.len() < MOST_REASONS {
            self.reasons.push(Reason { cause, offset, error, more: 0 });
        } else {
            self.others = self.others.saturating_add(1);
        }
    }

    /// Returns a notice of one line; `None` where there is nothing.
    pub(crate) fn notice(&self) -> Option<String> {
        if self.reasons.is_empty() {
            return None;
        }
        let mut text = String::from("left out:");
        for (index, Reason { offset, error, more, .. }) in self.reasons.iter().enumerate() {
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

/// Tells errors apart, but for places and values.
fn field(error: &DecodeError) -> &'static str {
    match error {
        DecodeError::FieldCut { field, .. }
        | DecodeError::Count { field, .. }
        | DecodeError::UnknownFormat { field, .. } => field,
        DecodeError::RecordCut { .. } | DecodeError::RecordSize { .. } | DecodeError::AttrSize { .. } => {
            "size"
        }
        // An unknown type, or a reason of its own.
        _ => "type",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_each_kind_is_told() {
        let mut undecodable = Undecodable::default();
        assert_eq!(undecodable.notice(), None);
        let count = |field, count| DecodeError::Count { kind: 9, field, offset: 40, count, available: 96 };
        for number in 0..12 {
            undecodable.add(Some(0x1234 + number), 9, count("callchain nr", 1 << 61));
        }
        undecodable.add(None, 9, count("raw size", 5));
        let first = "left out: the record at offset 0x1234: SAMPLE record: callchain nr at offset 40 is \
                     2305843009213693952, which the 96 bytes left cannot hold (and 11 like it)";
        let second =
            "; a record: SAMPLE record: raw size at offset 40 is 5, which the 96 bytes left cannot hold";
        assert_eq!(undecodable.notice().unwrap(), format!("{first}{second}"));
        undecodable.add(None, 9, count("nr", 5));
        undecodable.add(None, 9, count("bnr", 5));
        assert!(undecodable.notice().unwrap().ends_with("; 1 more for other reasons"));
    }
}
