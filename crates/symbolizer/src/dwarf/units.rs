//! The units of a file, and the address ranges that each covers.

use gimli::{UnitHeader, UnitRef, UnitType};

use super::unit::{read_ranges, read_unit};
use super::{Dwarf, Reader, Unit, WorkBudget};
use crate::MAX_TABLE_ENTRIES;

/// The headers of all units of a file.
pub(crate) struct UnitIndex<'a> {
    /// In the order of `.debug_info`.
    headers: Vec<UnitHeader<Reader<'a>>>,
    work: WorkBudget,
}

/// The address ranges that each unit of a file covers.
#[derive(Default)]
pub(crate) struct UnitRanges {
    ranges: Vec<UnitRange>,
    /// Compilation units that state no ranges.
    without_ranges: Vec<u32>,
}

struct UnitRange {
    begin: u64,
    end: u64,
    unit: u32,
}

/// Maximum number of units that are read. Chromium has 60,000, and some hundred thousand type units.
const MAX_UNITS: usize = 1 << 20;

/// Maximum number of units in which an address is searched for.
const MAX_CLAIMS: u8 = 16;

impl<'a> UnitIndex<'a> {
    /// Reads the headers of all units. Stops at a damaged header, which does not tell where the next unit starts.
    pub(crate) fn read_headers(dwarf: &Dwarf<'a>) -> Self {
        let mut headers = Vec::new();
        let mut units = dwarf.units();
        while let Ok(Some(header)) = units.next()
            && headers.len() < MAX_UNITS
        {
            headers.push(header);
        }
        Self { headers, work: WorkBudget::new(dwarf) }
    }

    /// Reads the ranges of each compilation unit from its first entry. Skips damaged units.
    pub(crate) fn ranges(&self, dwarf: &Dwarf<'a>) -> UnitRanges {
        let mut ranges = UnitRanges::default();
        let mut steps = MAX_TABLE_ENTRIES;
        for (number, header) in (0..).zip(&self.headers) {
            if matches!(header.type_(), UnitType::Compilation | UnitType::Skeleton(_)) {
                ranges.add(dwarf, (number, header), &self.work, &mut steps);
            }
        }
        ranges
    }

    /// Returns the size of a unit in `.debug_info`, in bytes.
    pub(crate) fn size_of(&self, unit: u32) -> usize {
        self.headers.get(unit as usize).map_or(0, |header| header.unit_length())
    }

    pub(crate) fn header(&self, unit: u32) -> Option<&UnitHeader<Reader<'a>>> {
        self.headers.get(unit as usize)
    }

    /// Reads a unit's abbreviations and its first entry; with `lines`, the header of its line table too.
    pub(crate) fn unit(&self, dwarf: &Dwarf<'a>, unit: u32, lines: bool) -> Option<Unit<'a>> {
        read_unit(dwarf, *self.headers.get(unit as usize)?, lines, &self.work)
    }

    /// Returns the number of the unit that covers an offset in `.debug_info`.
    pub(crate) fn containing(&self, offset: usize) -> Option<u32> {
        let start = |header: &UnitHeader<Reader<'a>>| {
            header.debug_info_offset().map_or(usize::MAX, |offset| offset.0)
        };
        let after = self.headers.partition_point(|header| start(header) <= offset);
        u32::try_from(after.checked_sub(1)?).ok()
    }
}

impl UnitRanges {
    /// Returns the memory that it has on the heap, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.ranges.capacity() * size_of::<UnitRange>() + self.without_ranges.capacity() * size_of::<u32>()
    }

    fn add<'a>(
        &mut self,
        dwarf: &Dwarf<'a>,
        (number, header): (u32, &UnitHeader<Reader<'a>>),
        work: &WorkBudget,
        steps: &mut usize,
    ) {
        let Some((unit, attributes)) = read_ranges(dwarf, *header, work) else { return };
        let unit_ref = UnitRef::new(dwarf, &unit);
        let before = self.ranges.len();
        attributes.for_each(unit_ref, steps, |begin, end| {
            self.ranges.push(UnitRange { begin, end, unit: number });
            true
        });
        if self.ranges.len() == before {
            self.without_ranges.push(number);
        }
    }

    /// Returns for each unit whose ranges cover some of `addresses` (sorted) the ascending indices of those. Units that
    /// state no ranges get all addresses that no other unit covers.
    pub(crate) fn claims(&self, addresses: &[u64]) -> Vec<(u32, Vec<u32>)> {
        let mut claims: Vec<(u32, u32)> = Vec::new();
        let mut count = vec![0_u8; addresses.len()];
        // Bounds the work: only a hostile file has many overlapping ranges.
        let mut budget = addresses.len().saturating_mul(64).saturating_add(1 << 16);
        for range in &self.ranges {
            let first = addresses.partition_point(|&address| address < range.begin);
            let after = addresses.partition_point(|&address| address < range.end);
            for (index, count) in count.iter_mut().enumerate().take(after).skip(first) {
                budget = budget.saturating_sub(1);
                if *count < MAX_CLAIMS && budget > 0 {
                    *count += 1;
                    claims.push((range.unit, index as u32));
                }
            }
        }
        let unclaimed: Vec<u32> =
            (0..).zip(&count).filter(|&(_, &count)| count == 0).map(|(index, _)| index).collect();
        for &unit in self.without_ranges.iter().take(1 << 12) {
            claims.extend(unclaimed.iter().map(|&index| (unit, index)));
        }
        claims.sort_unstable();
        claims.dedup();
        let mut by_unit: Vec<(u32, Vec<u32>)> = Vec::new();
        for (unit, index) in claims {
            match by_unit.last_mut() {
                Some((last, indices)) if *last == unit => indices.push(index),
                _ => by_unit.push((unit, vec![index])),
            }
        }
        by_unit
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gimli::{DebugAbbrev, DebugInfo, RunTimeEndian};

    /// Many units that share one table of abbreviations, in which their own is the last.
    fn sharing(units: usize, abbreviations: u64) -> (Vec<u8>, Vec<u8>) {
        let number = |bytes: &mut Vec<u8>, mut number: u64| {
            while number >= 0x80 {
                bytes.push(number as u8 | 0x80);
                number >>= 7;
            }
            bytes.push(number as u8);
        };
        let mut table = Vec::new();
        for code in 1..=abbreviations {
            number(&mut table, code);
            // DW_TAG_compile_unit without children and attributes.
            table.extend([0x11, 0, 0, 0]);
        }
        table.push(0);
        let mut unit = vec![4, 0, 0, 0, 0, 0, 8];
        number(&mut unit, abbreviations);
        let mut info = (unit.len() as u32).to_le_bytes().to_vec();
        info.extend(unit);
        (info.repeat(units), table)
    }

    #[test]
    fn a_table_that_all_units_share_is_not_read_for_ever() {
        let (info, abbreviations) = sharing(100_000, 1000);
        let dwarf = Dwarf {
            debug_info: DebugInfo::new(&info, RunTimeEndian::Little),
            debug_abbrev: DebugAbbrev::new(&abbreviations, RunTimeEndian::Little),
            ..Dwarf::default()
        };
        let units = UnitIndex::read_headers(&dwarf);
        assert_eq!(units.headers.len(), 100_000);
        let ranges = units.ranges(&dwarf);
        // The budget allows some of the units to be read; none of them states ranges.
        let read = ranges.without_ranges.len();
        assert!((1_000..50_000).contains(&read), "{read}");
    }
}
