//! The section of what processes are parts of: their program, their cgroup, and how they name their service.
//!
//! Layout: the version (u64), the number of texts (u32), each with its length (u32), then the entries: pid, the number of each text (0 for
//! none, else counted from 1; u32 each), since when (u64, the recording's clock, nanoseconds).

use std::collections::HashMap;
use std::sync::Arc;

use decoder::Endian;
use model::{Name, Pid, Timestamp};

use super::{MAX_ENTRIES, VERSION, entries, of_version_1};

/// The number of texts of an entry.
const TEXTS: usize = 5;
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
    for ResourceChange { pid, since, resource } in changes.iter().take(MAX_ENTRIES) {
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
    let mut bytes = of_version_1(section, "resources", endian);
    let texts = bytes.u32("texts").and_then(|count| {
        bytes.list(count.into(), |bytes| {
            let length = bytes.u32("length")?;
            bytes.bytes("text", length.into()).map(Arc::<[u8]>::from)
        })
    });
    let Ok(texts) = texts else { return Vec::new() };
    entries(bytes, MAX_ENTRIES, |bytes| {
        let pid = Pid(bytes.u32("pid")?.cast_signed());
        let mut numbers = [0; TEXTS];
        for number in &mut numbers {
            *number = bytes.u32("text")?;
        }
        let since = Timestamp(bytes.u64("since")?);
        let [executable, cgroup, service_name, attributes, context] =
            numbers.map(|number| texts.get((number as usize).checked_sub(1)?));
        let name = |text: Option<&Arc<[u8]>>| text.map(|text| Name::new(text));
        let resource = ProcessResource {
            executable: name(executable),
            cgroup: name(cgroup),
            service_name: name(service_name),
            attributes: attributes.cloned(),
            context: context.cloned(),
        };
        Ok(ResourceChange { pid, since, resource })
    })
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
        let last = section.len() - (4 + 4 * TEXTS + 8);
        section[last + 4..last + 8].fill(0xff);
        assert_eq!(from_section(&section, Endian::NATIVE)[2].resource.executable, None);
    }
}
