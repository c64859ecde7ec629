//! The parts of functions that compilers have split off, by the unwind table of the object: strip(1) removes their symbols (`NAME.cold`)
//! and keeps the table.
//!
//! gcc puts what ran seldom when its profile was taken there. Of `_PyEval_EvalFrameDefault` of Debian's Python 3.14 and 3.15 these
//! are 84 of 85 KiB.

use std::ops::Range;

use elf::{Object, ReadAt};
use gimli::{
    BaseAddresses, CallFrameInstruction, CieOrFde, EhFrame, EndianSlice, LittleEndian, UnwindSection,
};
use model::Svma;

/// The maximum size of a table that is read as a whole. Those of interpreters have up to a megabyte.
const MAX_TABLE_BYTES: u64 = 32 << 20;

/// Returns what was split off from the function at `start`. Compilers write its entry behind the function's, and it begins in the
/// middle of a call: with rules for the caller's registers.
pub(crate) fn split_part<D: ReadAt>(object: &Object<D>, start: Svma) -> Option<Range<Svma>> {
    let table = object.contents_section(".eh_frame").filter(|table| table.size <= MAX_TABLE_BYTES)?;
    let end = table.file_offset.0.checked_add(table.size)?;
    let bytes = object.source().copy(table.file_offset.0..end);
    let bases = BaseAddresses::default().set_eh_frame(table.address.0);
    let frames = EhFrame::from(EndianSlice::new(&bytes, LittleEndian));
    let mut entries = frames.entries(&bases);
    let mut is_next = false;
    while let Some(entry) = entries.next().ok()? {
        let CieOrFde::Fde(entry) = entry else { continue };
        let entry = entry.parse(EhFrame::cie_from_offset).ok()?;
        if is_next {
            let first = entry.instructions(&frames, &bases).next().ok()??;
            let is_entry_of_function =
                matches!(first, CallFrameInstruction::AdvanceLoc { .. } | CallFrameInstruction::Nop);
            let range = Svma(entry.initial_address())..Svma(entry.end_address());
            return Some(range).filter(|_| !is_entry_of_function);
        }
        is_next = entry.initial_address() == start.0;
    }
    None
}
