//! The name of an entry: stated by the entry itself, by its abstract origin, or by the declaration that it specifies. The
//! latter two may be in another unit or in the supplementary file.
//!
//! A linkage name has the scope in it. A name in the source gets that of the entries around it.

use std::sync::Arc;

use gimli::{AttributeValue, Section as _, UnitOffset, UnitRef};
use rustc_hash::FxHashMap;

use super::scopes::{Scope, Scopes};
use super::{Dwarf, Reader, Unit, UnitIndex};
use crate::names::{NameStyle, NameTable, display_name};

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

impl EntryLocation {
    /// Names the unit among those of both files.
    fn unit_key(&self) -> (bool, u32) {
        (self.supplementary, self.unit)
    }
}

/// Maximum number of functions around an entry that its name states. In a hostile file, they may refer to each other.
const MAX_FUNCTIONS_AROUND: usize = 8;

/// Finds the names of entries. Keeps the units that references lead to.
pub(crate) struct EntryNames<'f, 'a> {
    main: DwarfFile<'f, 'a>,
    supplementary: Option<DwarfFile<'f, 'a>>,
    units: FxHashMap<(bool, u32), Option<Unit<'a>>>,
    scopes: Scopes,
    /// The names that were found.
    shown: FxHashMap<EntryLocation, Option<Arc<str>>>,
    /// The lines of declarations that were found.
    start_lines: FxHashMap<EntryLocation, u32>,
}

/// The name of an entry, as the file states it.
enum StatedName<'a> {
    /// `DW_AT_linkage_name`.
    Linkage(&'a [u8]),
    /// `DW_AT_name`, and the entry that states it.
    Source(&'a [u8], EntryLocation),
}

type Entry<'a> = gimli::DebuggingInformationEntry<Reader<'a>>;

/// The line and the column of a declaration.
type LineAndColumn = (u64, u64);

enum Step<'a> {
    Name(StatedName<'a>),
    Reference(EntryLocation),
    Nothing,
}

impl<'f, 'a> EntryNames<'f, 'a> {
    pub(crate) fn new(main: DwarfFile<'f, 'a>, supplementary: Option<DwarfFile<'f, 'a>>) -> Self {
        Self {
            main,
            supplementary,
            units: FxHashMap::default(),
            scopes: Scopes::default(),
            shown: FxHashMap::default(),
            start_lines: FxHashMap::default(),
        }
    }

    /// Returns the name of the entry at `offset` in a unit of the main file: its linkage name in the style of `table`, or else
    /// its name in the source.
    pub(crate) fn display(&mut self, unit: u32, offset: UnitOffset, table: &NameTable) -> Option<Arc<str>> {
        let location = EntryLocation { supplementary: false, unit, offset: offset.0 };
        if let Some(known) = self.shown.get(&location) {
            return known.clone();
        }
        let name = self.stated(location).map(|name| match name {
            StatedName::Linkage(name) => table.display(name),
            StatedName::Source(name, at) => {
                let scope = self.scope(at, name, MAX_FUNCTIONS_AROUND).unwrap_or_default();
                table.display(&[scope.as_bytes(), name].concat())
            }
        });
        self.shown.insert(location, name.clone());
        name
    }

    /// Returns the line at which the function of an entry is declared (`DW_AT_decl_line`), or else that of its abstract origin or
    /// declaration; 0 where none states it.
    pub(crate) fn start_line(&mut self, unit: u32, offset: UnitOffset) -> u32 {
        let start = EntryLocation { supplementary: false, unit, offset: offset.0 };
        if let Some(&known) = self.start_lines.get(&start) {
            return known;
        }
        let mut at = Some(start);
        let mut found = 0;
        for _ in 0..MAX_REFERENCES {
            let Some(location) = at else { break };
            let Some((line, reference)) = self.declaration(location) else { break };
            if line > 0 {
                found = line;
                break;
            }
            at = reference;
        }
        self.start_lines.insert(start, found);
        found
    }

    /// Returns the line that an entry states, or 0, and the entry that it refers to.
    fn declaration(&mut self, location: EntryLocation) -> Option<(u32, Option<EntryLocation>)> {
        let unit = self.unit(location)?;
        let entry = unit.entry(UnitOffset(location.offset)).ok()?;
        let line = number(&entry, gimli::DW_AT_decl_line).unwrap_or(0);
        let reference = reference(&entry).and_then(|value| self.follow(location, value));
        Some((u32::try_from(line).unwrap_or(0), reference))
    }

    fn stated(&mut self, mut location: EntryLocation) -> Option<StatedName<'a>> {
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

    /// Returns the namespaces, classes and functions around an entry with this name, as C++ writes them before it; nothing
    /// where there is no namespace or class.
    fn scope(&mut self, at: EntryLocation, name: &[u8], around: usize) -> Option<String> {
        let file = self.file(at)?;
        let unit = self.units.get(&at.unit_key())?.as_ref()?;
        let scopes = self.scopes.of(at.unit_key(), UnitRef::new(file.dwarf, unit), UnitOffset(at.offset))?;
        if !scopes.iter().any(|scope| !matches!(scope, Scope::Function(_))) {
            return None;
        }
        // The innermost function states the scopes around itself.
        let first = scopes.iter().rposition(|scope| matches!(scope, Scope::Function(_))).unwrap_or(0);
        let mut text = String::new();
        for scope in scopes.into_iter().skip(first) {
            let part = match scope {
                Scope::Function(offset) => {
                    let function = EntryLocation { offset: offset.0, ..at };
                    let around = around.checked_sub(1)?;
                    self.stated(function).map(|name| match name {
                        StatedName::Linkage(name) => display_name(name, NameStyle::Demangled).into_owned(),
                        StatedName::Source(name, at) => {
                            let scope = self.scope(at, name, around).unwrap_or_default();
                            scope + &String::from_utf8_lossy(name)
                        }
                    })
                }
                Scope::Namespace(offset) => {
                    let name = self.entry_name(at, offset).map(|(name, _)| name);
                    Some(name.flatten().unwrap_or_else(|| String::from("(anonymous namespace)")))
                }
                Scope::Class(offset) => self.entry_name(at, offset).and_then(|(class, place)| match class {
                    Some(class) if !class.starts_with("<lambda") => Some(class),
                    _ => {
                        // Several in one function differ in their places only.
                        let is_lambda = name.starts_with(b"operator()") || name == b"_FUN";
                        let kind = if is_lambda { "lambda" } else { "unnamed type" };
                        place.map(|(line, column)| format!("{{{kind} at {line}:{column}}}"))
                    }
                }),
            };
            if let Some(part) = part {
                text.push_str(&part);
                text.push_str("::");
            }
        }
        Some(text)
    }

    /// Returns the own name of an entry in the unit of `at`, and its line and column.
    fn entry_name(
        &self,
        at: EntryLocation,
        offset: UnitOffset,
    ) -> Option<(Option<String>, Option<LineAndColumn>)> {
        let unit = UnitRef::new(self.file(at)?.dwarf, self.units.get(&at.unit_key())?.as_ref()?);
        let entry = unit.entry(offset).ok()?;
        let name = entry.attr_value(gimli::DW_AT_name).and_then(|name| text(unit, name));
        let column = number(&entry, gimli::DW_AT_decl_column).unwrap_or(0);
        let place = number(&entry, gimli::DW_AT_decl_line).map(|line| (line, column));
        Some((name.map(|name| String::from_utf8_lossy(name).into_owned()), place))
    }

    /// Returns the file of an entry.
    fn file(&self, location: EntryLocation) -> Option<DwarfFile<'f, 'a>> {
        if location.supplementary { self.supplementary } else { Some(self.main) }
    }

    /// Returns the unit of an entry.
    fn unit(&mut self, location: EntryLocation) -> Option<UnitRef<'_, Reader<'a>>> {
        let file = self.file(location)?;
        let read = || file.units.unit(file.dwarf, location.unit, false);
        let unit = self.units.entry(location.unit_key()).or_insert_with(read).as_ref()?;
        Some(UnitRef::new(file.dwarf, unit))
    }

    fn step(&mut self, location: EntryLocation) -> Option<Step<'a>> {
        let unit = self.unit(location)?;
        let entry = unit.entry(UnitOffset(location.offset)).ok()?;
        let name_in = |attribute| text(unit, entry.attr_value(attribute)?);
        let linkage_names = [gimli::DW_AT_linkage_name, gimli::DW_AT_MIPS_linkage_name];
        if let Some(name) = linkage_names.into_iter().find_map(name_in) {
            return Some(Step::Name(StatedName::Linkage(name)));
        }
        let (name, reference) = (name_in(gimli::DW_AT_name), reference(&entry));
        // gcc names a member function at its declaration, with the linkage name beside the plain one.
        Some(match (reference.and_then(|value| self.follow(location, value)), name) {
            (Some(next), None) => Step::Reference(next),
            (_, Some(name)) => Step::Name(StatedName::Source(name, location)),
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

/// Returns the entry that an entry refers to for what it does not state itself.
fn reference<'a>(entry: &Entry<'a>) -> Option<AttributeValue<Reader<'a>>> {
    entry.attr_value(gimli::DW_AT_abstract_origin).or_else(|| entry.attr_value(gimli::DW_AT_specification))
}

fn number(entry: &Entry<'_>, attribute: gimli::DwAt) -> Option<u64> {
    entry.attr(attribute)?.udata_value()
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
