//! The section of what processes are parts of: their program, their cgroup, and how they name their service.

use std::collections::HashMap;
use std::sync::Arc;

use decoder::Endian;
use model::{Name, Pid, Timestamp};

/// The layout of the section: this number (u64), the texts, then the entries.
const VERSION: u64 = 1;
/// Bytes of an entry: pid, the number of each text (0 for none, else counted from 1; u32 each), since when (u64, the recording's clock,
/// nanoseconds).
const ENTRY: usize = 4 + 4 * TEXTS + 8;
/// The number of texts of an entry.
const TEXTS: usize = 5;
/// Maximum number of entries.
pub const MOST: usize = 1 << 16;
/// Maximum size of a text, in bytes: a process context is about a page, and what the environment says is as long as a command line.
pub const MAX_TEXT_BYTES: usize = 16 << 10;

/// The service, program and cgroup of a process. All of it comes from the process, so it may be anything.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct ProcessResource {
    /// The path of its program; empty for a thread of the kernel.
    pub executable: Option<Name>,
    /// The path of its cgroup.
    pub cgroup: Option<Name>,
    /// `OTEL_SERVICE_NAME` of its environment.
    pub service_name: Option<Name>,
    /// `OTEL_RESOURCE_ATTRIBUTES` of its environment.
    pub attributes: Option<Arc<[u8]>>,
    /// The `Resource` message of OpenTelemetry that it has published (OTEP 4719), as protobuf.
    pub context: Option<Arc<[u8]>>,
}

/// A process, and what it is a part of from some time on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ResourceChange {
    /// The process.
    pub pid: Pid,
    /// Since when, in the recording's clock. 0 for what was so from the start.
    pub since: Timestamp,
    /// The service, host and container of the process.
    pub resource: ProcessResource,
}

/// Encodes the section ([`super::id::RESOURCES`]). Each text is written once, and left out if it is longer than [`MAX_TEXT_BYTES`].
pub fn to_section(changes: &[ResourceChange]) -> Vec<u8> {
    let mut numbers: HashMap<&[u8], u32> = HashMap::new();
    let (mut texts, mut entries): (Vec<&[u8]>, Vec<u8>) = Default::default();
    for ResourceChange { pid, since, resource } in changes.iter().take(MOST) {
        let ProcessResource { executable, cgroup, service_name, attributes, context } = resource;
        entries.extend(pid.0.to_ne_bytes());
        let names = [executable, cgroup, service_name].map(|name| name.as_ref().map(Name::as_bytes));
        let others = [attributes, context].map(|text| text.as_deref());
        for text in names.into_iter().chain(others) {
            let number = text.filter(|text| text.len() <= MAX_TEXT_BYTES).map_or(0, |text| {
                *numbers.entry(text).or_insert_with(|| {
                    texts.push(text);
                    texts.len() as u32
                })
            });
            entries.extend(number.to_ne_bytes());
        }
        entries.extend(since.0.to_ne_bytes());
    }
    let mut section = VERSION.to_ne_bytes().to_vec();
    section.extend((texts.len() as u32).to_ne_bytes());
    for text in texts {
        section.extend((text.len() as u32).to_ne_bytes());
        section.extend(text);
    }
    section.extend(entries);
    section
}

/// Decodes the section, in the order in which it was written. Leaves out what is cut off, and everything where it is of another version.
pub fn from_section(section: &[u8], endian: Endian) -> Vec<ResourceChange> {
    let Some((version, rest)) = section.split_first_chunk::<8>() else { return Vec::new() };
    let Some((count, mut rest)) = rest.split_first_chunk::<4>() else { return Vec::new() };
    if endian.u64(*version) != VERSION {
        return Vec::new();
    }
    let mut texts: Vec<Arc<[u8]>> = Vec::new();
    for _ in 0..endian.u32(*count) {
        let Some((length, bytes)) = rest.split_first_chunk::<4>() else { return Vec::new() };
        let Some((text, next)) = bytes.split_at_checked(endian.u32(*length) as usize) else {
            return Vec::new();
        };
        texts.push(Arc::from(text));
        rest = next;
    }
    let entry = |entry: &[u8]| {
        let word = |index: usize| {
            let bytes = entry.get(4 * index..).and_then(|rest| rest.first_chunk()).copied();
            endian.u32(bytes.unwrap_or_default())
        };
        let text = |index: usize| texts.get((word(index) as usize).checked_sub(1)?);
        let name = |index: usize| text(index).map(|text| Name::new(text));
        ResourceChange {
            pid: Pid(word(0).cast_signed()),
            since: Timestamp(endian.u64(entry.last_chunk().copied().unwrap_or_default())),
            resource: ProcessResource {
                executable: name(1),
                cgroup: name(2),
                service_name: name(3),
                attributes: text(4).cloned(),
                context: text(5).cloned(),
            },
        }
    };
    rest.chunks_exact(ENTRY).take(MOST).map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changes() -> Vec<ResourceChange> {
        let name = |text: &str| Some(Name::from(text));
        let service = ProcessResource {
            executable: name("/usr/bin/shop"),
            cgroup: name("/system.slice/shop.service"),
            service_name: name("shop"),
            attributes: Some(Arc::from(&b"service.version=3"[..])),
            context: Some(Arc::from(&[10, 0][..])),
        };
        let kernel =
            ProcessResource { executable: name(""), cgroup: name("/"), ..ProcessResource::default() };
        let change = |pid, since, resource: &ProcessResource| ResourceChange {
            pid: Pid(pid),
            since: Timestamp(since),
            resource: resource.clone(),
        };
        vec![change(7, 0, &service), change(-8, 5, &kernel), change(9, 6, &service)]
    }

    #[test]
    fn a_section_reads_as_it_was_written_with_each_text_once() {
        let section = to_section(&changes());
        assert_eq!(from_section(&section, Endian::NATIVE), changes());
        let of = |text: &[u8]| section.windows(text.len()).filter(|part| *part == text).count();
        assert_eq!(of(b"/usr/bin/shop"), 1);
        for cut in 0..section.len() {
            assert!(changes().starts_with(&from_section(&section[..cut], Endian::NATIVE)), "{cut}");
        }
        let other = [&2_u64.to_ne_bytes(), &section[8..]].concat();
        assert_eq!(from_section(&other, Endian::NATIVE), []);
    }

    #[test]
    fn counts_and_numbers_that_lie_reserve_nothing() {
        let mut section = to_section(&changes());
        section[8..12].fill(0xff);
        assert_eq!(from_section(&section, Endian::NATIVE), []);
        let mut section = to_section(&changes());
        let last = section.len() - ENTRY;
        section[last + 4..last + 8].fill(0xff);
        assert_eq!(from_section(&section, Endian::NATIVE)[2].resource.executable, None);
    }
}
