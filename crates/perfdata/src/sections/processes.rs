//! The section of processes that ran generated code: when they began, and whose they were.

use decoder::Endian;
use model::{Pid, ProcessLifetime};

/// The layout of the section: this number (u64), then the entries.
const VERSION: u64 = 1;
/// Bytes of an entry: pid, number in its own namespace, user, 0 (u32 each), start (u64, nanoseconds since 1970).
const ENTRY: usize = 24;
/// Maximum number of entries: all that live at a time, with the kernel's default `pid_max` of 32,768, and as many that have
/// ended.
pub const MOST: usize = 1 << 16;

/// Encodes the section ([`super::id::PROCESSES`]). A process number that was used twice has two entries.
pub fn to_section(processes: &[(Pid, ProcessLifetime)]) -> Vec<u8> {
    let mut section = VERSION.to_ne_bytes().to_vec();
    for (pid, life) in processes {
        let own_number = life.own_number.unwrap_or(*pid);
        let words = [pid.0.cast_unsigned(), own_number.0.cast_unsigned(), life.user.unwrap_or(u32::MAX), 0];
        section.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
        section.extend(life.start.unwrap_or(0).to_ne_bytes());
    }
    section
}

/// Decodes the section. Leaves out what is cut off, and everything where it is of another version.
pub fn from_section(section: &[u8], endian: Endian) -> Vec<(Pid, ProcessLifetime)> {
    let Some((version, entries)) = section.split_first_chunk::<8>() else { return Vec::new() };
    if endian.u64(*version) != VERSION {
        return Vec::new();
    }
    let entry = |entry: &[u8]| {
        let word = |index: usize| {
            let bytes = entry.get(4 * index..).and_then(|rest| rest.first_chunk()).copied();
            endian.u32(bytes.unwrap_or_default())
        };
        let start = endian.u64(entry.last_chunk().copied().unwrap_or_default());
        let life = ProcessLifetime {
            start: Some(start).filter(|&start| start > 0),
            end: None,
            user: Some(word(2)).filter(|&user| user != u32::MAX),
            own_number: Some(Pid(word(1).cast_signed())),
        };
        (Pid(word(0).cast_signed()), life)
    };
    entries.chunks_exact(ENTRY).take(MOST).map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_reads_as_it_was_written() {
        let life = |start, user| ProcessLifetime { start, end: None, user, own_number: Some(Pid(7)) };
        let processes = vec![
            (Pid(1), life(Some(1_700_000_000_000_000_000), Some(1000))),
            (Pid(4_000_000), life(None, None)),
        ];
        let section = to_section(&processes);
        assert_eq!(from_section(&section, Endian::NATIVE), processes);
        for cut in 0..section.len() {
            assert!(processes.starts_with(&from_section(&section[..cut], Endian::NATIVE)));
        }
        let other = [&2_u64.to_ne_bytes(), &section[8..]].concat();
        assert_eq!(from_section(&other, Endian::NATIVE), []);
    }
}
