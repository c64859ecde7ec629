//! The events and rings of a recording, which a consumer learns before the first record.

use decoder::{Attr, RecordLayout};
use model::CpuId;

use crate::unwind::CopySizes;

/// An event as it was opened.
#[derive(Clone, Debug)]
pub struct RecordedEvent {
    /// The name that the user gave it.
    pub name: String,
    /// The kernel's attr.
    pub attr: Attr,
    /// The ids of its instances, which its records carry.
    pub ids: Vec<u64>,
    /// True if it is the sideband event, which takes no samples.
    pub sideband: bool,
    /// The place of the leader of its group, where it is in one.
    pub leader: Option<usize>,
    /// System and name of a tracepoint.
    pub tracepoint: Option<(String, String)>,
}

/// The events, CPUs and sizes of a recording that is about to begin.
#[derive(Clone, Debug)]
pub struct Recording {
    /// The events; the order is that of the file.
    pub events: Vec<RecordedEvent>,
    /// The CPUs with rings.
    pub cpus: Vec<CpuId>,
    /// Bytes of samples that a ring holds.
    pub ring_size: u64,
    /// The sizes that stack copies may have.
    pub copy_sizes: CopySizes,
}

impl Recording {
    /// The layout of the records of the event at `index`.
    pub fn layout(&self, index: usize) -> Option<RecordLayout> {
        Some(RecordLayout::new(&self.events.get(index)?.attr, decoder::Endian::NATIVE))
    }
}
