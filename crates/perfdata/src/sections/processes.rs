//! The section of processes that ran generated code: when they began, and whose they were.
//!
//! Layout: the version (u64), then the processes: pid, number in its own namespace, user, 0 (u32 each), start (u64, nanoseconds since 1970).

use decoder::Endian;
use model::{Pid, ProcessLifetime};

use super::{MAX_ENTRIES, VERSION, entries, of_version_1};

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
    entries(of_version_1(section, "processes", endian), MAX_ENTRIES, |bytes| {
        let pid = Pid(bytes.u32("pid")?.cast_signed());
        let own_number = Some(Pid(bytes.u32("own number")?.cast_signed()));
        let user = Some(bytes.u32("user")?).filter(|&user| user != u32::MAX);
        bytes.u32("reserved")?;
        let start = Some(bytes.u64("start")?).filter(|&start| start > 0);
        Ok((pid, ProcessLifetime { start, end: None, user, own_number }))
    })
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
