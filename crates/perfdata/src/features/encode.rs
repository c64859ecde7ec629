//! Feature sections as bytes.

use decoder::Endian;
use model::Name;

use super::{CpuTopology, Features, bit};

/// Returns the sections that have contents, with their bit numbers ([`Features::to_sections`]).
pub(super) fn sections(features: &Features, endian: Endian) -> Vec<(u32, Vec<u8>)> {
    let mut sections = Vec::new();
    for bit in 0..bit::COUNT {
        if let Some(body) = body_of(features, bit, endian) {
            sections.push((bit, body));
        }
    }
    sections
}

/// Returns the body of a section; `None` if there is nothing to say.
fn body_of(features: &Features, bit: u32, endian: Endian) -> Option<Vec<u8>> {
    let mut body = Body { bytes: Vec::new(), endian };
    match bit {
        bit::TRACING_DATA => body.bytes.extend_from_slice(features.tracing_data.as_ref()?),
        bit::BUILD_ID => body.build_ids(nonempty(&features.build_ids)?),
        bit::HOSTNAME => body.string(features.hostname.as_ref()?),
        bit::OSRELEASE => body.string(features.os_release.as_ref()?),
        bit::VERSION => body.string(features.version.as_ref()?),
        bit::ARCH => body.string(features.arch.as_ref()?),
        bit::NRCPUS => body.u32s(&[features.cpus?.available, features.cpus?.online]),
        bit::CPUDESC => body.string(features.cpu_description.as_ref()?),
        bit::CPUID => body.string(features.cpu_id.as_ref()?),
        bit::TOTAL_MEM => body.u64(features.total_memory?),
        bit::CMDLINE => body.strings(nonempty(&features.command_line)?),
        bit::EVENT_DESC => body.events(nonempty(&features.events)?),
        bit::CPU_TOPOLOGY => body.cpu_topology(features.cpu_topology.as_ref()?),
        bit::NUMA_TOPOLOGY => {
            let nodes = nonempty(&features.numa_topology)?;
            body.count(nodes.len());
            for node in nodes {
                body.u32(node.node);
                body.u64(node.total);
                body.u64(node.free);
                body.string(&node.cpus);
            }
        }
        bit::BRANCH_STACK => return features.branch_stack.then(Vec::new),
        bit::PMU_MAPPINGS => {
            let pmus = nonempty(&features.pmu_mappings)?;
            body.count(pmus.len());
            for (kind, name) in pmus {
                body.u32(*kind);
                body.string(name);
            }
        }
        bit::GROUP_DESC => {
            let groups = nonempty(&features.groups)?;
            body.count(groups.len());
            for group in groups {
                body.string(&group.name);
                body.u32s(&[group.leader, group.members]);
            }
        }
        bit::STAT => return features.stat.then(Vec::new),
        bit::CACHE => {
            let caches = nonempty(&features.caches)?;
            body.u32(1);
            body.count(caches.len());
            for cache in caches {
                body.u32s(&[cache.level, cache.line_size, cache.sets, cache.ways]);
                [&cache.kind, &cache.size, &cache.cpus].into_iter().for_each(|text| body.string(text));
            }
        }
        bit::SAMPLE_TIME => {
            let (first, last) = features.sample_time?;
            body.u64s(&[first, last]);
        }
        bit::MEM_TOPOLOGY => {
            let topology = features.memory_topology.as_ref()?;
            body.u64s(&[1, topology.block_size, topology.nodes.len() as u64]);
            for (node, bits, words) in &topology.nodes {
                // The map is a section of its own inside the node: its length stands there again.
                body.u64s(&[*node, *bits, *bits]);
                body.u64s(words);
            }
        }
        bit::CLOCKID => body.u64(features.clock_resolution?),
        bit::DIR_FORMAT => body.u64(features.directory_version?),
        bit::COMPRESSED => {
            let compression = features.compression?;
            body.u32s(&[0, compression.kind, compression.level, compression.ratio, compression.mmap_len]);
        }
        bit::CPU_PMU_CAPS => body.pairs(nonempty(&features.cpu_pmu_capabilities)?),
        bit::CLOCK_DATA => {
            let clock = features.clock?;
            body.u32s(&[1, clock.clockid]);
            body.u64s(&[clock.wall_clock, clock.clock]);
        }
        bit::HYBRID_TOPOLOGY => body.pairs(nonempty(&features.hybrid_topology)?),
        bit::PMU_CAPS => {
            let pmus = nonempty(&features.pmu_capabilities)?;
            body.count(pmus.len());
            for pmu in pmus {
                body.pairs(&pmu.capabilities);
                body.string(&pmu.pmu);
            }
        }
        _ => {
            let (_, bytes) = features.verbatim.iter().find(|(verbatim, _)| *verbatim == bit)?;
            body.bytes.extend_from_slice(bytes);
        }
    }
    Some(body.bytes)
}

fn nonempty<T>(values: &[T]) -> Option<&[T]> {
    (!values.is_empty()).then_some(values)
}

/// perf pads strings to a multiple of this (`NAME_ALIGN` in `tools/perf/util/header.c`).
const STRING_ALIGNMENT: usize = 64;

struct Body {
    bytes: Vec<u8>,
    endian: Endian,
}

impl Body {
    fn u32(&mut self, value: u32) {
        self.bytes.extend_from_slice(&self.endian.u32_bytes(value));
    }

    fn u32s(&mut self, values: &[u32]) {
        values.iter().for_each(|&value| self.u32(value));
    }

    fn u64(&mut self, value: u64) {
        self.bytes.extend_from_slice(&self.endian.u64_bytes(value));
    }

    fn u64s(&mut self, values: &[u64]) {
        values.iter().for_each(|&value| self.u64(value));
    }

    /// A number of elements. No section holds 2^32 of anything: their strings alone would not fit into memory.
    fn count(&mut self, count: usize) {
        self.u32(count as u32);
    }

    /// `struct perf_header_string`: the padded length, the bytes, a NUL, padding.
    fn string(&mut self, text: &Name) {
        let padded = (text.as_bytes().len() + 1).next_multiple_of(STRING_ALIGNMENT);
        self.count(padded);
        self.padded(text, padded);
    }

    fn padded(&mut self, text: &Name, padded: usize) {
        let end = self.bytes.len() + padded;
        self.bytes.extend_from_slice(text.as_bytes());
        self.bytes.resize(end, 0);
    }

    fn strings(&mut self, texts: &[Name]) {
        self.count(texts.len());
        texts.iter().for_each(|text| self.string(text));
    }

    fn pairs(&mut self, pairs: &[(Name, Name)]) {
        self.count(pairs.len());
        for (first, second) in pairs {
            self.string(first);
            self.string(second);
        }
    }

    /// Records of `struct perf_record_header_build_id` with type 0.
    fn build_ids(&mut self, entries: &[super::BuildIdEntry]) {
        /// `PERF_RECORD_MISC_BUILD_ID_SIZE`: the byte behind the id is its length.
        const SIZE_IS_VALID: u16 = 1 << 15;
        for entry in entries {
            let padded = (entry.path.as_bytes().len() + 1).next_multiple_of(STRING_ALIGNMENT);
            let size = 8 + 4 + 24 + padded;
            // A longer path than a record can hold is left out: nobody can open it either.
            let Ok(size) = u16::try_from(size) else { continue };
            self.u32(0);
            self.bytes.extend_from_slice(&self.endian.u16_bytes(entry.misc | SIZE_IS_VALID));
            self.bytes.extend_from_slice(&self.endian.u16_bytes(size));
            self.u32(entry.pid.0 as u32);
            let id = entry.build_id.as_bytes();
            let mut field = [0; 24];
            field.iter_mut().zip(id).for_each(|(to, from)| *to = *from);
            field[20] = id.len() as u8;
            self.bytes.extend_from_slice(&field);
            self.padded(&entry.path, padded);
        }
    }

    fn events(&mut self, events: &[super::EventDescription]) {
        let size = events.iter().map(|event| event.attr.to_bytes(self.endian).len()).max().unwrap_or(0);
        self.count(events.len());
        self.count(size);
        for event in events {
            let mut attr = event.attr.to_bytes(self.endian);
            attr.resize(size, 0);
            self.bytes.extend_from_slice(&attr);
            self.count(event.ids.len());
            self.string(&event.name);
            self.u64s(&event.ids);
        }
    }

    fn cpu_topology(&mut self, topology: &CpuTopology) {
        self.strings(&topology.core_siblings);
        self.strings(&topology.thread_siblings);
        for &(core, socket) in &topology.cpus {
            self.u32s(&[core, socket]);
        }
        if !topology.dies.is_empty() {
            self.strings(&topology.die_siblings);
            self.u32s(&topology.dies);
        }
    }
}
