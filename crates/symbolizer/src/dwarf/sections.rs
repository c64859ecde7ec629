//! The debug sections of a file, and those of them that were unpacked.

use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use elf::{Endianness, Object};
use gimli::{RunTimeEndian, SectionId};

use super::{Dwarf, Reader};

/// The bytes of a section.
enum Contents<'a> {
    /// The section is not compressed.
    InFile(&'a [u8]),
    Unpacked(Arc<elf::Unpacked>),
}

impl Deref for Contents<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::InFile(bytes) => bytes,
            Self::Unpacked(bytes) => bytes,
        }
    }
}

/// The unpacked sections of one file, kept because unpacking takes long.
#[derive(Default)]
pub(crate) struct Unpacked(Mutex<Vec<(SectionId, Arc<elf::Unpacked>)>>);

impl Unpacked {
    /// Returns the bytes of all sections together.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.lock().iter().map(|(_, bytes)| bytes.len()).sum()
    }

    /// Releases all sections.
    pub(crate) fn clear(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(SectionId, Arc<elf::Unpacked>)>> {
        // The list is consistent even if another thread panicked while it held the lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the section as it was unpacked before, or reads it with `read`.
    fn get_or_read<'a, E>(
        &self,
        id: SectionId,
        read: impl FnOnce() -> Result<elf::Contents<'a>, E>,
    ) -> Result<Contents<'a>, E> {
        let mut unpacked = self.lock();
        if let Some((_, bytes)) = unpacked.iter().find(|(known, _)| *known == id) {
            return Ok(Contents::Unpacked(Arc::clone(bytes)));
        }
        Ok(match read()? {
            elf::Contents::InFile(bytes) => Contents::InFile(bytes),
            elf::Contents::Unpacked(bytes) => {
                let bytes = Arc::new(bytes);
                unpacked.push((id, Arc::clone(&bytes)));
                Contents::Unpacked(bytes)
            }
        })
    }
}

/// The debug sections of one file, unpacked where they are compressed.
pub(crate) struct Sections<'a> {
    sections: gimli::DwarfSections<Contents<'a>>,
    endian: RunTimeEndian,
    /// What is wrong with sections that cannot be read.
    damaged: Vec<String>,
}

impl<'a> Sections<'a> {
    /// Loads the sections of an object; returns `None` where it has no `.debug_info`. Loads line tables only if `lines`.
    /// Stores unpacked sections in `unpacked`, which must be used for this file only.
    pub(crate) fn of_object<D: AsRef<[u8]>>(
        object: &'a Object<D>,
        lines: bool,
        unpacked: &Unpacked,
    ) -> Option<Self> {
        let name_of = |id| (lines || !is_for_lines(id)).then(|| id.name());
        object.has_contents(".debug_info").then(|| Self::load(object, name_of, unpacked))
    }

    /// Loads the sections of a `.dwo` file, or of a `.dwp` file as a whole.
    pub(crate) fn of_split<D: AsRef<[u8]>>(object: &'a Object<D>) -> Option<Self> {
        object
            .has_contents(".debug_info.dwo")
            .then(|| Self::load(object, |id| id.dwo_name(), &Unpacked::default()))
    }

    fn load<D: AsRef<[u8]>>(
        object: &'a Object<D>,
        name_of: impl Fn(SectionId) -> Option<&'static str>,
        unpacked: &Unpacked,
    ) -> Self {
        let mut damaged = Vec::new();
        let load = |id| -> Result<Contents<'a>, std::convert::Infallible> {
            let Some(name) = name_of(id).filter(|_| is_needed(id)) else { return Ok(Contents::InFile(&[])) };
            let read = || object.contents(name).map(Option::unwrap_or_default);
            Ok(unpacked.get_or_read(id, read).unwrap_or_else(|error| {
                damaged.push(error.to_string());
                Contents::InFile(&[])
            }))
        };
        let Ok(sections) = gimli::DwarfSections::load(load);
        Self { sections, endian: endian_of(object), damaged }
    }

    /// Returns what is wrong with sections that cannot be read: the reason why addresses have no names.
    pub(crate) fn damaged(&self) -> &[String] {
        &self.damaged
    }

    /// Returns gimli's view of the sections, with that of the supplementary file.
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

/// Returns true for sections that symbolization reads. Those of variables, macros and name indices are never unpacked.
fn is_needed(id: SectionId) -> bool {
    matches!(
        id,
        SectionId::DebugAbbrev
            | SectionId::DebugAddr
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
