//! Program headers, and the arithmetic between the file and the addresses that it states.
//!
//! ```text
//!   file:   |----- p_offset [======= p_filesz =======] -----------|
//!   memory: |--------- p_vaddr [======= p_filesz ====== p_memsz ==]--|
//! ```
//! A byte of the file and its stated address differ by `p_vaddr - p_offset`, and that difference belongs to *one*
//! segment: lld and mold give the code segment another one than the first segment has.

use model::{FileOffset, Svma};

/// A `PT_LOAD` program header (ELF specification, "Program Header").
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Segment {
    /// `p_offset`.
    pub file_offset: FileOffset,
    /// `p_vaddr`.
    pub address: Svma,
    /// `p_filesz`: bytes that come from the file.
    pub file_size: u64,
    /// `p_memsz`: bytes in memory.
    pub memory_size: u64,
    /// `PF_X`.
    pub executable: bool,
    /// `PF_W`.
    pub writable: bool,
}

impl Segment {
    /// The stated address of a byte of the file, if it belongs to this segment.
    pub fn svma_of(&self, offset: FileOffset) -> Option<Svma> {
        let distance = offset.checked_offset_from(self.file_offset)?;
        if distance < self.file_size { self.address.checked_add(distance) } else { None }
    }

    /// The byte of the file that a stated address is loaded from, if this segment covers it.
    pub fn file_offset_of(&self, address: Svma) -> Option<FileOffset> {
        let distance = address.checked_offset_from(self.address)?;
        if distance < self.file_size { self.file_offset.checked_add(distance) } else { None }
    }
}

/// The stated address of a byte of the file, through the segment that covers it. Executable segments come first,
/// since an address of code is asked for; two segments may share a page of the file, but hardly ever a byte.
pub fn svma_of(segments: &[Segment], offset: FileOffset) -> Option<Svma> {
    let covering = |executable| {
        segments
            .iter()
            .filter(move |segment| segment.executable == executable)
            .find_map(|s| s.svma_of(offset))
    };
    covering(true).or_else(|| covering(false)).or_else(|| svma_in_padding(segments, offset))
}

/// The stated address of a byte of data, written segments first. In memory the last page of such a segment goes on with
/// variables that no byte of the file stands for (`.bss`).
pub(crate) fn svma_of_data(segments: &[Segment], offset: FileOffset) -> Option<Svma> {
    let written = segments.iter().filter(|segment| segment.writable).find_map(|segment| {
        let distance = offset.checked_offset_from(segment.file_offset)?;
        let end = segment.file_offset.0.saturating_add(segment.file_size).checked_next_multiple_of(PAGE);
        let covered = distance < segment.memory_size && end.is_none_or(|end| offset.0 < end);
        if covered { segment.address.checked_add(distance) } else { None }
    });
    written.or_else(|| svma_of(segments, offset))
}

const PAGE: u64 = 4096;

/// The kernel maps whole pages, so code can run in the padding around a segment's bytes (a linker's trap
/// instructions, or a hand-made object): the same difference holds there.
fn svma_in_padding(segments: &[Segment], offset: FileOffset) -> Option<Svma> {
    let mut covering = segments.iter().filter(|segment| {
        let start = segment.file_offset.0 & !(PAGE - 1);
        let end = segment.file_offset.0.saturating_add(segment.file_size).checked_next_multiple_of(PAGE);
        segment.executable && start <= offset.0 && end.is_none_or(|end| offset.0 < end)
    });
    let segment = covering.next()?;
    Some(Svma(segment.address.0.wrapping_sub(segment.file_offset.0).wrapping_add(offset.0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_without_bytes_lie_behind_those_with() {
        let data = Segment { writable: true, memory_size: 0x3000, ..segment(0x2d10, 0x3d10, 0x100, false) };
        let segments = [segment(0x1000, 0x1000, 0x1d80, true), data];
        let address = |offset| svma_of_data(&segments, FileOffset(offset)).map(|address| address.0);
        assert_eq!(address(0x1010), Some(0x1010));
        assert_eq!(address(0x2d20), Some(0x3d20), "both have the byte");
        assert_eq!(address(0x2fff), Some(0x3fff));
        assert_eq!(address(0x3000), None, "another mapping");
    }

    fn segment(offset: u64, address: u64, size: u64, executable: bool) -> Segment {
        Segment {
            file_offset: FileOffset(offset),
            address: Svma(address),
            file_size: size,
            memory_size: size,
            executable,
            writable: false,
        }
    }

    #[test]
    fn the_covering_segment_decides() {
        // As lld lays out: the code's address is one page further on than its offset says.
        let segments = [segment(0, 0, 0x5b8, false), segment(0x5c0, 0x15c0, 0x1000, true)];
        assert_eq!(svma_of(&segments, FileOffset(0x5c0)), Some(Svma(0x15c0)));
        assert_eq!(svma_of(&segments, FileOffset(0x5b7)), Some(Svma(0x5b7)));
        assert_eq!(svma_of(&segments, FileOffset(0x15bf)), Some(Svma(0x25bf)));
        // Between the two lies padding of the code's page.
        assert_eq!(svma_of(&segments, FileOffset(0x5bc)), Some(Svma(0x15bc)));
        assert_eq!(svma_of(&segments, FileOffset(0x2000)), None);
        assert_eq!(segments[1].file_offset_of(Svma(0x15c1)), Some(FileOffset(0x5c1)));
    }

    #[test]
    fn the_end_of_the_number_range_is_no_special_place() {
        let segments = [segment(u64::MAX - 10, u64::MAX - 5, u64::MAX, true)];
        assert_eq!(svma_of(&segments, FileOffset(u64::MAX - 6)), Some(Svma(u64::MAX - 1)));
        assert_eq!(segments[0].svma_of(FileOffset(u64::MAX)), None);
        let _ = svma_of(&segments, FileOffset(u64::MAX));
    }
}
