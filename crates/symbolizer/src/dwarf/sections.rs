use std::borrow::Cow;

use elf::{Endianness, Object};
use gimli::{RunTimeEndian, SectionId};

use super::{Dwarf, Reader};

/// The debug sections of one file, unpacked where they are compressed, else as they lie in the file.
pub(crate) struct Sections<'a> {
    sections: gimli::DwarfSections<Cow<'a, [u8]>>,
    endian: RunTimeEndian,
    /// Sections that are there and cannot be read.
    damaged: Vec<String>,
}

impl<'a> Sections<'a> {
    /// The sections of an object, or nothing where it has no `.debug_info`. Line tables come along only where they
    /// are wanted.
    pub(crate) fn of_object<D: AsRef<[u8]>>(object: &'a Object<D>, lines: bool) -> Option<Self> {
        let name_of = |id| (lines || !is_for_lines(id)).then(|| id.name());
        object.has_contents(".debug_info").then(|| Self::load(object, name_of))
    }

    /// The sections of a `.dwo` file, or of a `.dwp` file as a whole.
    pub(crate) fn of_split<D: AsRef<[u8]>>(object: &'a Object<D>) -> Option<Self> {
        object.has_contents(".debug_info.dwo").then(|| Self::load(object, |id| id.dwo_name()))
    }

    fn load<D: AsRef<[u8]>>(
        object: &'a Object<D>,
        name_of: impl Fn(SectionId) -> Option<&'static str>,
    ) -> Self {
        let mut damaged = Vec::new();
        let load = |id| -> Result<Cow<'a, [u8]>, std::convert::Infallible> {
            let Some(name) = name_of(id).filter(|_| is_needed(id)) else { return Ok(Cow::Borrowed(&[])) };
            Ok(match object.contents(name) {
                Ok(contents) => contents.unwrap_or_default(),
                Err(error) => {
                    damaged.push(error.to_string());
                    Cow::Borrowed(&[])
                }
            })
        };
        let Ok(sections) = gimli::DwarfSections::load(load);
        Self { sections, endian: endian_of(object), damaged }
    }

    /// What could not be read, for the reason of an address that then has no name.
    pub(crate) fn damaged(&self) -> &[String] {
        &self.damaged
    }

    /// gimli's view, with the supplementary file's beside it.
    pub(crate) fn dwarf<'s>(&'s self, supplementary: Option<&'s Sections<'a>>) -> Dwarf<'s> {
        let mut dwarf = self.sections.borrow(|section| Reader::new(section, self.endian));
        if let Some(supplementary) = supplementary {
            dwarf.set_sup(supplementary.dwarf(None));
        }
        dwarf
    }
}

pub(crate) fn endian_of<D: AsRef<[u8]>>(object: &Object<D>) -> RunTimeEndian {
    match object.endian() {
        Endianness::Little => RunTimeEndian::Little,
        Endianness::Big => RunTimeEndian::Big,
    }
}

fn is_for_lines(id: SectionId) -> bool {
    matches!(id, SectionId::DebugLine | SectionId::DebugLineStr)
}

/// Sections that speak of variables, macros and names are never unpacked.
fn is_needed(id: SectionId) -> bool {
    matches!(
        id,
        SectionId::DebugAbbrev
            | SectionId::DebugAddr
            | SectionId::DebugAranges
            | SectionId::DebugInfo
            | SectionId::DebugLine
            | SectionId::DebugLineStr
            | SectionId::DebugRanges
            | SectionId::DebugRngLists
            | SectionId::DebugStr
            | SectionId::DebugStrOffsets
            | SectionId::DebugTypes
            | SectionId::DebugCuIndex
            | SectionId::DebugTuIndex
    )
}
