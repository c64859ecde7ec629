//! The section that says how many samples of each event are missing, and why.

use decoder::Endian;
use model::{MissingSamples, Shortfall};

/// Words of an entry: event, due, missing, period, reason.
const WORDS: usize = 5;
/// The maximum number of entries that are read. No recording has as many events.
const MOST: usize = 4096;

/// Encodes the section ([`super::id::MISSING_SAMPLES`]).
pub fn to_section(missing: &[MissingSamples]) -> Vec<u8> {
    let words = |of: &MissingSamples| [of.event, of.due, of.missing, of.period, of.reason.number()];
    missing.iter().flat_map(words).flat_map(u64::to_ne_bytes).collect()
}

/// Decodes a section: its whole entries that make sense.
pub fn from_section(bytes: &[u8], endian: Endian) -> Vec<MissingSamples> {
    let entry = |bytes: &[u8]| {
        let word = |index: usize| Some(endian.u64(*bytes.get(index * 8..)?.first_chunk()?));
        let reason = Shortfall::from_number(word(4)?);
        let entry =
            MissingSamples { event: word(0)?, due: word(1)?, missing: word(2)?, period: word(3)?, reason };
        (entry.missing <= entry.due).then_some(entry)
    };
    bytes.chunks_exact(WORDS * 8).take(MOST).filter_map(entry).collect()
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
