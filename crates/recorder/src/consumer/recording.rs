//! The events and rings of a recording, which a consumer learns before the first record.

use std::sync::Arc;

use decoder::{Attr, RecordLayout};
use host::machine::KernelObjects;
use model::CpuId;

use crate::mapped_files::MappedFiles;
use crate::processes::ProcessResources;
use crate::unwind::{CopySizes, PerArrival};

/// An event as it was opened.
#[derive(Clone, Debug)]
pub struct RecordedEvent {
    /// The name that the user gave it.
    pub name: String,
    /// The kernel's attr.
    pub attr: Attr,
    /// The kernel's ids of its instances (one per CPU or thread), which its records carry.
    pub ids: Vec<u64>,
    /// True for the sideband event, which takes no samples.
    pub sideband: bool,
    /// The index of its group's leader in [`Recording::events`]; `None` outside of groups.
    pub leader: Option<usize>,
    /// The system and the name, if it is a tracepoint.
    pub tracepoint: Option<(String, String)>,
}

/// The events, CPUs and sizes of a recording whose events are open.
#[derive(Clone, Debug)]
pub struct Recording {
    /// The events, in the order of the file; the sideband event is the last.
    pub events: Vec<RecordedEvent>,
    /// The CPUs with rings.
    pub cpus: Vec<CpuId>,
    /// Size of a ring for samples, in bytes.
    pub ring_size: u64,
    /// The sizes that stack copies can have.
    pub copy_sizes: PerArrival<CopySizes>,
    /// The code of the running kernel.
    pub kernel: Arc<KernelObjects>,
    /// The build ids, sizes and times of mapped files, which are read while it runs.
    pub files: MappedFiles,
    /// The services, programs and cgroups of processes, which are read while it runs.
    pub resources: ProcessResources,
}

impl Recording {
    /// Returns the layout of the records of the event at `index`.
    pub fn layout(&self, index: usize) -> Option<RecordLayout> {
        Some(RecordLayout::new(&self.events.get(index)?.attr, decoder::Endian::NATIVE))
    }
}
