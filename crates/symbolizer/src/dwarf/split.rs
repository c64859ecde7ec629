//! Split DWARF: the program has skeleton units, a `.dwo` file or a package of them (`.dwp`) has the rest of each (DWARF 5,
//! 7.3.2 and 7.3.5; earlier a GNU extension of DWARF 4).

use elf::Object;
use gimli::{DwoId, UnitRef};

use super::sections::endian_of;
use super::{Dwarf, Reader, Sections, Unit, WorkBudget, read_unit};

/// A reference to the file that holds the rest of a skeleton unit.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[non_exhaustive]
pub struct SplitUnit {
    /// The directory that the compiler ran in (`DW_AT_comp_dir`).
    pub folder: Option<Vec<u8>>,
    /// The path of the file, absolute or relative to that directory (`DW_AT_dwo_name`).
    pub path: Option<Vec<u8>>,
    /// The id (`DW_AT_dwo_id`) that the skeleton and the unit in the file share.
    pub id: u64,
}

/// The debug sections of a `.dwo` file.
pub(crate) struct SplitObject<'a> {
    sections: Sections<'a>,
}

/// Returns the reference to the rest of a skeleton unit; `None` for other units.
pub(crate) fn find_split(unit: UnitRef<'_, Reader<'_>>) -> Option<SplitUnit> {
    let id = unit.dwo_id?;
    let path = unit.dwo_name().ok().flatten().and_then(|name| unit.attr_string(name).ok());
    Some(SplitUnit {
        id: id.0,
        folder: unit.comp_dir.map(|folder| folder.slice().to_vec()),
        path: path.map(|path| path.slice().to_vec()),
    })
}

impl<'a> SplitObject<'a> {
    pub(crate) fn new<D: AsRef<[u8]>>(object: &'a Object<D>) -> Option<Self> {
        Some(Self { sections: Sections::of_split(object)? })
    }

    /// Returns gimli's view of the file, whose skeletons are in `parent`.
    pub(crate) fn dwarf<'s>(&'s self, parent: &Dwarf<'s>) -> Dwarf<'s> {
        let mut dwarf = self.sections.dwarf(None);
        dwarf.make_dwo(parent);
        dwarf
    }
}

/// Returns gimli's view of the unit with this id in a package.
pub(crate) fn unit_of_package<'s, D: AsRef<[u8]>>(
    package: &'s Object<D>,
    sections: &'s PackageSections<'s>,
    id: u64,
    parent: &Dwarf<'s>,
) -> Option<Dwarf<'s>> {
    let endian = endian_of(package);
    let package =
        sections.sections.borrow(|section| Reader::new(section, endian), Reader::new(&[], endian)).ok()?;
    package.find_cu(DwoId(id), parent).ok()?
}

/// The sections of a package, unpacked.
pub(crate) struct PackageSections<'a> {
    sections: gimli::DwarfPackageSections<elf::Contents<'a>>,
}

impl<'a> PackageSections<'a> {
    pub(crate) fn new<D: AsRef<[u8]>>(package: &'a Object<D>) -> Option<Self> {
        let load = |id: gimli::SectionId| -> gimli::Result<elf::Contents<'a>> {
            let contents = id.dwo_name().and_then(|name| package.contents(name).ok().flatten());
            Ok(contents.unwrap_or_default())
        };
        if !package.has_contents(".debug_cu_index") {
            return None;
        }
        Some(Self { sections: gimli::DwarfPackageSections::load(load).ok()? })
    }
}

/// Finds the unit with this id in a split file. It gets the attributes that only the skeleton states.
pub(crate) fn split_unit<'a>(dwarf: &Dwarf<'a>, id: u64, skeleton: &Unit<'a>) -> Option<(u32, Unit<'a>)> {
    let work = WorkBudget::new(dwarf);
    let mut units = dwarf.units();
    let mut number = 0;
    while let Ok(Some(header)) = units.next() {
        if let Some(mut unit) = read_unit(dwarf, header, false, &work)
            && unit.dwo_id == Some(DwoId(id))
        {
            unit.copy_relocated_attributes(skeleton);
            return Some((number, unit));
        }
        number += 1;
    }
    None
}
