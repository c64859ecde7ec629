//! Parts of an analysis as pages take them.

use std::{io, thread};

use analysis::{Analysis, EventView};
use export::view::{PageEvent, pack};

/// Packs the blocks of a page, on a thread each.
pub(super) fn pack_blocks(blocks: &[Vec<u8>]) -> io::Result<Vec<String>> {
    thread::scope(|threads| {
        let packing: Vec<_> = blocks.iter().map(|block| threads.spawn(|| pack(block))).collect();
        let ended = || io::Error::other("an internal error ended a thread that packs the data of the page");
        packing.into_iter().map(|thread| thread.join().unwrap_or_else(|_| Err(ended()))).collect()
    })
}

/// Returns an event as a page takes it.
pub(super) fn page_event<'a>(shown: &'a EventView<'_>) -> PageEvent<'a> {
    let EventView { event, name, view, .. } = shown;
    PageEvent { name: name.clone(), view, is_clock: event.is_clock(), is_time: event.is_time }
}

/// Returns the intervals in which samples are missing, as a page takes them.
pub(super) fn gaps(analysis: &Analysis) -> Vec<(u64, u64, u64)> {
    analysis.gaps.iter().map(|gap| (gap.start.0, gap.end.0, gap.lost)).collect()
}
