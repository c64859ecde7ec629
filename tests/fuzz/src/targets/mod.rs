//! The entry points.

mod archived_names;
mod attr;
mod compressed;
mod events;
mod file;
mod foreign;
mod jit_dump;
mod object;
mod picture;
mod pipe;
mod processes;
mod record;
mod ring;
mod symbol_lists;
mod tracing_data;
mod unwind;

use crate::objects;

/// An entry point for hostile bytes.
#[derive(Clone, Copy)]
pub struct Target {
    /// What is typed.
    pub name: &'static str,
    /// The body: any bytes.
    pub run: fn(&[u8]),
    /// Sound inputs.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

/// All of them.
pub const TARGETS: &[Target] = &[
    Target { name: "record", run: record::run, seeds: record::seeds },
    Target { name: "attr", run: attr::run, seeds: attr::seeds },
    Target { name: "file", run: file::run, seeds: file::seeds },
    Target { name: "pipe", run: pipe::run, seeds: pipe::seeds },
    Target { name: "compressed", run: compressed::run, seeds: compressed::seeds },
    Target { name: "tracing_data", run: tracing_data::run, seeds: tracing_data::seeds },
    Target { name: "elf", run: object::run_elf, seeds: objects::seeds },
    Target { name: "dwarf", run: object::run_dwarf, seeds: objects::seeds },
    Target { name: "debug_links", run: object::run_debug_links, seeds: object::debug_link_seeds },
    Target { name: "minidebug", run: object::run_minidebug, seeds: object::minidebug_seeds },
    Target { name: "gopclntab", run: object::run_gopclntab, seeds: object::gopclntab_seeds },
    Target { name: "kallsyms", run: symbol_lists::run_kallsyms, seeds: symbol_lists::kallsyms_seeds },
    Target { name: "perf_map", run: symbol_lists::run_perf_map, seeds: symbol_lists::perf_map_seeds },
    Target { name: "jit_dump", run: jit_dump::run, seeds: jit_dump::seeds },
    Target { name: "archived_names", run: archived_names::run, seeds: archived_names::seeds },
    Target { name: "folded", run: foreign::run, seeds: foreign::folded_seeds },
    Target { name: "pprof", run: foreign::run, seeds: foreign::pprof_seeds },
    Target { name: "unwind", run: unwind::run, seeds: unwind::seeds },
    Target { name: "maps", run: processes::run_maps, seeds: processes::maps_seeds },
    Target { name: "status", run: processes::run_status, seeds: processes::status_seeds },
    Target { name: "events", run: events::run, seeds: events::seeds },
    Target { name: "ring", run: ring::run, seeds: ring::seeds },
    Target { name: "picture", run: picture::run, seeds: picture::seeds },
    Target { name: "names", run: symbol_lists::run_names, seeds: symbol_lists::name_seeds },
];
