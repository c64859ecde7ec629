//! The features of a recording's header that describe the machine.

use std::path::Path;

use host::machine::{self, SystemName};
use host::sysfs;
use host::topology::{self, Cache, CpuLocation, Node, Processors};
use model::Name;
use perfdata::features::{CpuCache, CpuCounts, CpuTopology, Features, MemoryTopology, NumaNode};

/// The core, die and socket that perf writes for an offline CPU.
const OFFLINE: CpuLocation = CpuLocation { core: u32::MAX, die: u32::MAX, socket: u32::MAX };
/// Maximum number of a memory block: more blocks than this would be petabytes.
const MAX_BLOCKS: u64 = 1 << 24;

/// Reads the features that describe this machine; all others are empty.
pub(crate) fn of_this_machine() -> Features {
    let system = SystemName::read();
    let processor = machine::processor();
    let available = machine::configured_cpus();
    let online = sysfs::online_cpus().map_or(1, |cpus| cpus.len());
    let pmus = sysfs::pmu_numbers(Path::new(sysfs::EVENT_SOURCES)).unwrap_or_default();
    let folder = Path::new(topology::SYSTEM);
    let nodes = topology::nodes(folder);
    let name = |text: &std::ffi::OsStr| Some(Name::from(text.as_encoded_bytes()));
    Features {
        hostname: name(&system.host),
        os_release: name(&system.release),
        version: Some(Name::from(concat!("prof ", env!("CARGO_PKG_VERSION")))),
        arch: name(&system.machine),
        cpus: Some(CpuCounts { available, online: u32::try_from(online).unwrap_or(u32::MAX) }),
        cpu_description: processor.name.as_deref().map(Name::from),
        cpu_id: processor.id.as_deref().map(Name::from),
        total_memory: machine::total_memory_kb(),
        cpu_topology: topology::processors(folder, available).map(cpu_topology),
        memory_topology: topology::memory_block_bytes(folder).map(|size| memory_topology(size, &nodes)),
        numa_topology: nodes.into_iter().map(numa_node).collect(),
        caches: topology::caches(folder, available).into_iter().map(cache).collect(),
        pmu_mappings: pmus.into_iter().map(|(kind, name)| (kind, Name::from(name.as_str()))).collect(),
        ..Features::default()
    }
}

fn cpu_topology(found: Processors) -> CpuTopology {
    let names = |lists: Vec<String>| lists.iter().map(|list| Name::from(list.as_str())).collect();
    let places = || found.locations.iter().map(|place| place.unwrap_or(OFFLINE));
    let dies = if found.dies.is_empty() { Vec::new() } else { places().map(|place| place.die).collect() };
    CpuTopology {
        cpus: places().map(|place| (place.core, place.socket)).collect(),
        dies,
        core_siblings: names(found.sockets),
        thread_siblings: names(found.cores),
        die_siblings: names(found.dies),
    }
}

fn numa_node(node: Node) -> NumaNode {
    NumaNode {
        node: node.number,
        total: node.total_kib,
        free: node.free_kib,
        cpus: Name::from(node.cpus.as_str()),
    }
}

fn memory_topology(block_size: u64, nodes: &[Node]) -> MemoryTopology {
    let map = |node: &Node| {
        let blocks = || node.blocks.iter().copied().filter(|&block| block < MAX_BLOCKS);
        let bits = blocks().max().map_or(0, |last| last + 1);
        let mut words = vec![0_u64; usize::try_from(bits.div_ceil(64)).unwrap_or(0)];
        for block in blocks() {
            if let Some(word) = words.get_mut(usize::try_from(block / 64).unwrap_or(usize::MAX)) {
                *word |= 1 << (block % 64);
            }
        }
        (u64::from(node.number), bits, words)
    };
    MemoryTopology { block_size, nodes: nodes.iter().map(map).collect() }
}

fn cache(cache: Cache) -> CpuCache {
    let Cache { level, line_bytes, sets, ways, .. } = cache;
    let [kind, size, cpus] = [cache.kind, cache.size, cache.cpus].map(|text| Name::from(text.as_str()));
    CpuCache { level, line_size: line_bytes, sets, ways, kind, size, cpus }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_bits() {
        let node = |blocks| Node { number: 1, total_kib: 0, free_kib: 0, cpus: String::new(), blocks };
        let topology = memory_topology(4096, &[node(vec![0, 1, 65]), node(vec![]), node(vec![u64::MAX])]);
        assert_eq!(topology.nodes[0], (1, 66, vec![3, 2]));
        assert_eq!(topology.nodes[1..], [(1, 0, vec![]), (1, 0, vec![])]);
    }

    #[test]
    fn an_offline_cpu_is_nowhere() {
        let place = CpuLocation { core: 3, die: 2, socket: 1 };
        let found = Processors {
            sockets: vec!["0".to_owned()],
            locations: vec![Some(place), None],
            ..Processors::default()
        };
        let topology = cpu_topology(found);
        assert_eq!(topology.cpus, [(3, 1), (u32::MAX, u32::MAX)]);
        assert!(topology.dies.is_empty());
    }
}
