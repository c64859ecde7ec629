//! Feature sections come back as they were written.

use decoder::{Attr, Endian};
use model::{BuildId, Name, Pid};
use prof_perfdata::features::{
    BuildIdEntry, ClockData, Compression, CpuCache, CpuCounts, CpuTopology, EventDescription, Features,
    GroupDescription, MemoryTopology, NumaNode, PmuCapabilities,
};
use prof_perfdata::{Reader, Source};
use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;

use crate::recording::Recording;

fn name() -> impl Strategy<Value = Name> {
    vec(1..=255_u8, 0..90).prop_map(|bytes| Name::new(&bytes))
}

fn names() -> impl Strategy<Value = Vec<Name>> {
    vec(name(), 0..4)
}

fn pairs() -> impl Strategy<Value = Vec<(Name, Name)>> {
    vec((name(), name()), 0..4)
}

fn machine() -> impl Strategy<Value = Features> {
    (
        (of(name()), of(name()), of(name()), of(name()), of(name()), of(name()), of(any::<u64>())),
        (names(), 0..5_u32, names(), names(), any::<bool>()),
        vec((any::<u32>(), any::<u64>(), any::<u64>(), name()), 0..3),
        vec((any::<u32>(), name()), 0..4),
        vec((name(), any::<u32>(), any::<u32>()), 0..3),
        vec((any::<[u32; 4]>(), name(), name(), name()), 0..3),
    )
        .prop_map(
            |(strings, (command_line, cpus, cores, dies, has_dies), nodes, pmus, groups, caches)| {
                let topology = CpuTopology {
                    core_siblings: cores.clone(),
                    thread_siblings: cores,
                    cpus: (0..cpus).map(|cpu| (cpu, cpu / 2)).collect(),
                    die_siblings: if has_dies && cpus > 0 { dies } else { Vec::new() },
                    dies: if has_dies { (0..cpus).collect() } else { Vec::new() },
                };
                Features {
                    hostname: strings.0,
                    os_release: strings.1,
                    version: strings.2,
                    arch: strings.3,
                    cpu_description: strings.4,
                    cpu_id: strings.5,
                    total_memory: strings.6,
                    command_line,
                    cpus: Some(CpuCounts { available: cpus, online: cpus }),
                    cpu_topology: Some(topology),
                    numa_topology: nodes
                        .into_iter()
                        .map(|(node, total, free, cpus)| NumaNode { node, total, free, cpus })
                        .collect(),
                    pmu_mappings: pmus,
                    groups: groups
                        .into_iter()
                        .map(|(name, leader, members)| GroupDescription { name, leader, members })
                        .collect(),
                    caches: caches
                        .into_iter()
                        .map(|([level, line_size, sets, ways], kind, size, cpus)| CpuCache {
                            level,
                            line_size,
                            sets,
                            ways,
                            kind,
                            size,
                            cpus,
                        })
                        .collect(),
                    ..Features::default()
                }
            },
        )
}

fn recording_facts() -> impl Strategy<Value = Features> {
    (
        vec((any::<i32>(), select_mode(), vec(1..=255_u8, 1..=20), name()), 0..3),
        vec((any::<u64>(), name(), vec(any::<u64>(), 0..5)), 0..3),
        (any::<bool>(), any::<bool>(), of(any::<(u64, u64)>()), of(any::<u64>()), of(any::<u64>())),
        of((any::<u64>(), vec((any::<u64>(), vec(any::<u64>(), 0..3)), 0..3))),
        (of(any::<[u32; 4]>()), of(any::<(u32, u64, u64)>()), pairs(), pairs()),
        (vec((name(), pairs()), 0..3), of(vec(any::<u8>(), 1..40)), vec(any::<u8>(), 0..40)),
    )
        .prop_map(|(ids, events, flags, memory, compressed, more)| Features {
            build_ids: ids
                .into_iter()
                .filter_map(|(pid, misc, id, path)| {
                    let build_id = BuildId::from_bytes(&id)?;
                    // The mark of a layout that old tools wrote.
                    let path = if path.as_bytes().starts_with(b"nel.") { Name::from("x") } else { path };
                    Some(BuildIdEntry { pid: Pid(pid), misc, build_id, path })
                })
                .collect(),
            events: events
                .into_iter()
                .map(|(config, name, ids)| EventDescription {
                    attr: Attr { size: 128, config, ..Attr::default() },
                    name,
                    ids,
                })
                .collect(),
            branch_stack: flags.0,
            stat: flags.1,
            sample_time: flags.2,
            clock_resolution: flags.3,
            directory_version: flags.4,
            memory_topology: memory.map(|(block_size, nodes)| MemoryTopology {
                block_size,
                nodes: nodes
                    .into_iter()
                    .map(|(node, words)| (node, words.len() as u64 * 64, words))
                    .collect(),
            }),
            compression: compressed.0.map(|[kind, level, ratio, mmap_len]| Compression {
                kind,
                level,
                ratio,
                mmap_len,
            }),
            clock: compressed.1.map(|(clockid, wall_clock, clock)| ClockData { clockid, wall_clock, clock }),
            cpu_pmu_capabilities: compressed.2,
            hybrid_topology: compressed.3,
            pmu_capabilities: more
                .0
                .into_iter()
                .map(|(pmu, capabilities)| PmuCapabilities { pmu, capabilities })
                .collect(),
            tracing_data: more.1,
            verbatim: vec![(200, more.2)],
            ..Features::default()
        })
}

fn select_mode() -> impl Strategy<Value = u16> {
    1..3_u16
}

fn check(features: Features) {
    for endian in [Endian::Little, Endian::Big] {
        let recording = Recording { features: features.clone(), ..Recording::new(endian, 1) };
        let reader = Reader::open(Source::File(Box::new(recording.file()))).unwrap();
        assert!(reader.notices().is_empty(), "{:?}", reader.notices());
        assert_eq!(reader.features(), &features);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_is_said_of_the_machine(features in machine()) {
        check(features);
    }

    #[test]
    fn what_is_said_of_the_recording(features in recording_facts()) {
        check(features);
    }
}
