//! Reads a unit's abbreviations and the attributes of its first entry.

use std::sync::Arc;

use gimli::{
    Abbreviations, AttributeValue, DebugAbbrev, DebugAbbrevOffset, Reader as _, Section as _, UnitHeader,
    UnitType,
};

use super::ranges::RangeAttributes;
use super::{Dwarf, Reader, Unit, WorkBudget};

/// Reads a unit's abbreviations and its first entry.
///
/// `gimli::Unit::new` always reads the header of the line table, and fails where that is missing or damaged. This reads
/// it only with `lines`, and a damaged one leaves the unit without lines.
pub(crate) fn read_unit<'a>(
    dwarf: &Dwarf<'a>,
    header: UnitHeader<Reader<'a>>,
    lines: bool,
    work: &WorkBudget,
) -> Option<Unit<'a>> {
    first_entry(dwarf, header, all_abbreviations(dwarf, &header, work)?, lines).map(|(unit, _)| unit)
}

/// Reads a unit's first entry and its range attributes. The returned unit may hold only the abbreviation of that entry;
/// use it to read the ranges.
pub(crate) fn read_ranges<'a>(
    dwarf: &Dwarf<'a>,
    header: UnitHeader<Reader<'a>>,
    work: &WorkBudget,
) -> Option<(Unit<'a>, RangeAttributes)> {
    let abbreviations = abbreviation_of_first_entry(dwarf, &header, work)
        .or_else(|| all_abbreviations(dwarf, &header, work))?;
    first_entry(dwarf, header, abbreviations, false)
}

/// Reads the abbreviation of a unit's first entry alone, if it is the first in its table, where compilers write it. A
/// table has about a hundred, and only the ranges of most units are needed.
fn abbreviation_of_first_entry(
    dwarf: &Dwarf<'_>,
    header: &UnitHeader<Reader<'_>>,
    work: &WorkBudget,
) -> Option<Arc<Abbreviations>> {
    let code = header.range_from(header.root_offset()..).ok()?.read_uleb128().ok()?;
    let mut table = *dwarf.debug_abbrev.reader();
    table.skip(header.debug_abbrev_offset().0).ok()?;
    let mut rest = table;
    if rest.read_uleb128().ok()? != code || !work.try_spend(1) {
        return None;
    }
    skip_abbreviation(&mut rest)?;
    if !work.try_spend(table.len() - rest.len()) {
        return None;
    }
    rest.read_uleb128().ok()?;
    let first = table.range_to(..table.len() - rest.len());
    DebugAbbrev::from(first).abbreviations(DebugAbbrevOffset(0)).ok().map(Arc::new)
}

/// Skips an abbreviation whose code was read (DWARF 5, 7.5.3): tag, children flag, pairs of name and form, and the name 0
/// of the last pair. The form of the last pair remains to be read.
fn skip_abbreviation(table: &mut Reader<'_>) -> Option<()> {
    table.skip_leb128().ok()?;
    table.read_u8().ok()?;
    while table.read_uleb128().ok()? != 0 {
        if table.read_uleb128_u16().ok()? == gimli::DW_FORM_implicit_const.0 {
            table.skip_leb128().ok()?;
        }
    }
    Some(())
}

/// Reads all abbreviations of a unit; returns `None` if the work budget is spent.
fn all_abbreviations(
    dwarf: &Dwarf<'_>,
    header: &UnitHeader<Reader<'_>>,
    work: &WorkBudget,
) -> Option<Arc<Abbreviations>> {
    let mut rest = *dwarf.debug_abbrev.reader();
    rest.skip(header.debug_abbrev_offset().0).ok()?;
    if !work.try_spend(1) {
        return None;
    }
    loop {
        let before = rest.len();
        // gimli reports a damaged table below.
        let goes_on = rest.read_uleb128().is_ok_and(|code| code != 0)
            && skip_abbreviation(&mut rest).is_some()
            && rest.read_uleb128().is_ok();
        if !work.try_spend(before - rest.len()) {
            return None;
        }
        if !goes_on {
            return dwarf.abbreviations(header).ok();
        }
    }
}

fn first_entry<'a>(
    dwarf: &Dwarf<'a>,
    header: UnitHeader<Reader<'a>>,
    abbreviations: Arc<Abbreviations>,
    lines: bool,
) -> Option<(Unit<'a>, RangeAttributes)> {
    let encoding = header.encoding();
    let mut unit = Unit {
        abbreviations,
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
    let entry = header.entry(&unit.abbreviations, header.root_offset()).ok()?;
    let mut line_table = None;
    for attribute in entry.attrs() {
        match (attribute.name(), attribute.value()) {
            (gimli::DW_AT_stmt_list, AttributeValue::DebugLineRef(offset)) => line_table = Some(offset),
            (gimli::DW_AT_str_offsets_base, AttributeValue::DebugStrOffsetsBase(base)) => {
                unit.str_offsets_base = base;
            }
            (gimli::DW_AT_addr_base | gimli::DW_AT_GNU_addr_base, AttributeValue::DebugAddrBase(base)) => {
                unit.addr_base = base;
            }
            (
                gimli::DW_AT_rnglists_base | gimli::DW_AT_GNU_ranges_base,
                AttributeValue::DebugRngListsBase(base),
            ) => unit.rnglists_base = base,
            (gimli::DW_AT_GNU_dwo_id, AttributeValue::DwoId(id)) if unit.dwo_id.is_none() => {
                unit.dwo_id = Some(id);
            }
            _ => {}
        }
    }
    // Resolved after the loop: indexed forms need the base attributes, which may follow them.
    let low = entry.attr_value(gimli::DW_AT_low_pc);
    unit.low_pc = low.and_then(|value| dwarf.attr_address(&unit, value).ok().flatten()).unwrap_or(0);
    let folder = entry.attr_value(gimli::DW_AT_comp_dir);
    unit.comp_dir = folder.and_then(|value| dwarf.attr_string(&unit, value).ok());
    let line_table = line_table.filter(|_| lines);
    unit.line_program = line_table
        .and_then(|offset| dwarf.debug_line.program(offset, header.address_size(), unit.comp_dir, None).ok());
    let mut attributes = RangeAttributes::default();
    let unit_ref = gimli::UnitRef::new(dwarf, &unit);
    entry.attrs().iter().for_each(|attribute| attributes.record(attribute, unit_ref));
    Some((unit, attributes))
}
