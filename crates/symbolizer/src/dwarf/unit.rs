//! A unit, as far as it is needed.

use gimli::{AttributeValue, UnitHeader, UnitType};

use super::ranges::RangeAttributes;
use super::{Dwarf, Reader, Unit};

/// Reads a unit's abbreviations and its first entry.
///
/// gimli's own way fails where the unit's line table is missing or damaged, and reads the table's header in any case.
/// Here that is read only on demand, and a damaged one costs the lines alone.
pub(crate) fn read_unit<'a>(
    dwarf: &Dwarf<'a>,
    header: UnitHeader<Reader<'a>>,
    lines: bool,
) -> Option<Unit<'a>> {
    read_with_ranges(dwarf, header, lines).map(|(unit, _)| unit)
}

/// As [`read_unit`], with what the unit says it covers.
pub(crate) fn read_with_ranges<'a>(
    dwarf: &Dwarf<'a>,
    header: UnitHeader<Reader<'a>>,
    lines: bool,
) -> Option<(Unit<'a>, RangeAttributes)> {
    let encoding = header.encoding();
    let mut unit = Unit {
        abbreviations: dwarf.abbreviations(&header).ok()?,
        name: None,
        comp_dir: None,
        low_pc: 0,
        str_offsets_base: gimli::DebugStrOffsetsBase::default_for_encoding_and_file(
            encoding,
            dwarf.file_type,
        ),
        addr_base: gimli::DebugAddrBase(0),
        loclists_base: gimli::DebugLocListsBase::default_for_encoding_and_file(encoding, dwarf.file_type),
        rnglists_base: gimli::DebugRngListsBase::default_for_encoding_and_file(encoding, dwarf.file_type),
        line_program: None,
        dwo_id: match header.type_() {
            UnitType::Skeleton(id) | UnitType::SplitCompilation(id) => Some(id),
            _ => None,
        },
        header,
    };
    let mut ranges = Vec::with_capacity(3);
    let (mut folder, mut line_table, mut low) = (None, None, None);
    {
        let abbreviations = unit.abbreviations.clone();
        let mut entries = header.entries_raw(&abbreviations, None).ok()?;
        let abbreviation = entries.read_abbreviation().ok()??;
        for specification in abbreviation.attributes() {
            let attribute = entries.read_attribute(*specification).ok()?;
            match (attribute.name(), attribute.value()) {
                (gimli::DW_AT_comp_dir, value) => folder = Some(value),
                (gimli::DW_AT_stmt_list, AttributeValue::DebugLineRef(offset)) => line_table = Some(offset),
                (gimli::DW_AT_str_offsets_base, AttributeValue::DebugStrOffsetsBase(base)) => {
                    unit.str_offsets_base = base;
                }
                (
                    gimli::DW_AT_addr_base | gimli::DW_AT_GNU_addr_base,
                    AttributeValue::DebugAddrBase(base),
                ) => unit.addr_base = base,
                (
                    gimli::DW_AT_rnglists_base | gimli::DW_AT_GNU_ranges_base,
                    AttributeValue::DebugRngListsBase(base),
                ) => unit.rnglists_base = base,
                (gimli::DW_AT_GNU_dwo_id, AttributeValue::DwoId(id)) if unit.dwo_id.is_none() => {
                    unit.dwo_id = Some(id);
                }
                (gimli::DW_AT_low_pc, value) => {
                    low = Some(value);
                    ranges.push(attribute);
                }
                (gimli::DW_AT_high_pc | gimli::DW_AT_ranges, _) => ranges.push(attribute),
                _ => {}
            }
        }
    }
    // What these mean depends on the bases, which may come behind them.
    unit.low_pc = low.and_then(|value| dwarf.attr_address(&unit, value).ok().flatten()).unwrap_or(0);
    unit.comp_dir = folder.and_then(|value| dwarf.attr_string(&unit, value).ok());
    if lines {
        let table = line_table
            .map(|offset| dwarf.debug_line.program(offset, header.address_size(), unit.comp_dir, None));
        unit.line_program = table.and_then(Result::ok);
    }
    let mut attributes = RangeAttributes::default();
    let unit_ref = gimli::UnitRef::new(dwarf, &unit);
    ranges.iter().for_each(|attribute| attributes.take(attribute, unit_ref));
    Some((unit, attributes))
}
