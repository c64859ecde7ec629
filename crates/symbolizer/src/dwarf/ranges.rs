//! The address ranges of an entry: `DW_AT_low_pc` with `DW_AT_high_pc`, or `DW_AT_ranges` (DWARF 5, 2.17).

use gimli::{Attribute, AttributeValue, UnitRef};

use super::Reader;

/// The range attributes of one entry, collected while its attributes are read.
#[derive(Clone, Copy, Default)]
pub(crate) struct RangeAttributes {
    low: Option<u64>,
    high: Option<u64>,
    size: Option<u64>,
    list: Option<gimli::RangeListsOffset<usize>>,
}

impl RangeAttributes {
    /// Records the attribute if it is a range attribute.
    pub(crate) fn record<'a>(&mut self, attribute: &Attribute<Reader<'a>>, unit: UnitRef<'_, Reader<'a>>) {
        match attribute.name() {
            gimli::DW_AT_low_pc => self.low = unit.attr_address(attribute.value()).ok().flatten(),
            gimli::DW_AT_high_pc => match attribute.value() {
                AttributeValue::Udata(size) => self.size = Some(size),
                value => self.high = unit.attr_address(value).ok().flatten(),
            },
            gimli::DW_AT_ranges => self.list = unit.attr_ranges_offset(attribute.value()).ok().flatten(),
            _ => {}
        }
    }

    /// Calls `found` with the begin and end of each range until it returns `false`. Skips empty ranges, and those that
    /// start at 0: the linker removed their code. `steps` is the number of list entries that may still be read, and is
    /// decremented for each: in a hostile file many entries may share a long list.
    pub(crate) fn for_each<'a>(
        &self,
        unit: UnitRef<'_, Reader<'a>>,
        steps: &mut usize,
        mut found: impl FnMut(u64, u64) -> bool,
    ) {
        if let Some(list) = self.list {
            let Ok(mut ranges) = unit.ranges(list) else { return };
            while let Ok(Some(range)) = ranges.next() {
                let Some(left) = steps.checked_sub(1) else { return };
                *steps = left;
                if range.begin != 0 && range.begin < range.end && !found(range.begin, range.end) {
                    return;
                }
            }
        } else if let Some(low) = self.low.filter(|&low| low != 0) {
            let high = self.high.or_else(|| low.checked_add(self.size?));
            if let Some(high) = high.filter(|&high| low < high) {
                found(low, high);
            }
        }
    }
}
