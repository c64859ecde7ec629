//! The name of an entry: stated by the entry itself, by its abstract origin, or by the declaration that it specifies. The
//! latter two may be in another unit or in the supplementary file.

use gimli::{AttributeValue, Section as _, UnitOffset, UnitRef};
use rustc_hash::FxHashMap;

use super::{Dwarf, Reader, Unit, UnitIndex};

/// Maximum number of references followed to a name. Real chains have two or three; a hostile file may make a cycle.
const MAX_REFERENCES: usize = 16;

/// A file that references may lead into: the main or the supplementary one.
#[derive(Clone, Copy)]
pub(crate) struct DwarfFile<'f, 'a> {
    pub(crate) dwarf: &'f Dwarf<'a>,
    pub(crate) units: &'f UnitIndex<'a>,
}

/// The file, unit number and offset in the unit of an entry.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct EntryLocation {
    supplementary: bool,
    unit: u32,
    offset: usize,
}

/// Finds the names of entries. Keeps the units that references lead to.
pub(crate) struct EntryNames<'f, 'a> {
    main: DwarfFile<'f, 'a>,
    supplementary: Option<DwarfFile<'f, 'a>>,
    units: FxHashMap<(bool, u32), Option<Unit<'a>>>,
}

enum Step<'a> {
    Name(&'a [u8]),
    Reference(EntryLocation),
    Nothing,
}

impl<'f, 'a> EntryNames<'f, 'a> {
    pub(crate) fn new(main: DwarfFile<'f, 'a>, supplementary: Option<DwarfFile<'f, 'a>>) -> Self {
        Self { main, supplementary, units: FxHashMap::default() }
    }

    /// Returns the linkage name of the entry at `offset` in a unit of the main file, or else its name in the source.
    pub(crate) fn name(&mut self, unit: u32, offset: UnitOffset) -> Option<&'a [u8]> {
        let mut location = EntryLocation { supplementary: false, unit, offset: offset.0 };
        // A concrete instance may have its own plain name where only the origin has the linkage name.
        for _ in 0..MAX_REFERENCES {
            match self.step(location)? {
                Step::Name(name) => return Some(name),
                Step::Reference(next) => location = next,
                Step::Nothing => return None,
            }
        }
        None
    }

    fn step(&mut self, location: EntryLocation) -> Option<Step<'a>> {
        let file = if location.supplementary { self.supplementary? } else { self.main };
        let unit = self
            .units
            .entry((location.supplementary, location.unit))
            .or_insert_with(|| file.units.unit(file.dwarf, location.unit, false))
            .as_ref()?;
        let unit = UnitRef::new(file.dwarf, unit);
        let mut entries = unit.entries_raw(Some(UnitOffset(location.offset))).ok()?;
        let abbreviation = entries.read_abbreviation().ok()??;
        let mut name = None;
        let mut reference = None;
        for specification in abbreviation.attributes() {
            let attribute = entries.read_attribute(*specification).ok()?;
            match attribute.name() {
                gimli::DW_AT_linkage_name | gimli::DW_AT_MIPS_linkage_name => {
                    if let Some(linkage_name) = text(unit, attribute.value()) {
                        return Some(Step::Name(linkage_name));
                    }
                }
                gimli::DW_AT_name => name = text(unit, attribute.value()),
                gimli::DW_AT_abstract_origin | gimli::DW_AT_specification => {
                    reference = Some(attribute.value())
                }
                _ => {}
            }
        }
        // gcc names a member function at its declaration, with the linkage name beside the plain one.
        Some(match (reference.and_then(|value| self.follow(location, value)), name) {
            (Some(next), None) => Step::Reference(next),
            (_, Some(name)) => Step::Name(name),
            (None, None) => Step::Nothing,
        })
    }

    fn follow(&self, from: EntryLocation, value: AttributeValue<Reader<'a>>) -> Option<EntryLocation> {
        let (supplementary, offset) = match value {
            AttributeValue::UnitRef(offset) => return Some(EntryLocation { offset: offset.0, ..from }),
            AttributeValue::DebugInfoRef(offset) => (from.supplementary, offset.0),
            AttributeValue::DebugInfoRefSup(offset) => (true, offset.0),
            _ => return None,
        };
        let file = if supplementary { self.supplementary? } else { self.main };
        let unit = file.units.containing(offset)?;
        let within = gimli::DebugInfoOffset(offset).to_unit_offset(file.units.header(unit)?)?;
        Some(EntryLocation { supplementary, unit, offset: within.0 })
    }
}

/// Returns the name that an attribute states. Reads only the beginning of a long name, which may be as long as the file
/// and shared by many entries.
fn text<'a>(unit: UnitRef<'_, Reader<'a>>, value: AttributeValue<Reader<'a>>) -> Option<&'a [u8]> {
    let value = match value {
        AttributeValue::DebugStrOffsetsIndex(index) => {
            AttributeValue::DebugStrRef(unit.string_offset(index).ok()?)
        }
        value => value,
    };
    let (strings, offset) = match value {
        AttributeValue::String(text) => (text, 0),
        AttributeValue::DebugStrRef(offset) => (*unit.dwarf.debug_str.reader(), offset.0),
        AttributeValue::DebugStrRefSup(offset) => (*unit.dwarf.sup()?.debug_str.reader(), offset.0),
        AttributeValue::DebugLineStrRef(offset) => (*unit.dwarf.debug_line_str.reader(), offset.0),
        _ => return None,
    };
    Some(elf::name_at(strings.slice(), offset))
}
