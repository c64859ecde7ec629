//! Feature sections as bytes.

use decoder::Endian;

use super::field::{self, Body, Field, STRING_ALIGNMENT};
use super::parse::SIZE_IS_VALID;
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
        bit::EVENT_DESC => body.events(nonempty(&features.events)?),
        bit::CPU_TOPOLOGY => body.cpu_topology(features.cpu_topology.as_ref()?),
        bit::CACHE => {
            nonempty(&features.caches)?;
            body.u32s(&[1]);
            features.caches.encode(&mut body);
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
        _ => {
            if !field::encode(features, bit, &mut body) {
                let (_, bytes) = features.verbatim.iter().find(|(verbatim, _)| *verbatim == bit)?;
                body.bytes.extend_from_slice(bytes);
            }
        }
    }
    Some(body.bytes)
}

fn nonempty<T>(values: &[T]) -> Option<&[T]> {
    (!values.is_empty()).then_some(values)
}

impl Body {
    /// Records of `struct perf_record_header_build_id` with type 0.
    fn build_ids(&mut self, entries: &[super::BuildIdEntry]) {
        for entry in entries {
            let padded = (entry.path.as_bytes().len() + 1).next_multiple_of(STRING_ALIGNMENT);
            let size = 8 + 4 + 24 + padded;
            // A longer path than a record can hold is left out: nobody can open it either.
            let Ok(size) = u16::try_from(size) else { continue };
            self.u32s(&[0]);
            self.bytes.extend_from_slice(&self.endian.u16_bytes(entry.misc | SIZE_IS_VALID));
            self.bytes.extend_from_slice(&self.endian.u16_bytes(size));
            self.u32s(&[entry.pid.0 as u32]);
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
            event.name.encode(self);
            self.u64s(&event.ids);
        }
    }

    fn cpu_topology(&mut self, topology: &CpuTopology) {
        topology.core_siblings.encode(self);
        topology.thread_siblings.encode(self);
        topology.cpus.iter().for_each(|cpu| cpu.encode(self));
        if !topology.dies.is_empty() {
            topology.die_siblings.encode(self);
            self.u32s(&topology.dies);
        }
    }
}
