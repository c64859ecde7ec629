//! The linker's sorted table of `.eh_frame_hdr` (Linux Standard Base, core specification, section 10.6.2).

use elf::ReadAt;

use super::Section;

/// `DW_EH_PE_udata4`.
const UDATA4: u8 = 0x03;
/// `DW_EH_PE_datarel | DW_EH_PE_sdata4`: relative to the start of `.eh_frame_hdr`. All linkers write this form.
const DATAREL_SDATA4: u8 = 0x3b;
/// `DW_EH_PE_pcrel | DW_EH_PE_sdata4`.
const PCREL_SDATA4: u8 = 0x1b;

const HEADER_BYTES: usize = 12;
const ENTRY_BYTES: usize = 8;

/// The header of `.eh_frame_hdr`, which has been checked. The entries are read when they are needed.
#[derive(Clone, Copy, Debug)]
pub(super) struct SearchTable {
    address: u64,
    count: u64,
    eh_frame: u64,
}

/// The number of entries that are read at once, at the end of the search.
const CHUNK_ENTRIES: u64 = 64;

impl SearchTable {
    /// Reads the header; `None` where there is no table, or one in a form that no linker writes.
    pub(super) fn parse(section: &Section<impl ReadAt>) -> Option<Self> {
        let address = section.address.0;
        let header = section.array::<HEADER_BYTES>(0)?;
        let [1, PCREL_SDATA4, UDATA4, DATAREL_SDATA4, rest @ ..] = header else { return None };
        let eh_frame = i32::from_le_bytes([rest[0], rest[1], rest[2], rest[3]]);
        let count = u64::from(u32::from_le_bytes([rest[4], rest[5], rest[6], rest[7]]));
        let room = section.size().checked_sub(HEADER_BYTES as u64)? / ENTRY_BYTES as u64;
        (count <= room).then_some(Self {
            address,
            count,
            eh_frame: address.wrapping_add(4).wrapping_add_signed(i64::from(eh_frame)),
        })
    }

    /// The address of `.eh_frame` (Svma).
    pub(super) fn eh_frame_address(&self) -> u64 {
        self.eh_frame
    }

    /// The address (Svma) of the FDE that covers `address`, if any does: the last whose code begins at or below it; and where
    /// the code of the next one begins. `section` is the one that the table was found in.
    pub(super) fn find(&self, section: &impl ReadAt, address: u64) -> Option<(u64, u64)> {
        let place = |index: u64| HEADER_BYTES as u64 + index * ENTRY_BYTES as u64;
        // The last entry at or below is `low` or one of those up to `high`.
        let (mut low, mut high) = (0, self.count);
        while high - low > CHUNK_ENTRIES {
            let middle = low + (high - low) / 2;
            let entry = section.array(place(middle))?;
            if self.word(&entry, 0) <= address { low = middle } else { high = middle }
        }
        let mut chunk = [0; (CHUNK_ENTRIES as usize + 1) * ENTRY_BYTES];
        let wanted = (high + 1).min(self.count) - low;
        let chunk = chunk.get_mut(..usize::try_from(wanted).ok()? * ENTRY_BYTES)?;
        if section.read_at(place(low), chunk) != chunk.len() {
            return None;
        }
        let entries = chunk.as_chunks::<ENTRY_BYTES>().0;
        let index = entries.partition_point(|entry| self.word(entry, 0) <= address);
        let entry = entries.get(index.checked_sub(1)?)?;
        let next = entries.get(index).map_or(u64::MAX, |entry| self.word(entry, 0));
        Some((self.word(entry, 4), next))
    }

    fn word(&self, entry: &[u8; ENTRY_BYTES], at: usize) -> u64 {
        let word =
            entry.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |word| i32::from_le_bytes(*word));
        self.address.wrapping_add_signed(i64::from(word))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn parse(address: u64, bytes: &[u8]) -> Option<SearchTable> {
        SearchTable::parse(&Section { address: model::Svma(address), bytes })
    }

    fn table(count: u32, entries: &[(i32, i32)]) -> Vec<u8> {
        let mut bytes = Vec::from([1, PCREL_SDATA4, UDATA4, DATAREL_SDATA4]);
        bytes.extend(0x1000_i32.to_le_bytes());
        bytes.extend(count.to_le_bytes());
        for (location, fde) in entries {
            bytes.extend(location.to_le_bytes());
            bytes.extend(fde.to_le_bytes());
        }
        bytes
    }

    #[test]
    fn the_last_entry_at_or_below_is_found() {
        let bytes = table(2, &[(-0x800, 0x1010), (-0x700, 0x1030)]);
        let table = parse(0x2000, &bytes).unwrap();
        assert_eq!(table.eh_frame_address(), 0x3004);
        assert_eq!(table.find(&bytes, 0x17ff), None);
        assert_eq!(table.find(&bytes, 0x1800), Some((0x3010, 0x1900)));
        assert_eq!(table.find(&bytes, 0x1900), Some((0x3030, u64::MAX)));
        assert_eq!(table.find(&bytes, u64::MAX), Some((0x3030, u64::MAX)));
    }

    #[test]
    fn long_tables_are_searched_as_short_ones() {
        for count in [1, 2, 63, 64, 65, 66, 129, 1000, 4097] {
            let entries: Vec<(i32, i32)> = (0..count).map(|index| (index * 0x10, index * 0x20)).collect();
            let bytes = table(count as u32, &entries);
            let table = parse(0x2000, &bytes).unwrap();
            assert_eq!(table.find(&bytes, 0x1fff), None);
            for index in 0..count as u64 {
                let next = if index + 1 == count as u64 { u64::MAX } else { 0x2010 + index * 0x10 };
                let found = Some((0x2000 + index * 0x20, next));
                assert_eq!(table.find(&bytes, 0x2000 + index * 0x10), found, "{index} of {count}");
                assert_eq!(table.find(&bytes, 0x200f + index * 0x10), found, "{index} of {count}");
            }
        }
    }

    #[test]
    fn a_count_beyond_the_section_is_no_table() {
        assert!(parse(0, &table(3, &[(0, 0), (1, 1)])).is_none());
        assert!(parse(0, &table(u32::MAX, &[])).is_none());
        assert!(parse(0, &[1, PCREL_SDATA4]).is_none());
    }
}
