//! The name of an entry, wherever it is written: at the entry, at its abstract origin or the declaration that it
//! specifies, in another unit, or in the supplementary file.

use gimli::{AttributeValue, Section as _, UnitOffset, UnitRef};
use rustc_hash::FxHashMap;

use super::{Dwarf, Reader, Unit, UnitIndex};

/// References are followed this often: a real chain has two or three links, a circle has no end.
const MAX_REFERENCES: usize = 16;

/// A file that references may lead to.
#[derive(Clone, Copy)]
pub(crate) struct File<'f, 'a> {
    pub(crate) dwarf: &'f Dwarf<'a>,
    pub(crate) units: &'f UnitIndex<'a>,
}

/// The place of an entry.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Place {
    supplementary: bool,
    unit: u32,
    offset: usize,
}

/// Finds names, and keeps the units that references lead to.
pub(crate) struct EntryNames<'f, 'a> {
    main: File<'f, 'a>,
    supplementary: Option<File<'f, 'a>>,
    units: FxHashMap<(bool, u32), Option<Unit<'a>>>,
}

enum Step<'a> {
    Name(&'a [u8]),
    Reference(Place),
    Nothing,
}

impl<'f, 'a> EntryNames<'f, 'a> {
    pub(crate) fn new(main: File<'f, 'a>, supplementary: Option<File<'f, 'a>>) -> Self {
        Self { main, supplementary, units: FxHashMap::default() }
    }

    /// The linkage name of the entry at `offset` of a unit of the main file, else its name in the source.
    pub(crate) fn name(&mut self, unit: u32, offset: UnitOffset) -> Option<&'a [u8]> {
        let mut place = Place { supplementary: false, unit, offset: offset.0 };
        // A concrete instance may have its own plain name where only the origin has the linkage name.
        for _ in 0..MAX_REFERENCES {
            match self.step(place)? {
                Step::Name(name) => return Some(name),
                Step::Reference(next) => place = next,
                Step::Nothing => return None,
            }
        }
        None
    }

    fn step(&mut self, place: Place) -> Option<Step<'a>> {
        let file = if place.supplementary { self.supplementary? } else { self.main };
        let unit = self
            .units
            .entry((place.supplementary, place.unit))
            .or_insert_with(|| file.units.unit(file.dwarf, place.unit, false))
            .as_ref()?;
        let unit = UnitRef::new(file.dwarf, unit);
        let mut entries = unit.entries_raw(Some(UnitOffset(place.offset))).ok()?;
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
        Some(match (reference.and_then(|value| self.follow(place, value)), name) {
            (Some(next), None) => Step::Reference(next),
            (_, Some(name)) => Step::Name(name),
            (None, None) => Step::Nothing,
        })
    }

    fn follow(&self, from: Place, value: AttributeValue<Reader<'a>>) -> Option<Place> {
        let (supplementary, offset) = match value {
            AttributeValue::UnitRef(offset) => return Some(Place { offset: offset.0, ..from }),
            AttributeValue::DebugInfoRef(offset) => (from.supplementary, offset.0),
            AttributeValue::DebugInfoRefSup(offset) => (true, offset.0),
            _ => return None,
        };
        let file = if supplementary { self.supplementary? } else { self.main };
        let unit = file.units.containing(offset)?;
        let within = gimli::DebugInfoOffset(offset).to_unit_offset(file.units.header(unit)?)?;
        Some(Place { supplementary, unit, offset: within.0 })
    }
}

/// A name that an attribute states. Of one that is too long only the beginning is looked at: it may be as long as the file, and
/// that of many entries.
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
