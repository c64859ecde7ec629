//! Feature sections from bytes.

use decoder::{Attr, Endian};
use model::{BuildId, Pid};

use super::field::{self, Field};
use super::{BuildIdEntry, CpuCounts, CpuTopology, EventDescription, Features, MemoryTopology, bit};
use crate::bytes::{Bytes, until_nul};
use crate::error::Error;
use crate::sections;

/// Takes the body of one section into the features ([`Features::parse_section`]).
pub(super) fn section(
    features: &mut Features,
    feature: u32,
    body: &[u8],
    endian: Endian,
) -> Result<(), Error> {
    let mut bytes = Bytes::new(body, bit::name(feature).unwrap_or("unknown feature"), endian);
    let bytes = &mut bytes;
    // A tool that could not find out writes nothing.
    if body.is_empty() && !matches!(feature, bit::BRANCH_STACK | bit::STAT) && bit::name(feature).is_some() {
        return Ok(());
    }
    match feature {
        bit::TRACING_DATA => features.tracing_data = Some(body.to_vec()),
        bit::BUILD_ID => features.build_ids.extend(build_ids(body, endian)?),
        bit::EVENT_DESC => features.events = event_descriptions(bytes, endian)?,
        bit::CPU_TOPOLOGY => features.cpu_topology = Some(cpu_topology(bytes, features.cpus)?),
        bit::CACHE => {
            let version = bytes.u32("version")?;
            if version != 1 {
                return Err(bytes.wrong("version", 4, version.into(), "only 1 is known"));
            }
            features.caches = Field::parse(bytes, "caches")?;
        }
        bit::MEM_TOPOLOGY => features.memory_topology = Some(memory_topology(bytes)?),
        // In files from before sections had a place of their own.
        sections::STACK_TOTALS_BIT => {
            features.sections.push((sections::id::STACK_TOTALS, body.to_vec()));
        }
        _ => {
            if !field::parse(features, feature, bytes)? {
                features.verbatim.push((feature, body.to_vec()));
            }
        }
    }
    Ok(())
}

fn event_descriptions(bytes: &mut Bytes<'_>, endian: Endian) -> Result<Vec<EventDescription>, Error> {
    let count = bytes.u32("events")?;
    let attr_size = bytes.u32("attr_size")?;
    let mut events = Vec::new();
    for index in 0..count as usize {
        let attr_bytes = bytes.bytes("attr", attr_size.into())?;
        let attr = Attr::parse(attr_bytes, endian).map_err(|source| Error::Attr {
            section: "EVENT_DESC",
            index,
            source,
        })?;
        let id_count = bytes.u32("ids")?;
        let name = bytes.string("name")?;
        let ids = bytes.list(id_count.into(), |bytes| bytes.u64("id"))?;
        events.push(EventDescription { attr, name, ids });
    }
    Ok(events)
}

fn cpu_topology(bytes: &mut Bytes<'_>, counts: Option<CpuCounts>) -> Result<CpuTopology, Error> {
    let core_siblings = Field::parse(bytes, "core siblings")?;
    let thread_siblings = Field::parse(bytes, "thread siblings")?;
    let mut topology = CpuTopology { core_siblings, thread_siblings, ..CpuTopology::default() };
    // Older recordings end here. The number of CPUs stands in another section.
    let Some(counts) = counts else { return Ok(topology) };
    if bytes.remaining() == 0 {
        return Ok(topology);
    }
    let cpus = u64::from(counts.available);
    topology.cpus = bytes.list(cpus, |bytes| Ok((bytes.u32("core")?, bytes.u32("socket")?)))?;
    if bytes.remaining() != 0 {
        topology.die_siblings = Field::parse(bytes, "die siblings")?;
        topology.dies = bytes.list(cpus, |bytes| bytes.u32("die"))?;
    }
    Ok(topology)
}

fn memory_topology(bytes: &mut Bytes<'_>) -> Result<MemoryTopology, Error> {
    bytes.u64("version")?;
    let block_size = bytes.u64("block size")?;
    let count = bytes.u64("nodes")?;
    let nodes = bytes.list(count, |bytes| {
        let node = bytes.u64("node")?;
        let bits = bytes.u64("bits")?;
        // The map is a section of its own: its length stands there again.
        let map_bits = bytes.u64("map bits")?;
        let words = bytes.list(map_bits.div_ceil(64), |bytes| bytes.u64("map"))?;
        Ok((node, bits, words))
    })?;
    Ok(MemoryTopology { block_size, nodes })
}

/// The byte behind the id is its length (`PERF_RECORD_MISC_BUILD_ID_SIZE`).
pub(super) const SIZE_IS_VALID: u16 = 1 << 15;

/// Records of `struct perf_record_header_build_id`, one after the other.
fn build_ids(body: &[u8], endian: Endian) -> Result<Vec<BuildIdEntry>, Error> {
    let entries = records(body, endian, true)?;
    // Tools before Linux 2.6.34 had no pid in the record: four bytes of the name are then taken for something else.
    if entries.iter().any(|entry| entry.path.as_bytes().starts_with(b"nel.kallsyms]")) {
        return records(body, endian, false);
    }
    Ok(entries)
}

fn records(body: &[u8], endian: Endian, has_pid: bool) -> Result<Vec<BuildIdEntry>, Error> {
    let mut bytes = Bytes::new(body, "BUILD_ID", endian);
    let mut entries = Vec::new();
    while bytes.remaining() != 0 {
        bytes.u32("header.type")?;
        let misc = bytes.u16("header.misc")?;
        let size = bytes.u16("header.size")?;
        let Some(len) = size.checked_sub(8) else {
            return Err(bytes.wrong("header.size", 2, size.into(), "less than a record header"));
        };
        let record = bytes.bytes("record", len.into())?;
        entries.extend(build_id_record(record, misc, endian, has_pid)?);
    }
    Ok(entries)
}

/// The body of such a record; `None` where its id is empty.
pub(crate) fn build_id_record(
    body: &[u8],
    misc: u16,
    endian: Endian,
    has_pid: bool,
) -> Result<Option<BuildIdEntry>, Error> {
    let mut bytes = Bytes::new(body, "BUILD_ID", endian);
    let pid = Pid(if has_pid { bytes.u32("pid")? as i32 } else { -1 });
    let id: [u8; 20] = bytes.array("build_id")?;
    let [len, _, _, _] = bytes.array("size")?;
    let len = if misc & SIZE_IS_VALID != 0 { usize::from(len).min(id.len()) } else { id.len() };
    let path = until_nul(bytes.rest());
    Ok(BuildId::from_bytes(id.get(..len).unwrap_or(&id)).map(|build_id| BuildIdEntry {
        pid,
        misc: misc & !SIZE_IS_VALID,
        build_id,
        path: path.into(),
    }))
}
