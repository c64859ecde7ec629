use alloc::boxed::Box;

use model::Svma;
use object::Endianness;
use object::elf::{FileHeader32, FileHeader64, SHT_REL, SHT_RELA, SectionType};
use object::read::elf::{Crel, FileHeader};

use crate::table::entries;

/// A relocation (ELF specification, "Relocation").
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Relocation {
    /// `r_offset`: the place to be filled in.
    pub address: Svma,
    /// The index of the symbol in the table that `sh_link` names; 0 for none.
    pub symbol: u32,
    /// The relocation's type, as the machine defines it.
    pub kind: u32,
    /// `r_addend`; nothing in a table without addends (`SHT_REL`), where it stands in the place to be filled in.
    pub addend: Option<i64>,
}

type Relocations<'a> = Box<dyn Iterator<Item = Relocation> + 'a>;

pub(crate) fn relocations(
    bytes: &[u8],
    section_kind: u32,
    is_64: bool,
    endian: Endianness,
) -> Relocations<'_> {
    let kind = SectionType(section_kind);
    if is_64 {
        of_class::<FileHeader64<Endianness>>(bytes, kind, endian)
    } else {
        of_class::<FileHeader32<Endianness>>(bytes, kind, endian)
    }
}

fn of_class<Elf: FileHeader<Endian = Endianness>>(
    bytes: &[u8],
    kind: SectionType,
    endian: Endianness,
) -> Relocations<'_> {
    let convert = move |entry: Crel| Relocation {
        address: Svma(entry.r_offset),
        symbol: entry.r_sym,
        kind: entry.r_type.0,
        addend: (kind == SHT_RELA).then_some(entry.r_addend),
    };
    match kind {
        SHT_REL => {
            let entries = entries::<Elf::Rel>(bytes).iter();
            Box::new(entries.map(move |entry| convert(Crel::from_rel(entry, endian))))
        }
        SHT_RELA => {
            let entries = entries::<Elf::Rela>(bytes).iter();
            Box::new(entries.map(move |entry| convert(Crel::from_rela(entry, endian, false))))
        }
        _ => Box::new(core::iter::empty()),
    }
}
