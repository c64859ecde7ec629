//! The section that says how many samples of each event are missing, and why.
//!
//! Layout: entries of the event, due, missing, period and reason (u64 each).

use decoder::Endian;
use model::{MissingSamples, Shortfall};

use super::{MAX_ENTRIES, entries};
use crate::bytes::Bytes;

/// Encodes the section ([`super::id::MISSING_SAMPLES`]).
pub fn to_section(missing: &[MissingSamples]) -> Vec<u8> {
    let words = |of: &MissingSamples| [of.event, of.due, of.missing, of.period, of.reason.number()];
    missing.iter().flat_map(words).flat_map(u64::to_ne_bytes).collect()
}

/// Decodes a section: its whole entries that make sense.
pub fn from_section(bytes: &[u8], endian: Endian) -> Vec<MissingSamples> {
    let mut missing = entries(Bytes::new(bytes, "missing samples", endian), MAX_ENTRIES, |bytes| {
        Ok(MissingSamples {
            event: bytes.u64("event")?,
            due: bytes.u64("due")?,
            missing: bytes.u64("missing")?,
            period: bytes.u64("period")?,
            reason: Shortfall::from_number(bytes.u64("reason")?),
        })
    });
    missing.retain(|entry| entry.missing <= entry.due);
    missing
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_come_back_whole_or_in_whole_entries() {
        let entry = |event, reason| MissingSamples { event, due: 9, missing: 5, period: 1_003_009, reason };
        let missing = [entry(0, Shortfall::Throttled), entry(2, Shortfall::ShortRuns)];
        let section = to_section(&missing);
        assert_eq!(from_section(&section, Endian::NATIVE), missing);
        for cut in 0..section.len() {
            assert_eq!(from_section(&section[..cut], Endian::NATIVE), missing[..cut / 40]);
        }
        let nonsense = [MissingSamples { missing: 10, ..missing[0] }];
        assert_eq!(from_section(&to_section(&nonsense), Endian::NATIVE), []);
    }
}
