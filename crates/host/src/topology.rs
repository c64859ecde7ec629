//! Topology of the machine: sockets, dies, cores, caches and memory nodes (`/sys/devices/system`,
//! Documentation/ABI/stable/sysfs-devices-system-cpu and -node).

use std::fs;
use std::path::Path;

use model::CpuId;

use crate::cpus;
use crate::sysfs::text;

/// The folder in which sysfs shows the topology.
pub const SYSTEM: &str = "/sys/devices/system";

/// The CPUs grouped by socket, die and core. Lists are in the kernel's form (`0-3,5`); each appears once.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Processors {
    /// The CPUs of each socket.
    pub sockets: Vec<String>,
    /// The CPUs of each die; empty if the kernel does not list dies.
    pub dies: Vec<String>,
    /// The CPUs of each core.
    pub cores: Vec<String>,
    /// The location of each CPU, indexed by its number; `None` for an offline CPU.
    pub locations: Vec<Option<CpuLocation>>,
}

/// The socket, die and core of a CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CpuLocation {
    /// The number of its core, within its socket.
    pub core: u32,
    /// The number of its die.
    pub die: u32,
    /// The number of its socket.
    pub socket: u32,
}

/// A cache, and the CPUs that share it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cache {
    /// The level: 1, 2, 3.
    pub level: u32,
    /// Size of a line, in bytes.
    pub line_bytes: u32,
    /// The number of sets.
    pub sets: u32,
    /// The number of lines in a set.
    pub ways: u32,
    /// `Data`, `Instruction`, `Unified`.
    pub kind: String,
    /// The size with its unit: `32K`.
    pub size: String,
    /// The CPUs that share it, as a list.
    pub cpus: String,
}

/// A memory node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Node {
    /// Its number.
    pub number: u32,
    /// Size of its memory, in KiB.
    pub total_kib: u64,
    /// Free memory, in KiB.
    pub free_kib: u64,
    /// Its CPUs, as a list.
    pub cpus: String,
    /// The numbers of its memory blocks, ascending.
    pub blocks: Vec<u64>,
}

/// Reads the topology of CPUs 0 to `count` − 1; `None` if `system` has none.
pub fn processors(system: &Path, count: u32) -> Option<Processors> {
    let mut found = Processors::default();
    for cpu in 0..count {
        let folder = system.join(format!("cpu/cpu{cpu}/topology"));
        let number = |name: &str| text(&folder.join(name))?.parse().ok();
        let list = |names: [&str; 2]| names.iter().find_map(|name| text(&folder.join(name)));
        let location = number("core_id")
            .zip(number("physical_package_id"))
            .map(|(core, socket)| CpuLocation { core, die: number("die_id").unwrap_or(0), socket });
        found.locations.push(location);
        push_new(&mut found.sockets, list(["package_cpus_list", "core_siblings_list"]));
        push_new(&mut found.dies, list(["die_cpus_list", "die_cpus_list"]));
        push_new(&mut found.cores, list(["core_cpus_list", "thread_siblings_list"]));
    }
    (!found.sockets.is_empty()).then_some(found)
}

/// Reads the caches of CPUs 0 to `count` − 1, each once, sorted by level.
pub fn caches(system: &Path, count: u32) -> Vec<Cache> {
    let mut found = Vec::new();
    for cpu in 0..count {
        let of_cpu = (0..=u32::MAX).map_while(|index| {
            let folder = system.join(format!("cpu/cpu{cpu}/cache/index{index}"));
            let number = |name: &str| text(&folder.join(name))?.parse().ok();
            Some(Cache {
                level: number("level")?,
                line_bytes: number("coherency_line_size").unwrap_or(0),
                sets: number("number_of_sets").unwrap_or(0),
                ways: number("ways_of_associativity").unwrap_or(0),
                kind: text(&folder.join("type"))?,
                size: text(&folder.join("size")).unwrap_or_default(),
                cpus: text(&folder.join("shared_cpu_list"))?,
            })
        });
        of_cpu.for_each(|cache| push_new(&mut found, Some(cache)));
    }
    found.sort_by_key(|cache| cache.level);
    found
}

/// Reads the online memory nodes.
pub fn nodes(system: &Path) -> Vec<Node> {
    let folder = system.join("node");
    let online = text(&folder.join("online")).and_then(|text| cpus::parse(&text)).unwrap_or_default();
    let node = |number: CpuId| {
        let folder = folder.join(format!("node{}", number.0));
        let meminfo = text(&folder.join("meminfo"))?;
        let mut blocks: Vec<u64> = fs::read_dir(&folder)
            .ok()?
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.strip_prefix("memory")?.parse().ok())
            .collect();
        blocks.sort_unstable();
        Some(Node {
            number: number.0,
            total_kib: kilobytes(&meminfo, "MemTotal:")?,
            free_kib: kilobytes(&meminfo, "MemFree:")?,
            cpus: text(&folder.join("cpulist"))?,
            blocks,
        })
    };
    online.into_iter().filter_map(node).collect()
}

/// Returns the size of a memory block (memory hotplug), in bytes; `None` if the kernel has no such blocks.
pub fn memory_block_bytes(system: &Path) -> Option<u64> {
    u64::from_str_radix(&text(&system.join("memory/block_size_bytes"))?, 16).ok()
}

/// Returns a field of `Node 0 MemTotal:       22374604 kB`, in KiB.
fn kilobytes(meminfo: &str, field: &str) -> Option<u64> {
    let mut words = meminfo.split_whitespace().skip_while(|word| *word != field);
    words.nth(1)?.parse().ok()
}

fn push_new<T: PartialEq>(list: &mut Vec<T>, item: Option<T>) {
    list.extend(item.filter(|item| !list.contains(item)));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two sockets of one core with two threads each; CPU 3 is offline.
    fn machine() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: String, text: &str| {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, format!("{text}\n")).unwrap();
        };
        for (cpu, socket, siblings) in [(0, 0, "0-1"), (1, 0, "0-1"), (2, 1, "2")] {
            let topology = |name: &str| format!("cpu/cpu{cpu}/topology/{name}");
            write(topology("core_id"), "7");
            write(topology("physical_package_id"), &socket.to_string());
            write(topology("core_siblings_list"), siblings);
            write(topology("thread_siblings_list"), siblings);
            for (index, level, kind, size) in [(0, "3", "Unified", "4096K"), (1, "1", "Data", "32K")] {
                let cache = |name: &str| format!("cpu/cpu{cpu}/cache/index{index}/{name}");
                write(cache("level"), level);
                write(cache("type"), kind);
                write(cache("size"), size);
                write(cache("ways_of_associativity"), "8");
                write(cache("shared_cpu_list"), siblings);
            }
        }
        write("node/online".to_owned(), "0,2");
        write("node/node2/meminfo".to_owned(), "Node 2 MemTotal:   1000 kB\nNode 2 MemFree:  10 kB");
        write("node/node2/cpulist".to_owned(), "0-2");
        write("node/node2/memory33/online".to_owned(), "1");
        write("node/node2/memory2/online".to_owned(), "1");
        write("memory/block_size_bytes".to_owned(), "8000000");
        folder
    }

    #[test]
    fn what_is_shared_is_told_once() {
        let machine = machine();
        let found = processors(machine.path(), 4).unwrap();
        let both = ["0-1".to_owned(), "2".to_owned()];
        assert_eq!((&found.sockets[..], &found.cores[..], &found.dies[..]), (&both[..], &both[..], &[][..]));
        assert_eq!(found.locations[2], Some(CpuLocation { core: 7, die: 0, socket: 1 }));
        assert_eq!((found.locations.len(), found.locations[3]), (4, None));
        let caches = caches(machine.path(), 4);
        let short: Vec<_> =
            caches.iter().map(|cache| (cache.level, cache.cpus.as_str(), cache.ways, cache.sets)).collect();
        assert_eq!(short, [(1, "0-1", 8, 0), (1, "2", 8, 0), (3, "0-1", 8, 0), (3, "2", 8, 0)]);
    }

    #[test]
    fn nodes_have_memory_and_processors() {
        let machine = machine();
        let cpus = "0-2".to_owned();
        let node = Node { number: 2, total_kib: 1000, free_kib: 10, cpus, blocks: vec![2, 33] };
        assert_eq!(nodes(machine.path()), [node]);
        assert_eq!(memory_block_bytes(machine.path()), Some(0x800_0000));
    }

    #[test]
    fn a_machine_that_tells_nothing() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(processors(folder.path(), 2), None);
        assert!(caches(folder.path(), 2).is_empty() && nodes(folder.path()).is_empty());
        assert_eq!(memory_block_bytes(folder.path()), None);
    }
}
