//! The section of processes in containers: which, and since when. A process that is not in it runs where its parent did.
//!
//! Layout: the version (u64), then the changes: pid, length of the container's name (u32 each), since when (u64, the recording's clock,
//! nanoseconds), the name.

use decoder::Endian;
use model::{Name, Pid, Timestamp};

use super::{MAX_ENTRIES, VERSION, entries, of_version_1};

/// A process came into a container, or left it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ContainerChange {
    /// The process.
    pub pid: Pid,
    /// Since when, in the recording's clock. 0 for what was so from the start.
    pub since: Timestamp,
    /// The container; `None` for the host.
    pub container: Option<Name>,
}

/// Encodes the section ([`super::id::CONTAINERS`]).
pub fn to_section(changes: &[ContainerChange]) -> Vec<u8> {
    let mut section = VERSION.to_ne_bytes().to_vec();
    for ContainerChange { pid, since, container } in changes.iter().take(MAX_ENTRIES) {
        let name = container.as_ref().map_or(&[][..], Name::as_bytes);
        section.extend(pid.0.to_ne_bytes());
        section.extend((name.len() as u32).to_ne_bytes());
        section.extend(since.0.to_ne_bytes());
        section.extend(name);
    }
    section
}

/// Decodes the section, in the order of time. Leaves out what is cut off, and everything where it is of another version.
pub fn from_section(section: &[u8], endian: Endian) -> Vec<ContainerChange> {
    let bytes = of_version_1(section, "containers", endian);
    let mut changes = entries(bytes, MAX_ENTRIES, |bytes| {
        let (pid, length, since) = (bytes.u32("pid")?, bytes.u32("length")?, bytes.u64("since")?);
        let name = bytes.bytes("name", length.into())?;
        Ok(ContainerChange {
            pid: Pid(pid.cast_signed()),
            since: Timestamp(since),
            container: (!name.is_empty()).then(|| Name::new(name)),
        })
    });
    changes.sort_by_key(|change| change.since);
    changes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_reads_as_it_was_written() {
        let change = |pid, since, name: Option<&str>| ContainerChange {
            pid: Pid(pid),
            since: Timestamp(since),
            container: name.map(Name::from),
        };
        let changes = [change(7, 0, Some("docker:0123456789ab")), change(-8, 5, None), change(7, 9, None)];
        let section = to_section(&changes);
        assert_eq!(from_section(&section, Endian::NATIVE), changes);
        for cut in 0..section.len() {
            assert!(changes.starts_with(&from_section(&section[..cut], Endian::NATIVE)));
        }
        let mut long = section.clone();
        long[12..16].fill(0xff);
        assert_eq!(from_section(&long, Endian::NATIVE), []);
        let other = [&2_u64.to_ne_bytes(), &section[8..]].concat();
        assert_eq!(from_section(&other, Endian::NATIVE), []);
    }
}
